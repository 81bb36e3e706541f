"""examples/one-way: the producer that follows a directory, the files, and the whole example."""

import dataclasses
import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Producer

from lab.access_logs import HEADER
from lab.cluster import Cluster
from lab.compare_logs import read
from lab.errors import LabError
from lab.example import filled
from lab.waiting import until

HERE = Path(__file__).parents[2]
EXAMPLE = HERE / "examples" / "one-way"

Load = Callable[[str, str], ModuleType]


@pytest.fixture
def follower(module: Load) -> ModuleType:
    return module("one-way", "follower")


@pytest.fixture
def producer(module: Load) -> ModuleType:
    return module("one-way", "edgar_producer")


def take(follower: Any) -> list[str]:
    """Reads all new lines."""
    found = []
    while chunks := list(follower.chunks()):
        for chunk in chunks:
            found += [line.decode() for line in chunk.lines]
            follower.advance(chunk)
    return found


# Following a directory


def test_new_and_growing_files_are_read_once(follower: ModuleType, tmp_path: Path) -> None:
    following = follower.Follower(tmp_path)
    assert take(following) == []
    (tmp_path / "a.csv").write_text("1\n2\n3 is not complete")
    assert take(following) == ["1", "2"]
    assert take(following) == []
    with (tmp_path / "a.csv").open("a") as out:
        out.write(" yet\r\n4\n")
    (tmp_path / "b.csv").write_text("5\n\n6\n")
    assert take(following) == ["3 is not complete yet", "4", "5", "6"]


def test_a_rotated_file_is_followed_under_its_new_name(follower: ModuleType, tmp_path: Path) -> None:
    following = follower.Follower(tmp_path)
    current = tmp_path / "access.csv"
    current.write_text("1\n2\n")
    assert take(following) == ["1", "2"]
    with current.open("a") as out:
        out.write("3\n")
    current.rename(tmp_path / "access.csv.1")
    current.write_text("4\n")
    assert sorted(take(following)) == ["3", "4"]
    assert {position.name for position in following.positions} == {"access.csv", "access.csv.1"}


def test_a_truncated_file_is_read_from_its_start(follower: ModuleType, tmp_path: Path) -> None:
    following = follower.Follower(tmp_path)
    file = tmp_path / "a.csv"
    file.write_text("1\n2\n3\n")
    assert take(following) == ["1", "2", "3"]
    file.write_text("4\n")  # the same inode, shorter
    assert take(following) == ["4"]
    file.write_text("5\n6\n7\n8\n")  # longer than before: only its first bytes differ
    assert take(following) == ["5", "6", "7", "8"]


def test_positions_survive_a_restart(follower: ModuleType, tmp_path: Path) -> None:
    logs, state = tmp_path / "logs", tmp_path / "positions.json"
    logs.mkdir()
    (logs / "a.csv").write_text("1\n2\n")
    first = follower.Follower(logs, follower.load(state))
    assert take(first) == ["1", "2"]
    follower.store(state, first.positions)
    (logs / "a.csv").rename(logs / "a.csv.1")
    with (logs / "a.csv.1").open("a") as out:
        out.write("3\n")
    second = follower.Follower(logs, follower.load(state))
    assert take(second) == ["3"]
    assert follower.load(state) == first.positions
    third = follower.Follower(logs, follower.load(state))  # lines after the stored position are read again
    assert take(third) == ["3"]


def test_chunks_repeat_until_the_position_advances(follower: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1\n")
    following = follower.Follower(tmp_path)
    assert [chunk.lines for chunk in following.chunks()] == [[b"1"]]
    assert [chunk.lines for chunk in following.chunks()] == [[b"1"]]


def test_the_position_of_a_missing_file_is_kept_for_a_while(follower: ModuleType, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.csv").write_text("1\n")
    following = follower.Follower(logs)
    take(following)
    (logs / "a.csv").rename(tmp_path / "a.csv")
    assert take(following) == []
    (tmp_path / "a.csv").rename(logs / "b.csv")
    assert take(following) == []


def test_the_position_of_a_missing_file_is_dropped_eventually(
    follower: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("1\n")
    following = follower.Follower(tmp_path)
    take(following)
    (tmp_path / "a.csv").unlink()
    monkeypatch.setattr(follower, "FORGET_SECONDS", -1.0)
    take(following)
    assert following.positions == []


def test_a_last_line_without_a_line_end_is_read_after_a_while(follower: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1\n2")
    following = follower.Follower(tmp_path, unfinished_after=30)
    assert take(following) == ["1"]
    long_ago = time.time() - 60
    os.utime(file, (long_ago, long_ago))
    assert take(following) == ["2"]


def test_a_large_file_is_read_in_turns(follower: ModuleType, tmp_path: Path) -> None:
    lines = [f"{number:07d}" for number in range(300_000)]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "b.csv").write_text("small\n")
    following = follower.Follower(tmp_path)
    first = list(following.chunks())
    assert [chunk.position.name for chunk in first] == ["a.csv", "b.csv"]
    assert len(first[0].lines) < len(lines)
    assert take(following) == [*lines[: len(first[0].lines)], "small", *lines[len(first[0].lines) :]]


def test_other_files_are_ignored(follower: ModuleType, tmp_path: Path) -> None:
    for name in ("a.csv.gz", ".hidden.csv", "b.tmp", "c.part"):
        (tmp_path / name).write_text("1\n")
    (tmp_path / "folder").mkdir()
    following = follower.Follower(tmp_path)
    assert take(following) == []
    (tmp_path / "core").write_bytes(bytes(2 << 20))
    with pytest.raises(follower.NoLogError, match="core: no line end within"):
        take(following)


# Records and settings

LINE = b"101.81.133.jja,2017-06-30,00:00:00,0.0,1608552.0,0001047469-17-004337,-index.htm,200.0,80251.0,1.0,0.0,0.0,9.0,0.0,"


def test_records(producer: ModuleType) -> None:
    assert producer.HEADER.decode() == HEADER
    assert producer.record(LINE, "csv") == (b"101.81.133.jja", LINE)
    key, value = producer.record(LINE, "json")
    assert key == b"101.81.133.jja"
    named = json.loads(value)
    assert list(named) == HEADER.split(",")
    assert (named["accession"], named["code"], named["browser"]) == ("0001047469-17-004337", "200.0", "")
    assert json.loads(producer.record(b"not,ours", "json")[1]) == {"unparsed": "not,ours"}
    assert json.loads(producer.record(b'a,"b\rc,\xff', "json")[1])


def test_settings_of_a_compose_file(producer: ModuleType, tmp_path: Path) -> None:
    environment = {
        "BOOTSTRAP_SERVERS": r"PLAINTEXT:\/\/node001:9092,PLAINTEXT:\/\/node002:9092",
        "ACKS": "all",
        "RETRIES": "0",
        "BATCH_SIZE": "16384",
        "LINGER_MS": "1",
        "BUFFER_MEMORY": "33554432",
        "KEY_SERIALIZER": "org.apache.kafka.common.serialization.StringSerializer",
        "OUTPUT_FORMAT": "csv",
        "TOPIC_NAME": "apache-logs",
        "INPUT_LOGS_DIR": str(tmp_path).replace("/", r"\/") + r"\/",
    }
    read = producer.settings([], environment)
    assert (read.folder, read.topic, read.output) == (tmp_path, "apache-logs", "csv")
    assert read.state == tmp_path / ".positions.json"
    assert read.client["bootstrap.servers"] == "PLAINTEXT://node001:9092,PLAINTEXT://node002:9092"
    assert read.client["queue.buffering.max.kbytes"] == 32768
    assert (read.client["retries"], read.client["enable.idempotence"]) == ("0", False)
    Producer({**read.client, "log_level": 0})  # librdkafka accepts all of them
    secret = tmp_path / "client.properties"
    secret.write_text("# credentials\nsasl.username = edgar\nsasl.password=a=b\n")
    more = {"STATE_DIRECTORY": "/var/lib/edgar-producer", "CLIENT_PROPERTIES": str(secret), "RETRIES": ""}
    read = producer.settings(["--topic-name", "other", "--output-format", "json"], environment | more)
    assert (read.topic, read.output) == ("other", "json")
    assert read.state == Path("/var/lib/edgar-producer/.positions.json")
    assert (read.client["sasl.username"], read.client["sasl.password"]) == ("edgar", "a=b")
    assert read.client["enable.idempotence"] is True


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"TOPIC_NAME": ""}, "the following arguments are required: --topic-name"),
        ({"OUTPUT_FORMAT": "xml"}, "--output-format 'xml': choose csv or json"),
        ({"INPUT_LOGS_DIR": "/nowhere"}, "--input-logs-dir /nowhere: no such directory"),
    ],
)
def test_wrong_settings(
    producer: ModuleType, tmp_path: Path, change: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {"BOOTSTRAP_SERVERS": "a:1", "TOPIC_NAME": "logs", "INPUT_LOGS_DIR": str(tmp_path)}
    with pytest.raises(SystemExit) as caught:
        producer.settings([], environment | change)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_a_sample_day(module: Load, tmp_path: Path) -> None:
    write_day = module("one-way", "sample_day").write_day
    file = write_day(tmp_path, dt.date(2017, 6, 30), 2000)
    assert file.name == "log20170630.csv"
    header, *lines = file.read_text().splitlines()
    assert (header, len(lines)) == (HEADER, 2000)
    assert {line.split(",")[1] for line in lines} == {"2017-06-30"}
    times = [line.split(",")[2] for line in lines]
    assert times == sorted(times)
    assert times[-1] > "20"
    assert {len(line.split(",")) for line in lines} == {15}
    assert write_day(tmp_path / "again", dt.date(2017, 6, 30), 2000).read_text() == file.read_text()


# On a real broker


@pytest.mark.broker
def test_lines_are_produced_and_positions_stored(producer: ModuleType, us: Cluster, topic: str, tmp_path: Path) -> None:
    us.create_topic(topic, partitions=2)
    day = tmp_path / "log20170630.csv"
    day.write_bytes(HEADER.encode() + b"\n" + LINE + b"\n" + LINE.replace(b"jja", b"abc") + b"\nno end")
    arguments = ["--bootstrap-servers", us.bootstrap(), "--topic-name", topic, "--input-logs-dir", str(tmp_path)]
    once = producer.settings([*arguments, "--once"], {})
    stopped = threading.Event()
    assert producer.run(once, stopped) == 3
    assert producer.run(once, stopped) == 0
    with day.open("ab") as out:
        out.write(b" yet\nlast\n")
    as_json = dataclasses.replace(once, output="json")
    assert producer.run(as_json, stopped) == 2
    values = [record.value for partition in (0, 1) for record in read(us.client_properties(), topic, partition)]
    assert sorted(filter(None, values)) == sorted(
        [LINE, LINE.replace(b"jja", b"abc"), b"no end", b'{"unparsed": " yet"}', b'{"unparsed": "last"}']
    )


@pytest.mark.broker
def test_a_rejected_line_ends_the_program_without_storing_its_position(us: Cluster, topic: str, tmp_path: Path) -> None:
    us.create_topic(topic, configs={"max.message.bytes": "200"})
    (tmp_path / "a.csv").write_bytes(b"x" * 5000 + b"\n")
    arguments = ["--bootstrap-servers", us.bootstrap(), "--topic-name", topic, "--input-logs-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, EXAMPLE / "edgar_producer.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert f"edgar_producer: {topic}: Broker: Message size too large" in done.stderr
    assert not (tmp_path / ".positions.json").exists()


@pytest.mark.broker
def test_it_blocks_on_a_full_buffer_and_stops_gracefully(us: Cluster, topic: str, tmp_path: Path) -> None:
    us.create_topic(topic)
    (tmp_path / "a.csv").write_text("".join(f"{number},some line\n" for number in range(20_000)))
    arguments = ["--bootstrap-servers", us.bootstrap(), "--topic-name", topic, "--input-logs-dir", str(tmp_path)]
    with subprocess.Popen(
        # A buffer of one kilobyte is always full.
        [sys.executable, EXAMPLE / "edgar_producer.py", *arguments, "--buffer-memory", "1024", "--linger-ms", "0"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert "following" in process.stdout.readline()
            stored = tmp_path / ".positions.json"
            size = (tmp_path / "a.csv").stat().st_size
            until(
                lambda: stored.exists() and f'"position": {size}' in stored.read_text(),
                "waiting for the last position",
                seconds=120,
            )
            process.terminate()
            output = process.stdout.read()
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert "produced 20000 lines" in output
    values = [record.value for record in read(us.client_properties(), topic)]
    assert values == [f"{number},some line".encode() for number in range(20_000)]


# Files


def test_the_properties_are_the_original() -> None:
    seed = HERE / "tests" / "config" / "seeds" / "one-way.properties"
    assert (EXAMPLE / "mm2-data-replication.properties").read_text() == seed.read_text()


def test_systemd_units_are_valid(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is missing: it is in Debian's package systemd")
    for name in ("twinlog.service", "edgar-producer.service"):
        text = (EXAMPLE / name).read_text()
        (program,) = re.findall(r"^ExecStart=(\S+)", text, re.MULTILINE)
        # systemd-analyze requires that the program exists.
        (tmp_path / name).write_text(text.replace(f"ExecStart={program}", "ExecStart=/bin/sh"))
        done = subprocess.run(
            ["systemd-analyze", "verify", tmp_path / name], capture_output=True, text=True, check=False
        )
        errors = [line for line in (done.stderr + done.stdout).splitlines() if name in line]
        assert not errors
        assert not re.search(r"^User=root", text, re.MULTILINE)
        assert re.search(r"^User=\w+", text, re.MULTILINE)


def test_only_addresses_are_replaced() -> None:
    text = "a = kafka1:9092\nb = kafka1:90921, my-kafka1:9092, kafka1:9092,kafka2:9092\n"
    new = {"kafka1:9092": "kafka2:9092", "kafka2:9092": "127.0.0.1:1"}
    assert filled(text, new) == "a = kafka2:9092\nb = kafka1:90921, my-kafka1:9092, kafka2:9092,127.0.0.1:1\n"
    with pytest.raises(LabError, match=r"mm2.properties: address kafka3:9092 not found"):
        filled(text, {"kafka3:9092": "x"}, "mm2.properties")


# The whole example


@pytest.mark.broker
@pytest.mark.spark
def test_example(run_example: Callable[..., str]) -> None:
    output = run_example("one-way", "--seconds", "6")
    assert "Created topic DmmAccess." in output
    assert "Created topic apache-logs." in output
    (lines,) = re.findall(r"([\d,]+) lines in files: all are on rdc", output)
    compared = re.findall(r"^  (\S+) on rdc and rdc\.\S+ on ord: ([\d,]+) records, equal$", output, re.MULTILINE)
    counts = {topic: int(count.replace(",", "")) for topic, count in compared}
    assert counts["apache-logs"] >= int(lines.replace(",", "")) > 20_000
    assert counts["DmmAccess"] > 0
    for topic, count in counts.items():
        assert re.search(
            rf'twinlog_topic_records_total{{flow="rdc->ord",topic="{topic}"}} {count}$', output, re.MULTILINE
        )
    assert "\nverified in " in output
