"""The clock of a process can be stepped while it runs, and sleeping still works."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.errors import LabError
from soak.clock import Clock

SCRIPT = """
import sys, threading, time
for _ in sys.stdin:
    before = time.monotonic()
    time.sleep(0.01)
    threading.Event().wait(0.01)
    assert time.monotonic() - before >= 0.02
    print(int(time.time()), flush=True)
"""


def test_a_step_is_seen_at_once_and_waiting_still_works(tmp_path: Path) -> None:
    try:
        clock = Clock(tmp_path)
    except LabError as error:
        pytest.skip(str(error))
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **clock.env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for seconds in (0, 86_400, -600, 0):
            clock.step(seconds)
            process.stdin.write("\n")
            process.stdin.flush()
            assert abs(int(process.stdout.readline()) - time.time() - seconds) < 300
        process.stdin.close()
        assert process.wait() == 0
