"""The demo and the bench, as `make` runs them, but shorter."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench.far import FAR, FAR_TUNED, LinkUsed
from bench.replicators import REPLICATORS, TUNED, Route, properties
from bench.run import machine
from bench.steady_load import Many, Steady, percentile
from bench.tables import copied_table, links_table, targets
from bench.throughput import LOADS, Copied
from demo import __main__ as demo
from demo.screen import Frame, Row, Screen, Style, lines, supports_colour
from lab.entrypoint import INTERRUPTED, Interrupts, run_program
from lab.resource_usage import Meter

FRAME = Frame(
    "replicating",
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
@pytest.mark.slow
def test_the_demo_verifies_that_both_logs_are_equal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert demo.main(["--seconds", "4", "--rate", "500", "--history", "5000", "--folder", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "demo: created topic searches on us" in output
    assert "demo: increased errors from 2 to 4 partitions" in output
    compared = re.findall(r"^  (\S+) +on us  =  us\.\S+ +on eu +([\d,]+) records   equal$", output, re.MULTILINE)
    assert [topic for topic, _ in compared] == ["access-logs", "errors", "crawlers", "searches"]
    total = sum(int(count.replace(",", "")) for _, count in compared)
    assert total > 5000
    assert f"{total:,} records: equal in key, value, headers, timestamp, codec, partition and order" in output
    assert "SIGTERM: twinlog run exited after" in output
    assert "\033" not in output
    assert (tmp_path / "mm2.properties").exists()


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.slow
def test_the_bench_measures_and_writes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "build" / "bench.json"
    selected = ["--case", "tls", "--replicator", "tuned", "--replicator", "twinlog"]
    assert bench.main(["--quick", *selected, "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["machine"]["cores"] >= 1
    assert found["settings"]["quick"] is True
    assert [(each["case"], each["replicator"]) for each in found["copied"]] == [
        ("tls", "tuned"),
        ("tls", "twinlog"),
    ]
    for each in found["copied"]:
        assert each["records"] == LOADS["tls"].quick_records
        assert each["equal"] is True
    assert (found["steady"], found["many"]) == ([], [])
    assert {each["what"] for each in found["targets"]} == {"throughput, 1 KB records over TLS"}
    assert "1 KB over TLS  Twinlog" in capsys.readouterr().out


def test_a_frame_fits_its_width() -> None:
    for width in (40, 80, 100):
        shown = lines(FRAME, Style(enabled=False), width)
        assert max(map(len, shown[1:])) <= width
        assert not any("\033" in line for line in shown)
    plain = [re.sub(r"\033\[[\d;]*m", "", line) for line in lines(FRAME, Style(enabled=True), 100)]
    assert plain == lines(FRAME, Style(enabled=False), 100)


def test_no_color_is_respected() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert supports_colour(Terminal(), {})
    assert not supports_colour(Terminal(), {"NO_COLOR": "1"})
    assert not supports_colour(io.StringIO(), {})


def test_output_without_a_terminal_is_plain_lines() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.show(FRAME)
    screen.show(FRAME)  # too soon: nothing is printed
    screen.show(FRAME, last=True)
    printed = out.getvalue().splitlines()
    assert len(printed) == len(FRAME.events) + 2
    assert "12,345,678 records" in printed[-1]
    assert "\033" not in out.getvalue()


def test_ctrl_c_ends_without_a_stack_trace(capsys: pytest.CaptureFixture[str]) -> None:
    def program(interrupts: Interrupts) -> int:
        interrupts.imports_done()
        interrupts.defer()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.requested.wait(1)
        interrupts.raise_again()
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError

    before = signal.getsignal(signal.SIGINT)
    assert run_program(program) == INTERRUPTED
    assert signal.getsignal(signal.SIGINT) is before
    assert "interrupted" in capsys.readouterr().err


def test_ctrl_c_during_imports_ends_at_once() -> None:
    code = (
        "import os, signal; from lab.entrypoint import run_program;"
        "run_program(lambda _: os.kill(os.getpid(), signal.SIGINT))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (INTERRUPTED, "")


def test_results_are_compared_with_the_targets() -> None:
    def copied(case: str, replicator: str, speed: float, cpu: float) -> Copied:
        return Copied(case, case, replicator, 1000, 1.0, speed, speed, cpu, 500.0, 5.0, None)

    def steady(replicator: str, p50: float, p99: float) -> Steady:
        return Steady(replicator, 1000, 0, p50, p99, p99, p99, 5.0, 1.0, 500.0)

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


def test_cases_and_replicators() -> None:
    assert REPLICATORS["tuned"].settings["tasks.max"] == "2"
    assert not REPLICATORS["shipped"].settings
    assert set(bench.CASES) == {*LOADS, "latency", "many"}
    assert set(bench.FAR_CASES) == set(FAR)
    assert set(bench.REPLICATORS) == set(REPLICATORS)


def test_far_cases_run_only_if_they_are_named() -> None:
    assert bench.selected([]) == list(bench.CASES)
    assert bench.selected(["far"]) == list(bench.FAR_CASES)
    assert bench.selected(["many", "far-target", "1kb"]) == ["far-target", "1kb", "many"]


def test_the_file_of_a_replicator_names_its_route_and_the_number_of_tasks() -> None:
    route = Route({"bootstrap.servers": "far:1"}, {"bootstrap.servers": "near:2"}, {"tasks.max": "6", **FAR_TUNED})
    found = properties(REPLICATORS["tuned"], route, "tuned-far", "orders")
    assert found["tuned-far.bootstrap.servers"] == "far:1"
    assert found["eu.bootstrap.servers"] == "near:2"
    assert found["tasks.max"] == "6"
    assert found["tuned-far.consumer.receive.buffer.bytes"] == "-1"
    assert found["eu.producer.batch.size"] == TUNED["{target}.producer.batch.size"]


def test_the_table_of_links_shows_which_emulation_was_used() -> None:
    used = LinkUsed("far-source", "tuned", "TCP proxy (no /dev/net/tun)", str(FAR["far-source"].conditions), 2, 100.42)
    assert links_table([used]).splitlines()[-1].split()[-2:] == ["2", "100.4"]
    assert "MM2 tuned   TCP proxy (no /dev/net/tun)  100 ms round trip" in links_table([used])


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's /proc")
def test_cpu_of_exited_children_is_counted() -> None:
    # Like Spark's daemon: children that are not waited for, so that their time is not added to the parent's.
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
def test_description_of_the_machine() -> None:
    facts = machine()
    assert facts["memory_gigabytes"] > 0
    assert {"kafka", "spark", "java", "python", "twinlog", "processor", "load_before"} <= set(facts)
