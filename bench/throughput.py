"""Throughput and its cost in CPU and memory: an existing topic is replicated from start to end.

Time and CPU are measured from the first records on the target to the last; the records of the first sample are not
counted. Start-up time is reported separately. Over a long link (far.py) both are measured from the first records on the
link: a replicator may fetch many megabytes before it writes the first record.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench.replicators import Replicator, Route, running
from lab.access_logs import access_log
from lab.cluster import Cluster
from lab.compare_logs import compare
from lab.end_offsets import EndOffsets
from lab.errors import LabError
from lab.lab import Lab
from lab.listeners import PLAINTEXT, TLS, Listener
from lab.process import temporary_folder
from lab.progress import Progress
from lab.resource_usage import Meter

PARTITIONS = 6
TIMEOUT_SECONDS = 900
SAMPLE_SECONDS = 0.05  # between two reads of the target's end offsets


@dataclass(frozen=True, slots=True)
class Load:
    """`record_bytes` is the uncompressed size of a value."""

    key: str
    name: str
    record_bytes: int
    records: int
    quick_records: int
    producer: Sequence[str] = ()
    compressible: bool = False
    listener: Listener = PLAINTEXT  # of both clusters
    partitions: int = PARTITIONS


LOADS = {
    each.key: each
    for each in (
        Load("1kb", "1 KB", 1024, 1_500_000, 20_000),
        Load("100b", "100 B", 100, 8_000_000, 100_000),
        Load("compressed", "1 KB zstd", 1024, 2_000_000, 20_000, ("compression.type=zstd",), compressible=True),
        # One record per batch, as from a producer without batching.
        Load("tiny", "100 B, one per batch", 100, 1_000_000, 10_000, ("batch.size=0", "linger.ms=0")),
        Load("tls", "1 KB over TLS", 1024, 1_000_000, 20_000, listener=TLS),
    )
}


@dataclass(frozen=True, slots=True)
class Copied:
    case: str
    load: str
    replicator: str
    records: int
    seconds: float
    records_per_second: float
    megabytes_per_second: float
    cpu_seconds_per_gigabyte: float | None
    peak_pss_megabytes: float | None
    seconds_to_first_record: float
    equal: bool | None  # None: only the number of records was compared


def topic_of(load: Load) -> str:
    return f"bench-{load.key}"


def fill(us: Cluster, load: Load, records: int) -> None:
    topic = topic_of(load)
    us.create_topic(topic, partitions=load.partitions)
    with Progress(f"publishing {records:,} records: {load.name}"), temporary_folder() as folder:
        payload = ["--record-size", str(load.record_bytes)]
        if load.compressible:
            payload = ["--payload-file", str(_payload_file(folder / "payload", load.record_bytes))]
        settings = ["--command-property", *load.producer] if load.producer else []
        us.tool(
            "producer-perf", "--topic", topic, "--num-records", str(records), "--throughput", "-1", *payload, *settings,
            seconds=TIMEOUT_SECONDS,
        )  # fmt: skip


def _payload_file(file: Path, size: int) -> Path:
    """Lines of exactly `size` bytes, with the text of an access log, which is about as compressible as real records."""
    text = " ".join(line for _, line in islice(access_log(start=0), 2 * size))
    file.write_text("\n".join(text[at : at + size] for at in range(0, len(text) - size, size)))
    return file


def copy(
    lab: Lab,
    us: Cluster,
    eu: Cluster,
    load: Load,
    replicator: Replicator,
    records: int,
    *,
    verify: bool,
    route: Route | None = None,
    has_begun: Callable[[], bool] | None = None,
) -> Copied:
    """`route` is that of the replicator (default: by the load's listener); everything else reaches both directly.

    `has_begun` starts the measurement (default: the first records on the target).
    """
    route = route or Route(us.client_properties(load.listener), eu.client_properties(load.listener))
    alias = f"{replicator.key}-{load.key}"
    remote = f"{alias}.{topic_of(load)}"
    started = time.monotonic()
    with (
        EndOffsets(eu) as ends,
        Progress(f"{replicator.name}: {load.name}", records) as progress,
        running(lab, replicator, route, alias=alias, topics=topic_of(load)) as program,
        Meter(program.pid, every=0.5) as meter,
    ):
        arrived = first = 0
        to_first = 0.0
        measures = False
        while arrived < records:
            time.sleep(SAMPLE_SECONDS)
            arrived = ends.total(remote)
            if not measures and (arrived or (has_begun is not None and has_begun())):
                measures, first = True, arrived
                meter.begin()
            if arrived and not to_first:
                to_first = time.monotonic() - started
            progress.update(arrived, "" if arrived else "starting")
            program.check()
            if time.monotonic() - started > TIMEOUT_SECONDS:
                raise LabError(f"{replicator.name}: timed out at {arrived} of {records} records{program.log_excerpt()}")
        seconds, cpu = meter.spent()
    if arrived != records:
        raise LabError(f"{replicator.name}: {arrived} records on the target, expected {records}")
    equal = None
    if verify:
        outcome = compare(us.client_properties(), topic_of(load), eu.client_properties(), remote)
        equal = not outcome.differences
    with eu.admin() as admin:
        admin.delete_topics([remote])
    measured = records - first
    size = measured * load.record_bytes
    return Copied(
        load.key,
        load.name,
        replicator.key,
        records,
        seconds,
        measured / seconds,
        size / seconds / 1e6,
        cpu / (size / 1e9) if cpu is not None and size else None,
        meter.peak / 1e6 if meter.peak else None,
        to_first,
        equal,
    )
