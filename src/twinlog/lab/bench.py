"""`make bench`: what moving records costs, measured on this machine, in one run, on the same brokers.

Today it measures the peer alone, MM2 as shipped and MM2 tuned: the figures that Twinlog's relay will have to beat.
Absolute figures say little on a shared machine; compare within one run.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from twinlog.errors import LabError, TwinlogError
from twinlog.lab import usage
from twinlog.lab.broker import ClusterSpec
from twinlog.lab.cluster import Cluster
from twinlog.lab.ends import Ends
from twinlog.lab.java_process import SHIPPED
from twinlog.lab.lab import Lab
from twinlog.lab.peer import mirror_properties
from twinlog.lab.progress import Progress

PARTITIONS = 6
PATIENCE = 600  # seconds without an end, then something is broken
TUNED = {
    "tasks.max": "2",
    "{source}.consumer.max.poll.records": "5000",
    "{source}.consumer.max.partition.fetch.bytes": str(4 << 20),
    "{target}.producer.batch.size": str(512 << 10),
    "{target}.producer.linger.ms": "20",
    "{target}.producer.buffer.memory": str(128 << 20),
    "{target}.producer.max.request.size": str(8 << 20),
    "{target}.producer.max.in.flight.requests.per.connection": "5",
}
CONTENDERS: dict[str, Mapping[str, str]] = {"MM2 as shipped": {}, "MM2 tuned": TUNED}


@dataclass(frozen=True, slots=True)
class Load:
    name: str
    record_bytes: int


LOADS = (Load("1 KB", 1024), Load("100 B", 100))


@dataclass(frozen=True, slots=True)
class Outcome:
    load: str
    contender: str
    records: int
    records_per_second: float
    megabytes_per_second: float
    cpu_seconds_per_gigabyte: float | None
    peak_pss_megabytes: float | None
    seconds_to_first_record: float


def measure(lab: Lab, us: Cluster, eu: Cluster, load: Load, contender: str, records: int) -> Outcome:
    """One contender on one load. The alias is made up per contender, so that each fills a remote topic of its own."""
    alias = contender.lower().replace(" ", "-") + f"-{load.record_bytes}"
    with Ends(eu) as ends, Progress(f"{contender}, {load.name} records", records) as progress:
        started = time.monotonic()
        properties = _properties(us, eu, alias, load, CONTENDERS[contender])
        peer = lab.mirror_maker(properties, name=alias, flags=("-Xms256M", "-Xmx2G", *SHIPPED))
        cost = Cost(peer.process.pid or 0)
        there = first = 0
        while there < records:
            time.sleep(0.05)
            there = ends.total(f"{alias}.{_topic(load)}")
            if there and not first:
                first = there
                cost.begin()
            cost.sample()
            progress.update(there)
            if not peer.process.alive or time.monotonic() - started > PATIENCE:
                raise LabError(f"{contender} stopped at {there} of {records} records{peer.process.quote()}")
        cost.end()
        peer.stop()
    moved = records - first  # what was there at the first look was moved before the clock began
    size = moved * load.record_bytes
    return Outcome(
        load=load.name,
        contender=contender,
        records=records,
        records_per_second=moved / cost.seconds,
        megabytes_per_second=size / cost.seconds / 1e6,
        cpu_seconds_per_gigabyte=cost.cpu / (size / 1e9) if cost.cpu is not None and size else None,
        peak_pss_megabytes=cost.peak / 1e6 if cost.peak else None,
        seconds_to_first_record=cost.begun - started,
    )


class Cost:
    """Time and CPU between the first record and the last, and the most memory from the start."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._sampled = 0.0
        self._cpu_before: float | None = None
        self.begun = self.seconds = 0.0
        self.cpu: float | None = None
        self.peak = 0

    def begin(self) -> None:
        self.begun, self._cpu_before = time.monotonic(), usage.cpu_seconds(self._pid)

    def sample(self) -> None:
        if time.monotonic() - self._sampled > 1:  # reading it is not free
            self._sampled = time.monotonic()
            self.peak = max(self.peak, usage.pss_bytes(self._pid) or 0)

    def end(self) -> None:
        self.seconds = max(time.monotonic() - self.begun, 0.001)
        after = usage.cpu_seconds(self._pid)
        self.cpu = after - self._cpu_before if after is not None and self._cpu_before is not None else None


def _properties(us: Cluster, eu: Cluster, alias: str, load: Load, settings: Mapping[str, str]) -> dict[str, str]:
    base = mirror_properties([us, eu], [(us, eu)], {"us->eu.topics": _topic(load), "emit.heartbeats.enabled": "false"})
    renamed = {_renamed(key, alias): value for key, value in base.items()}
    own = {key.format(source=alias, target="eu"): value for key, value in settings.items()}
    return renamed | {"clusters": f"{alias}, eu"} | own


def fill(us: Cluster, load: Load, records: int) -> None:
    topic = _topic(load)
    us.create_topic(topic, partitions=PARTITIONS)
    with Progress(f"publishing {records:,} records of {load.name}"):
        us.tool(
            "producer-perf", "--topic", topic, "--num-records", str(records), "--record-size", str(load.record_bytes),
            "--throughput", "-1", seconds=PATIENCE,
        )  # fmt: skip


def table(outcomes: list[Outcome]) -> str:
    head = ("records", "replicator", "records/s", "MB/s", "CPU s per GB", "peak MB", "s to first record")
    rows = [
        (
            each.load,
            each.contender,
            f"{each.records_per_second:,.0f}",
            f"{each.megabytes_per_second:.1f}",
            _number(each.cpu_seconds_per_gigabyte),
            _number(each.peak_pss_megabytes, 0),
            f"{each.seconds_to_first_record:.1f}",
        )
        for each in outcomes
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def bench(megabytes: int, out: Path) -> None:
    outcomes = []
    with Lab() as lab:
        us, eu = lab.clusters(*(ClusterSpec(name=name, flags=("-Xmx1G", "-Xms1G", *SHIPPED)) for name in ("us", "eu")))
        for load in LOADS:
            records = megabytes * 1_000_000 // load.record_bytes
            fill(us, load, records)
            outcomes += [measure(lab, us, eu, load, contender, records) for contender in CONTENDERS]
    print(table(outcomes))
    out.parent.mkdir(parents=True, exist_ok=True)
    machine = {"system": platform.platform(), "python": platform.python_version()}
    out.write_text(
        json.dumps({"machine": machine, "megabytes": megabytes, "outcomes": [asdict(o) for o in outcomes]}, indent=2)
    )
    print(f"\nwritten to {out}")


def _topic(load: Load) -> str:
    return f"bench-{load.record_bytes}"


def _renamed(key: str, alias: str) -> str:
    return f"{alias}{key.removeprefix('us')}" if key.startswith(("us.", "us->")) else key


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256, help="how much each contender moves, per size of record")
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"))
    arguments = parser.parse_args()
    try:
        bench(arguments.megabytes, arguments.out)
    except TwinlogError as error:
        print(f"twinlog: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
