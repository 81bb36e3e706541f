"""Exits when the parent process is gone: `python -m twinlog.spark.parent_watchdog <module>` runs a module this way.

Spark's workers end with their daemon, which ends when its pipe from the JVM closes. The process of a stream reader has
no daemon: it notices that the JVM is gone only when it next writes a result, and our reader can wait long before that.
"""

import os
import runpy
import sys
import threading
import time

_INTERVAL = 0.5


def start_watchdog() -> None:
    threading.Thread(target=_watch, args=[os.getppid()], name="parent watchdog", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_INTERVAL)
    os._exit(1)


def main() -> None:
    start_watchdog()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
