"""Ends this process when its parent is gone: `python -m twinlog.pipeline.leash <module>` runs a module so.

Spark's workers hang on a daemon, which ends them when its pipe from the JVM ends. The process of a stream's reader
hangs on nothing: it notices the JVM's death when it next has an answer to give, and ours may wait long before it has.
"""

import os
import runpy
import sys
import threading
import time

_INTERVAL = 0.5


def hold() -> None:
    threading.Thread(target=_watch, args=[os.getppid()], name="leash", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_INTERVAL)
    os._exit(1)  # nobody is left to whom anything could be said


def main() -> None:
    hold()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
