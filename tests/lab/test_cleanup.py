"""However a process with clusters ends, its brokers are killed and its folder is removed."""

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

from lab import jars
from lab.errors import LabError
from lab.lab import Lab
from lab.process import Process, tail
from lab.waiting import until
from twinlog import java

# Starts two clusters, pauses one broker (which then does not react to SIGTERM), prints what it has, and waits.
PARENT = """
import json, signal, sys, time
from lab import process
from lab.lab import Lab
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
with Lab() as lab:
    us, eu = lab.clusters("us", "eu")
    eu.brokers[0].pause()
    pids = [p.pid for p in lab.processes] + [process.cleanup._process.pid]
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
            printed = json.loads(process.stdout.readline())
            yield Parent(process, Path(printed["folder"]), printed["pids"])
        finally:
            process.kill()


def runs(pid: int) -> bool:
    """False for a zombie."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def assert_cleaned_up(left: Parent) -> None:
    until(lambda: not any(map(runs, left.pids)), "waiting for processes to exit", seconds=30)
    until(lambda: not left.folder.exists(), "waiting for the folder to be removed", seconds=30)


@pytest.mark.broker
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)], ids=lambda number: number.name
)
def test_a_parent_that_is_killed_leaves_nothing(number: signal.Signals) -> None:
    with parent() as left:
        assert all(map(runs, left.pids))
        assert left.folder.is_dir()
        left.process.send_signal(number)
        left.process.wait()
        assert_cleaned_up(left)


@pytest.mark.broker
@pytest.mark.slow
def test_ctrl_c_leaves_nothing() -> None:
    with parent() as left:
        os.killpg(left.process.pid, signal.SIGINT)  # a terminal sends it to the whole group
        left.process.wait()
        assert_cleaned_up(left)
        assert left.process.stderr is not None
        assert "KeyboardInterrupt" in left.process.stderr.read()


@pytest.mark.broker
def test_a_broker_that_cannot_start_reports_why_and_keeps_its_log_but_no_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TWINLOG_LAB_DIR", str(tmp_path / "labs"))
    with pytest.raises(LabError) as caught, Lab() as lab:
        lab.cluster("bad", settings={"num.io.threads": "plenty"})
    first, *rest = str(caught.value).splitlines()
    assert re.match(r"bad broker 0 exited with code 1; log \S+ ends with:", first)
    assert any("Invalid value plenty for configuration num.io.threads" in line for line in rest)
    assert caught.value.__notes__ == [f"logs of the lab: {lab.folder}"]
    assert lab.folder.parent == tmp_path / "labs"
    broker = lab.folder / "bad" / "broker-0"
    assert sorted(file.name for file in broker.iterdir()) == ["broker.log", "server.properties"]
    assert "num.io.threads" in tail(broker / "broker.log", 100)


@pytest.mark.broker
@pytest.mark.slow
def test_a_class_archive_is_written_once_and_a_corrupt_one_is_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = jars.fetch(jars.NEWEST)
    (tmp_path / folder.name).symlink_to(folder)
    monkeypatch.setenv("TWINLOG_CACHE", str(tmp_path))
    with Lab() as lab:
        lab.cluster("first")
    archives = list(tmp_path.glob("broker-*.jsa"))
    # The archive extends the JDK's own class archive, which a stripped runtime, such as pip's, does not have.
    assert len(archives) == (java.find().home / "lib" / "server" / "classes.jsa").is_file()
    for archive in archives:
        archive.chmod(0o600)
        archive.write_bytes(b"not an archive")
    with Lab() as lab:
        lab.cluster("second").create_topic("orders")
    assert [archive.read_bytes() for archive in archives] == [b"not an archive"] * len(archives)


def test_a_process_is_stopped_by_sigterm_and_killed_only_if_it_ignores_it(tmp_path: Path) -> None:
    graceful = Process("graceful", tmp_path / "graceful.log")
    graceful.launch(["/bin/sh", "-c", "trap 'echo bye; exit 3' TERM; echo hello; while :; do sleep 0.05; done"])
    until(lambda: "hello" in graceful.tail(), "starting")
    graceful.stop()
    assert graceful.exit_code == 3
    assert graceful.tail().endswith("bye")
    ignoring = Process("ignoring", tmp_path / "ignoring.log")
    ignoring.launch(["/bin/sh", "-c", "trap '' TERM; echo hello; while :; do sleep 0.05; done"])
    until(lambda: "hello" in ignoring.tail(), "starting")
    ignoring.stop(timeout=0.2)
    assert ignoring.exit_code == -signal.SIGKILL


def test_a_paused_process_can_be_killed_and_stopped(tmp_path: Path) -> None:
    for end in (Process.kill, Process.stop):
        process = Process("sleeper", tmp_path / "log")
        process.launch(["sleep", "600"])
        process.pause()
        end(process)
        assert not process.alive


def test_a_process_runs_once_at_a_time_and_reads_its_standard_input(tmp_path: Path) -> None:
    stdin = tmp_path / "stdin"
    stdin.write_text("words with spaces\n")
    process = Process("cat", tmp_path / "log")
    process.launch(["cat"], stdin=stdin)
    assert process.wait(30) == 0
    assert process.tail() == "words with spaces"
    process.launch(["sleep", "600"])
    with pytest.raises(LabError, match=r"cat is already running \(pid \d+\)"):
        process.launch(["sleep", "600"])
    process.kill()
