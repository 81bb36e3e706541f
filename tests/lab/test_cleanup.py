"""Nothing is left behind: however a process that runs clusters ends, its brokers and its folder end with it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from twinlog import java
from twinlog.errors import LabError
from twinlog.lab import jars
from twinlog.lab.lab import Lab
from twinlog.lab.process import Process, tail
from twinlog.lab.waiting import until

# Starts two clusters, pauses one broker (which then hears no polite signal), says what it has, and waits.
PARENT = """
import json, sys, time
from twinlog.lab import process
from twinlog.lab.lab import Lab
with Lab() as lab:
    us, eu = lab.clusters("us", "eu")
    eu.brokers[0].pause()
    pids = [p.pid for p in lab.processes] + [process.guardian._process.pid]
    print(json.dumps({"folder": str(lab.folder), "pids": pids}), flush=True)
    time.sleep(600)
"""


@dataclass(frozen=True)
class Parent:
    process: subprocess.Popen[str]
    folder: Path
    pids: list[int]


@contextmanager
def parent() -> Iterator[Parent]:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            yield Parent(process, Path(said["folder"]), said["pids"])
        finally:
            process.kill()


def runs(pid: int) -> bool:
    """A zombie does not count: who reaps the orphans of this machine is not our business."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def assert_gone(left: Parent) -> None:
    until(lambda: not any(map(runs, left.pids)), "no process is left", seconds=30)
    until(lambda: not left.folder.exists(), "no folder is left", seconds=30)


@pytest.mark.broker
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_a_parent_that_is_killed_leaves_nothing(number: signal.Signals) -> None:
    with parent() as left:
        assert all(map(runs, left.pids))
        assert left.folder.is_dir()
        left.process.send_signal(number)
        left.process.wait()
        assert_gone(left)


@pytest.mark.broker
def test_ctrl_c_leaves_nothing() -> None:
    with parent() as left:
        os.killpg(left.process.pid, signal.SIGINT)  # a terminal sends it to the whole group
        left.process.wait()
        assert_gone(left)
        assert left.process.stderr is not None
        assert "KeyboardInterrupt" in left.process.stderr.read()


@pytest.mark.broker
def test_a_broker_that_cannot_start_says_why_and_keeps_its_log_but_no_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TWINLOG_LAB_DIR", str(tmp_path / "labs"))
    with pytest.raises(LabError) as caught, Lab() as lab:
        lab.cluster("bad", settings={"num.io.threads": "plenty"})
    first, *rest = str(caught.value).splitlines()
    assert re.match(r"bad broker 0 ended with exit code 1; its log is \S+ and ends with:", first)
    assert any("Invalid value plenty for configuration num.io.threads" in line for line in rest)
    assert caught.value.__notes__ == [f"the lab's logs are kept in {lab.folder}"]
    assert lab.folder.parent == tmp_path / "labs"
    broker = lab.folder / "bad" / "broker-0"
    assert sorted(file.name for file in broker.iterdir()) == ["broker.log", "server.properties"]
    assert "num.io.threads" in tail(broker / "broker.log", 100)


@pytest.mark.broker
def test_an_archive_is_written_once_and_a_broken_one_does_no_harm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = jars.fetch(jars.NEWEST)
    (tmp_path / folder.name).symlink_to(folder)
    monkeypatch.setenv("TWINLOG_CACHE", str(tmp_path))
    with Lab() as lab:
        lab.cluster("first")
    archives = list(tmp_path.glob("broker-*.jsa"))
    # Java can only add to the archive of its own classes: a stripped runtime, as pip brings it, has none.
    assert len(archives) == (java.find().home / "lib" / "server" / "classes.jsa").is_file()
    for archive in archives:
        archive.chmod(0o600)
        archive.write_bytes(b"not an archive")
    with Lab() as lab:
        lab.cluster("second").create_topic("orders")
    assert [archive.read_bytes() for archive in archives] == [b"not an archive"] * len(archives)


def test_a_process_is_stopped_in_order_and_killed_only_if_it_does_not_listen(tmp_path: Path) -> None:
    polite = Process("polite", tmp_path / "polite.log")
    polite.launch(["/bin/sh", "-c", "trap 'echo bye; exit 3' TERM; echo hello; while :; do sleep 0.05; done"])
    until(lambda: "hello" in polite.tail(), "it runs")
    polite.stop()
    assert polite.exit_code == 3
    assert polite.tail().endswith("bye")
    deaf = Process("deaf", tmp_path / "deaf.log")
    deaf.launch(["/bin/sh", "-c", "trap '' TERM; echo hello; while :; do sleep 0.05; done"])
    until(lambda: "hello" in deaf.tail(), "it runs")
    deaf.stop(patience=0.2)
    assert deaf.exit_code == -signal.SIGKILL


def test_a_paused_process_can_be_killed_and_stopped(tmp_path: Path) -> None:
    for end in (Process.kill, Process.stop):
        process = Process("sleeper", tmp_path / "log")
        process.launch(["sleep", "600"])
        process.pause()
        end(process)
        assert not process.alive


def test_a_process_runs_once_at_a_time_and_reads_what_it_is_given(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_text("words with spaces\n")
    process = Process("cat", tmp_path / "log")
    process.launch(["cat"], stdin=given)
    assert process.wait(30) == 0
    assert process.tail() == "words with spaces"
    process.launch(["sleep", "600"])
    with pytest.raises(LabError, match=r"cat is already running \(pid \d+\)"):
        process.launch(["sleep", "600"])
    process.kill()
