"""Produces the lines of all files in a directory to a Kafka topic, and follows files that grow, rotate or are added.

    INPUT_LOGS_DIR=/edgar/input_logs BOOTSTRAP_SERVERS=node001:9092 TOPIC_NAME=apache-logs python edgar_producer.py

The files are EDGAR access logs: CSV with the columns below, with or without a header line. Settings come from
environment variables or the command line (see --help).

At least once: a position is stored only when the cluster has acknowledged every line before it. So no line is ever
lost; lines produced after the last stored position are produced again after a restart. If a line cannot be delivered,
the program exits with code 1 and must be restarted.
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
from follower import Follower, NoLogError, load, store

COLUMNS: Final = (
    "ip", "date", "time", "zone", "cik", "accession", "extention", "code", "size", "idx", "norefer", "noagent", "find",
    "crawler", "browser",
)  # fmt: skip
HEADER: Final = ",".join(COLUMNS).encode()

STORE_SECONDS: Final = 1.0  # how often positions are stored; also when there are no new lines
SHUTDOWN_SECONDS: Final = 20.0  # for the last lines


class PublishingError(Exception):
    """The cluster does not accept a line."""


# Records


def record(line: bytes, output: str) -> tuple[bytes, bytes]:
    """Key and value. The key is the visitor's address, so that a visitor's lines stay in order."""
    key = line.partition(b",")[0]
    return key, line if output == "csv" else json.dumps(_named(line.decode(errors="replace"))).encode()


def _named(line: str) -> dict[str, str]:
    try:
        (fields,) = csv.reader([line])
        return dict(zip(COLUMNS, fields, strict=True))
    except (csv.Error, ValueError):  # other columns: produced as they are
        return {"unparsed": line}


class Publisher:
    """Produces to one topic. `publish` blocks while the buffer is full; `flush` returns when all is acknowledged."""

    def __init__(self, topic: str, client: Mapping[str, Any]) -> None:
        self._topic = topic
        self._producer = Producer(dict(client))
        self._failure = ""
        self.count = 0

    def publish(self, key: bytes, value: bytes) -> None:
        while not self._enqueue(key, value):  # the cluster is slower than the disk
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

    def _enqueue(self, key: bytes, value: bytes) -> bool:
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


# Variable, description, default; each is also an option: BOOTSTRAP_SERVERS is --bootstrap-servers.
VARIABLES: Final = (
    ("BOOTSTRAP_SERVERS", "bootstrap servers of the cluster, host:port,...", None),
    ("TOPIC_NAME", "topic to produce to", None),
    ("INPUT_LOGS_DIR", "directory to follow", None),
    ("OUTPUT_FORMAT", "csv: lines unchanged; json: an object of the columns", "csv"),
    ("ACKS", "all, 1 or 0", "all"),
    ("RETRIES", "retries of a failed request (default: for up to five minutes)", ""),
    ("BATCH_SIZE", "maximum bytes of a batch", "1000000"),
    ("LINGER_MS", "how long a batch waits for more lines", "20"),
    ("BUFFER_MEMORY", "maximum bytes of unacknowledged lines", "33554432"),
    ("COMPRESSION_TYPE", "none, gzip, snappy, lz4 or zstd", "none"),
    ("CLIENT_PROPERTIES", "file with further settings of librdkafka, such as passwords", ""),
    (
        "STATE_FILE",
        "file for positions (default: .positions.json in systemd's state directory, or in the input directory)",
        "",
    ),
    ("POLL_SECONDS", "interval between checks for new lines", "0.5"),
    ("UNFINISHED_AFTER", "seconds after which a last line without a line end is produced", "30"),
)


def settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, what, default in VARIABLES:
        value = environment.get(name) or default
        shown = f" (default: {default})" if default else ""
        option = f"--{name.lower().replace('_', '-')}"
        parser.add_argument(option, default=value, required=value is None, help=f"${name}: {what}{shown}")
    parser.add_argument("--once", action="store_true", help="produce the existing lines, then exit")
    given = parser.parse_args(arguments)
    if given.output_format not in {"csv", "json"}:
        parser.error(f"--output-format {given.output_format!r}: choose csv or json")
    folder = Path(_unescaped(given.input_logs_dir))
    if not folder.is_dir():
        parser.error(f"--input-logs-dir {folder}: no such directory")
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
    # Idempotence avoids duplicates and reordering by retries; librdkafka requires acks=all and retries for it.
    idempotent = given.acks in {"all", "-1"} and given.retries != "0"
    properties: dict[str, Any] = {
        "bootstrap.servers": _unescaped(given.bootstrap_servers),
        "acks": given.acks,
        "enable.idempotence": idempotent,
        "batch.size": given.batch_size,
        "linger.ms": given.linger_ms,
        "queue.buffering.max.kbytes": max(1, int(given.buffer_memory) // 1024),
        "compression.type": given.compression_type,
        "partitioner": "murmur2_random",  # the same as Java's producers
    }
    if given.retries:
        properties["retries"] = given.retries
    if given.client_properties:
        lines = [line.strip() for line in Path(given.client_properties).read_text().splitlines()]
        pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
        properties |= {key.strip(): value.strip() for key, _, value in pairs}
    return properties


def _unescaped(text: str) -> str:
    r"""Undoes the escaping of compose files that are filled in by sed: PLAINTEXT:\/\/host:9092."""
    return text.replace("\\/", "/")


def run(options: Settings, stopped: threading.Event) -> int:
    """Produces until `stopped`, or until all existing lines are produced (`once`); returns the number of lines."""
    after = float("-inf") if options.once else options.unfinished_after
    follower = Follower(options.folder, load(options.state), unfinished_after=after)
    publisher = Publisher(options.topic, options.client)
    stored_at, dirty = time.monotonic(), False
    while not stopped.is_set():
        idle = True
        for chunk in follower.chunks():
            idle = False
            for line in chunk.lines:
                if line != HEADER:
                    publisher.publish(*record(line, options.output))
            follower.advance(chunk)
            dirty = True
            if stopped.is_set():
                break
        if dirty and (idle or time.monotonic() - stored_at > STORE_SECONDS):
            publisher.flush()
            store(options.state, follower.positions)
            stored_at, dirty = time.monotonic(), False
        if idle and options.once:
            break
        if idle:
            stopped.wait(options.poll_seconds)
    publisher.flush(SHUTDOWN_SECONDS)
    store(options.state, follower.positions)
    return publisher.count


def main() -> int:
    options = settings(sys.argv[1:], os.environ)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    print(f"following {options.folder}, producing to {options.topic}", flush=True)
    try:
        count = run(options, stopped)
    except (PublishingError, NoLogError, KafkaException, OSError) as error:
        print(f"edgar_producer: {error}", file=sys.stderr)
        return 1
    print(f"produced {count} lines; positions are stored in {options.state}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
