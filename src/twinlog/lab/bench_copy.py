"""How fast, and at what cost: a topic that is there already, copied from its start to its end.

The clock, and the count of CPU time, begin when the first records are seen on the target and end when all are there;
what was there at the first look is not counted as moved. Start-up is told apart.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from twinlog.errors import LabError
from twinlog.lab.bench_contenders import Contender, running
from twinlog.lab.cluster import Cluster
from twinlog.lab.compare import compare
from twinlog.lab.ends import Ends
from twinlog.lab.lab import Lab
from twinlog.lab.listeners import PLAINTEXT, TLS, Listener
from twinlog.lab.process import temporary_folder
from twinlog.lab.progress import Progress
from twinlog.lab.traffic import access_log
from twinlog.lab.usage import Meter

PARTITIONS = 6
PATIENCE = 900  # seconds without an end, then something is broken
LOOK = 0.05  # seconds between two looks at the target's end


@dataclass(frozen=True, slots=True)
class Load:
    """`record_bytes` of payload, before compression."""

    key: str
    name: str
    record_bytes: int
    records: int
    quick_records: int
    producer: Sequence[str] = ()
    compressible: bool = False
    door: Listener = PLAINTEXT  # through which both clusters are entered


LOADS = {
    each.key: each
    for each in (
        Load("1kb", "1 KB", 1024, 1_500_000, 20_000),
        Load("100b", "100 B", 100, 8_000_000, 100_000),
        Load("compressed", "1 KB zstd", 1024, 2_000_000, 20_000, ("compression.type=zstd",), compressible=True),
        # A batch for every record: what producers make that neither wait nor fill batches.
        Load("tiny", "100 B, one per batch", 100, 1_000_000, 10_000, ("batch.size=0", "linger.ms=0")),
        Load("tls", "1 KB over TLS", 1024, 1_000_000, 20_000, door=TLS),
    )
}


@dataclass(frozen=True, slots=True)
class Copied:
    case: str
    load: str
    contender: str
    records: int
    seconds: float
    records_per_second: float
    megabytes_per_second: float
    cpu_seconds_per_gigabyte: float | None
    peak_pss_megabytes: float | None
    seconds_to_first_record: float
    equal: bool | None  # None where only the count of records was compared


def topic_of(load: Load) -> str:
    return f"bench-{load.key}"


def fill(us: Cluster, load: Load, records: int) -> None:
    topic = topic_of(load)
    us.create_topic(topic, partitions=PARTITIONS)
    with Progress(f"publishing {records:,} records: {load.name}"), temporary_folder() as folder:
        payload = ["--record-size", str(load.record_bytes)]
        if load.compressible:
            payload = ["--payload-file", str(_pages(folder / "pages", load.record_bytes))]
        settings = ["--command-property", *load.producer] if load.producer else []
        us.tool(
            "producer-perf", "--topic", topic, "--num-records", str(records), "--throughput", "-1", *payload, *settings,
            seconds=PATIENCE,
        )  # fmt: skip


def _pages(file: Path, size: int) -> Path:
    """Lines of exactly `size` bytes: several of an access log behind each other, as compressible as those are."""
    text = " ".join(line for _, line in islice(access_log(start=0), 2 * size))
    file.write_text("\n".join(text[at : at + size] for at in range(0, len(text) - size, size)))
    return file


def copy(lab: Lab, us: Cluster, eu: Cluster, load: Load, contender: Contender, records: int, *, verify: bool) -> Copied:
    alias = f"{contender.key}-{load.key}"
    remote = f"{alias}.{topic_of(load)}"
    started = time.monotonic()
    with (
        Ends(eu) as ends,
        Progress(f"{contender.name}: {load.name}", records) as progress,
        running(lab, contender, us, eu, alias=alias, topics=topic_of(load), door=load.door) as program,
        Meter(program.pid, every=0.5) as meter,
    ):
        there = first = 0
        to_first = 0.0
        while there < records:
            time.sleep(LOOK)
            there = ends.total(remote)
            if there and not first:
                first, to_first = there, time.monotonic() - started
                meter.begin()
            progress.update(there, "" if there else "starting")
            program.check()
            if time.monotonic() - started > PATIENCE:
                raise LabError(f"{contender.name} stands at {there} of {records} records{program.quote()}")
        seconds, cpu = meter.spent()
    if there != records:
        raise LabError(f"{contender.name} has made {there} records of {records}")
    equal = None
    if verify:
        outcome = compare(us.client_properties(), topic_of(load), eu.client_properties(), remote)
        equal = not outcome.differences
    with eu.admin() as admin:
        admin.delete_topics([remote])
    moved = records - first
    size = moved * load.record_bytes
    return Copied(
        load.key,
        load.name,
        contender.key,
        records,
        seconds,
        moved / seconds,
        size / seconds / 1e6,
        cpu / (size / 1e9) if cpu is not None and size else None,
        meter.peak / 1e6 if meter.peak else None,
        to_first,
        equal,
    )
