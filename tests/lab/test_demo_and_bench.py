"""The demo and the bench, as `make` runs them, only shorter."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from twinlog.lab import bench, demo
from twinlog.lab.bench_contenders import CONTENDERS
from twinlog.lab.bench_copy import LOADS, Copied
from twinlog.lab.bench_run import machine
from twinlog.lab.bench_steady import Many, Steady, percentile
from twinlog.lab.bench_table import copied_table, targets
from twinlog.lab.demo_door import INTERRUPTED, Interrupts, enter
from twinlog.lab.demo_view import Paint, Picture, Row, Screen, lines, wants_colour
from twinlog.lab.usage import Meter

PICTURE = Picture(
    "relaying",
    12,
    50,
    (
        Row("access-logs", "running", 4, 12_345_678, 123_456, 123_456.7, 98_765_432, 12.3),
        Row("a-topic-with-quite-a-long-name-that-does-not-fit", new=True),
    ),
    4.2,
    123_456.7,
    900_000_000,
    1_000_000_000,
    12.3,
    [("12:00:00", "us->eu: " + "a long event " * 20)] * 12,
)


@pytest.mark.broker
@pytest.mark.spark
def test_the_demo_proves_that_both_logs_are_equal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert demo.main(["--seconds", "4", "--rate", "500", "--history", "5000", "--folder", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "demo: topic searches is made on us" in said
    assert "demo: errors gets 4 partitions instead of 2" in said
    compared = re.findall(r"^  (\S+) +on us  =  us\.\S+ +on eu +([\d,]+) records   equal$", said, re.MULTILINE)
    assert [topic for topic, _ in compared] == ["access-logs", "errors", "crawlers", "searches"]
    total = sum(int(count.replace(",", "")) for _, count in compared)
    assert total > 5000
    assert f"{total:,} records: equal in key, value, headers, timestamp, codec, partition and order" in said
    assert "SIGTERM: twinlog run has ended after" in said
    assert "\033" not in said
    assert (tmp_path / "mm2.properties").exists()


@pytest.mark.broker
@pytest.mark.spark
def test_the_bench_measures_and_writes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "build" / "bench.json"
    what = ["--case", "tls", "--contender", "tuned", "--contender", "twinlog"]
    assert bench.main(["--quick", *what, "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["machine"]["cores"] >= 1
    assert found["settings"]["quick"] is True
    assert [(each["case"], each["contender"]) for each in found["copied"]] == [
        ("tls", "tuned"),
        ("tls", "twinlog"),
    ]
    for each in found["copied"]:
        assert each["records"] == LOADS["tls"].quick_records
        assert each["equal"] is True
    assert (found["steady"], found["many"]) == ([], [])
    assert {each["what"] for each in found["targets"]} == {"throughput, 1 KB records over TLS"}
    said = capsys.readouterr().out
    assert "1 KB over TLS  Twinlog" in said


def test_a_picture_fits_its_width() -> None:
    for width in (40, 80, 100):
        shown = lines(PICTURE, Paint(wanted=False), width)
        assert max(map(len, shown[1:])) <= width
        assert not any("\033" in line for line in shown)
    plain = [re.sub(r"\033\[[\d;]*m", "", line) for line in lines(PICTURE, Paint(wanted=True), 100)]
    assert plain == lines(PICTURE, Paint(wanted=False), 100)


def test_no_color_is_respected() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert wants_colour(Terminal(), {})
    assert not wants_colour(Terminal(), {"NO_COLOR": "1"})
    assert not wants_colour(io.StringIO(), {})


def test_where_nobody_looks_there_are_plain_lines() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.show(PICTURE)
    screen.show(PICTURE)  # too soon: nothing new to say
    screen.show(PICTURE, last=True)
    said = out.getvalue().splitlines()
    assert len(said) == len(PICTURE.events) + 2
    assert "12,345,678 records" in said[-1]
    assert "\033" not in out.getvalue()


def test_ctrl_c_ends_without_a_stack_trace(capsys: pytest.CaptureFixture[str]) -> None:
    def program(interrupts: Interrupts) -> int:
        interrupts.loaded()
        interrupts.soft()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.asked.wait(1)
        interrupts.hard()
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError

    before = signal.getsignal(signal.SIGINT)
    assert enter(program) == INTERRUPTED
    assert signal.getsignal(signal.SIGINT) is before
    assert "stopped" in capsys.readouterr().err


def test_ctrl_c_during_imports_ends_at_once() -> None:
    code = "import os, signal; from twinlog.lab.demo_door import enter; enter(lambda _: os.kill(os.getpid(), signal.SIGINT))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (INTERRUPTED, "")


def test_figures_are_held_against_the_targets() -> None:
    def copied(case: str, contender: str, speed: float, cpu: float) -> Copied:
        return Copied(case, case, contender, 1000, 1.0, speed, speed, cpu, 500.0, 5.0, None)

    def steady(contender: str, p50: float, p99: float) -> Steady:
        return Steady(contender, 1000, 0, p50, p99, p99, p99, 5.0, 1.0, 500.0)

    def many(partitions: int, cpu: float) -> Many:
        return Many("twinlog", partitions, 100.0, 0, 1.0, 2.0, cpu, 1.0, 500.0, 10.0)

    rows = [
        copied("1kb", "tuned", 100, 16),
        copied("1kb", "twinlog", 250, 2),
        copied("100b", "tuned", 100, 50),
        copied("100b", "twinlog", 499, 2.1),
        copied("tiny", "shipped", 100, 1),
        copied("tiny", "tuned", 120, 1),
        copied("tiny", "twinlog", 110, 1),
    ]
    found = targets(rows, [steady("shipped", 5, 50), steady("twinlog", 2, 60)], [many(500, 5), many(2000, 21)])
    assert {each.what: each.met for each in found} == {
        "throughput, 1 KB records": True,
        "throughput, 100 B records": False,
        "CPU per GB, 1 KB records": True,
        "CPU per GB, 100 B records": False,
        "throughput, one-record batches": False,
        "latency at a steady rate, p50": True,
        "latency at a steady rate, p99": False,
        "idle flow": True,
        "2,000 partitions": True,
        "CPU at 4 times the partitions": False,
    }
    table = copied_table(rows).splitlines()
    assert len(table) == len(rows) + 2
    assert len(table[0]) == len(table[1])


def test_percentiles() -> None:
    values = [float(each) for each in range(1, 1001)]
    assert [percentile(values, share) for share in (0.5, 0.99, 0.999)] == [501, 991, 1000]
    assert percentile([3.0], 0.999) == 3


def test_the_tuned_settings_are_those_of_the_issue() -> None:
    assert CONTENDERS["tuned"].settings["tasks.max"] == "2"
    assert not CONTENDERS["shipped"].settings
    assert set(bench.CASES) == {*LOADS, "latency", "many"}
    assert set(bench.CONTENDERS) == set(CONTENDERS)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells")
def test_cpu_of_children_that_are_gone_is_not_forgotten() -> None:
    # As Spark's daemon does: children that nobody waits for, whose time goes to nobody's account.
    code = """if True:
        import os, signal, sys, time
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        if os.fork() == 0:
            end = time.process_time() + 1
            while time.process_time() < end: pass
            sys.stdout.write("x"); sys.stdout.flush(); time.sleep(0.3); os._exit(0)
        time.sleep(0.1)
        sys.stdin.read()
    """
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with Meter(process.pid, every=0.05) as meter:
            assert process.stdout.read(1) == b"x"
            process.stdout.close()
            while Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                pass
            _, cpu = meter.spent()
        process.communicate(b"")
    assert cpu is not None
    assert cpu >= 0.9
    assert meter.peak > 0


@pytest.mark.java
def test_facts_of_the_machine() -> None:
    facts = machine()
    assert facts["memory_gigabytes"] > 0
    assert {"kafka", "spark", "java", "python", "twinlog", "processor", "load_before"} <= set(facts)
