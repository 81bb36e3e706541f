"""Publishes the lines of every file in a directory to a Kafka topic, and goes on as files grow, are rotated, and come.

    INPUT_LOGS_DIR=/edgar/input_logs BOOTSTRAP_SERVERS=node001:9092 TOPIC_NAME=apache-logs python edgar_producer.py

The files are EDGAR access logs: CSV with the columns below, with or without a header line. Every setting can be given
by the environment or on the command line (--help lists them).

At least once: a position is kept only when the cluster has acknowledged every line before it. So no line is left out,
whatever happens to this program; what was published after the last position that was kept is published again when it
is started again. If a line cannot be delivered, the program ends with exit code 1 and is to be started again.
"""

import argparse
import csv
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from follower import Follower, NoLogError, keep, load

COLUMNS: Final = (
    "ip", "date", "time", "zone", "cik", "accession", "extention", "code", "size", "idx", "norefer", "noagent", "find",
    "crawler", "browser",
)  # fmt: skip
HEADER: Final = ",".join(COLUMNS).encode()

KEEP_SECONDS: Final = 1.0  # positions are kept so often, and whenever nothing is new
FAREWELL_SECONDS: Final = 20.0  # for the last lines, when the program is asked to end


class PublishingError(Exception):
    """The cluster does not take a line."""


# Records


def record(line: bytes, output: str) -> tuple[bytes, bytes]:
    """Key and value. The key is the visitor's address, so one visitor's lines stay in order."""
    key = line.partition(b",")[0]
    return key, line if output == "csv" else json.dumps(_named(line.decode(errors="replace"))).encode()


def _named(line: str) -> dict[str, str]:
    try:
        (fields,) = csv.reader([line])
        return dict(zip(COLUMNS, fields, strict=True))
    except (csv.Error, ValueError):  # not our columns: published all the same, for whoever wants to look
        return {"unparsed": line}


class Publisher:
    """Publishes to one topic. `publish` waits while the buffer is full; `flush` returns when all is acknowledged."""

    def __init__(self, topic: str, client: Mapping[str, Any]) -> None:
        self._topic = topic
        self._producer = Producer(dict(client))
        self._failure = ""
        self.count = 0

    def publish(self, key: bytes, value: bytes) -> None:
        while not self._taken(key, value):  # the cluster is slower than the disk
            self._producer.poll(0.1)
            self._check()
        self._producer.poll(0)
        self.count += 1

    def flush(self, seconds: float = float("inf")) -> None:
        deadline = time.monotonic() + seconds
        while left := self._producer.flush(0.5):
            self._check()
            if time.monotonic() > deadline:
                raise PublishingError(f"{self._topic}: {left} lines were not acknowledged within {seconds:.0f} s")
        self._check()

    def _taken(self, key: bytes, value: bytes) -> bool:
        try:
            self._producer.produce(self._topic, value, key, on_delivery=self._delivered)
        except BufferError:
            return False
        except KafkaException as error:  # too large, for instance
            raise PublishingError(f"{self._topic}: {error.args[0].str()}") from error
        return True

    def _delivered(self, error: Any, _: Any) -> None:
        if error and not self._failure:
            self._failure = error.str()

    def _check(self) -> None:
        if self._failure:
            raise PublishingError(f"{self._topic}: {self._failure}")


# The program


@dataclass(frozen=True, slots=True)
class Settings:
    folder: Path
    state: Path
    topic: str
    output: str
    client: dict[str, Any]
    poll_seconds: float
    unfinished_after: float
    once: bool


# Variable, what it is for, its default; each is also an option: BOOTSTRAP_SERVERS is --bootstrap-servers.
VARIABLES: Final = (
    ("BOOTSTRAP_SERVERS", "the cluster's addresses, host:port,...", None),
    ("TOPIC_NAME", "the topic to publish to", None),
    ("INPUT_LOGS_DIR", "the directory to follow", None),
    ("OUTPUT_FORMAT", "csv: lines as they are; json: an object of the columns", "csv"),
    ("ACKS", "all, 1 or 0", "all"),
    ("RETRIES", "how often a failed request is tried again (default: until it works, within five minutes)", ""),
    ("BATCH_SIZE", "bytes of a batch", "1000000"),
    ("LINGER_MS", "how long a batch waits for more lines", "20"),
    ("BUFFER_MEMORY", "bytes that wait for acknowledgement at most", "33554432"),
    ("COMPRESSION_TYPE", "none, gzip, snappy, lz4 or zstd", "none"),
    ("CLIENT_PROPERTIES", "a file of further settings of librdkafka, such as passwords", ""),
    (
        "STATE_FILE",
        "where positions are kept (default: .positions.json in systemd's state directory or the input's)",
        "",
    ),
    ("POLL_SECONDS", "how often it looks for new lines", "0.5"),
    ("UNFINISHED_AFTER", "seconds after which a last line without an end is published as it is", "30"),
)


def settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, what, default in VARIABLES:
        value = environment.get(name) or default
        shown = f" (default: {default})" if default else ""
        option = f"--{name.lower().replace('_', '-')}"
        parser.add_argument(option, default=value, required=value is None, help=f"${name}: {what}{shown}")
    parser.add_argument("--once", action="store_true", help="publish what is there, then end")
    given = parser.parse_args(arguments)
    if given.output_format not in {"csv", "json"}:
        parser.error(f"--output-format {given.output_format!r}: choose csv or json")
    folder = Path(_unescaped(given.input_logs_dir))
    if not folder.is_dir():
        parser.error(f"--input-logs-dir {folder}: there is no such directory")
    state = given.state_file or Path(environment.get("STATE_DIRECTORY") or folder) / ".positions.json"
    return Settings(
        folder,
        Path(state),
        given.topic_name,
        given.output_format,
        client_settings(given),
        float(given.poll_seconds),
        float(given.unfinished_after),
        given.once,
    )


def client_settings(given: argparse.Namespace) -> dict[str, Any]:
    # With idempotence a retry neither doubles nor reorders lines; librdkafka has it only with acks=all and retries.
    idempotent = given.acks in {"all", "-1"} and given.retries != "0"
    made: dict[str, Any] = {
        "bootstrap.servers": _unescaped(given.bootstrap_servers),
        "acks": given.acks,
        "enable.idempotence": idempotent,
        "batch.size": given.batch_size,
        "linger.ms": given.linger_ms,
        "queue.buffering.max.kbytes": max(1, int(given.buffer_memory) // 1024),
        "compression.type": given.compression_type,
        "partitioner": "murmur2_random",  # a key goes where Java's producers would send it
    }
    if given.retries:
        made["retries"] = given.retries
    if given.client_properties:
        lines = [line.strip() for line in Path(given.client_properties).read_text().splitlines()]
        pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
        made |= {key.strip(): value.strip() for key, _, value in pairs}
    return made


def _unescaped(text: str) -> str:
    r"""Compose files that fill in templates by sed write PLAINTEXT:\/\/host:9092 and \/edgar\/input_logs\/."""
    return text.replace("\\/", "/")


def run(wanted: Settings, stopped: threading.Event) -> int:
    """How many lines were published until `stopped`, or until all that is there is (`once`)."""
    after = float("-inf") if wanted.once else wanted.unfinished_after
    follower = Follower(wanted.folder, load(wanted.state), unfinished_after=after)
    publisher = Publisher(wanted.topic, wanted.client)
    kept_at, dirty = time.monotonic(), False
    while not stopped.is_set():
        idle = True
        for chunk in follower.chunks():
            idle = False
            for line in chunk.lines:
                if line != HEADER:
                    publisher.publish(*record(line, wanted.output))
            follower.read(chunk)
            dirty = True
            if stopped.is_set():
                break
        if dirty and (idle or time.monotonic() - kept_at > KEEP_SECONDS):
            publisher.flush()
            keep(wanted.state, follower.places)
            kept_at, dirty = time.monotonic(), False
        if idle and wanted.once:
            break
        if idle:
            stopped.wait(wanted.poll_seconds)
    publisher.flush(FAREWELL_SECONDS)
    keep(wanted.state, follower.places)
    return publisher.count


def main() -> int:
    wanted = settings(sys.argv[1:], os.environ)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    print(f"following {wanted.folder}, publishing to {wanted.topic}", flush=True)
    try:
        count = run(wanted, stopped)
    except (PublishingError, NoLogError, KafkaException, OSError) as error:
        print(f"edgar_producer: {error}", file=sys.stderr)
        return 1
    print(f"published {count} lines; positions are in {wanted.state}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
