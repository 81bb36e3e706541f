import subprocess
import sys
import time

import pytest

from twinlog.metrics.process import Usage, UsageReader

_CHILD = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
_PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {_CHILD!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print(flush=True)
input()
child.communicate(b"\\n")
print(flush=True)
input()
"""


def read(reader: UsageReader) -> Usage:
    usage = reader.read()
    assert usage is not None
    return usage


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")
def test_cpu_time_of_ended_children_is_included() -> None:
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        reader = UsageReader(parent.pid)
        parent.stdout.readline()
        both = read(reader)
        parent.stdin.write(b"\n")
        parent.stdin.flush()
        parent.stdout.readline()
        one = read(reader)
        parent.communicate(b"\n")
        assert reader.read() is None
    assert (both.processes, one.processes) == (2, 1)
    assert both.cpu_seconds >= 0.3
    assert one.cpu_seconds >= both.cpu_seconds
    assert both.memory_bytes > one.memory_bytes > 1_000_000
    assert both.threads == 2
    assert time.time() - 60 < one.started_at <= time.time() + 1


def test_this_process_is_the_default() -> None:
    assert read(UsageReader()).cpu_seconds > 0
