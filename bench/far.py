"""Throughput over an emulated long link: a backlog is replicated from a far source, or to a far target.

Both replicators have the same number of tasks, and the brokers have default socket buffers. Records are published, and
progress is read, without the link.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bench.replicators import Replicator, Route
from bench.throughput import Copied, Load, copy
from lab.cluster import Cluster
from lab.emulated_link import EmulatedLink
from lab.lab import Lab
from lab.link_conditions import Conditions
from lab.raw_protocol import RawProtocol

# In addition to TUNED. By default MM2's clients set socket buffers for short links; -1 leaves them to the system, which
# adapts them to the round trip.
FAR_TUNED = {
    "{source}.consumer.receive.buffer.bytes": "-1",
    "{target}.producer.send.buffer.bytes": "-1",
}

_START_BYTES = 256 << 10  # more than metadata and internal topics need, far less than a fetch of records


@dataclass(frozen=True, slots=True)
class Far:
    """`side` is the cluster behind the link."""

    load: Load
    conditions: Conditions
    side: Literal["source", "target"] = "source"


@dataclass(frozen=True, slots=True)
class LinkUsed:
    case: str
    replicator: str
    kind: str
    conditions: str
    tasks: int
    round_trip_ms: float  # of a request to a broker, before the replicator was started


FAR = {
    each.load.key: each
    for each in (
        Far(Load("far-source", "source 100 ms away", 1024, 200_000, 5_000), Conditions(round_trip=0.1)),
        Far(
            Load("far-one-partition", "source 100 ms away, one partition", 1024, 300_000, 5_000, partitions=1),
            Conditions(round_trip=0.1),
        ),
        Far(
            Load("far-lossy", "source 200 ms away, 0.1 % loss", 1024, 60_000, 2_000),
            Conditions(round_trip=0.2, loss=0.001),
        ),
        Far(Load("far-target", "target 100 ms away", 1024, 100_000, 5_000), Conditions(round_trip=0.1), "target"),
    )
}


def copy_far(
    lab: Lab,
    us: Cluster,
    eu: Cluster,
    far: Far,
    link: EmulatedLink,
    replicator: Replicator,
    records: int,
    *,
    tasks: int,
    verify: bool,
) -> tuple[Copied, LinkUsed]:
    """Both clusters must have the link's listener."""
    link.change(far.conditions)
    settings = {"tasks.max": str(tasks)} | ({} if replicator.is_twinlog else FAR_TUNED)
    if far.side == "source":
        route = Route(link.client_properties(us), eu.client_properties(), settings)
    else:
        route = Route(us.client_properties(), link.client_properties(eu), settings)
    measured = round_trip(route.source if far.side == "source" else route.target)
    before = link.passed_bytes()
    copied = copy(
        lab, us, eu, far.load, replicator, records, verify=verify, route=route,
        has_begun=lambda: link.passed_bytes() - before > _START_BYTES,
    )  # fmt: skip
    key = far.load.key
    return copied, LinkUsed(key, replicator.key, link.kind, str(far.conditions), tasks, measured * 1000)


def round_trip(properties: Mapping[str, str]) -> float:
    """Seconds of the fastest of a few metadata requests over an open connection."""

    def request() -> float:
        began = time.monotonic()
        raw.partitions("no-such-topic")
        return time.monotonic() - began

    with RawProtocol(properties) as raw:
        request()  # connects
        return min(request() for _ in range(3))
