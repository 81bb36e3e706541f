"""Findings about the API versions of a cluster's brokers. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from twinlog.inspect.doctor.findings import Finding, Status
from twinlog.kafka import fetch, produce
from twinlog.kafka.admin_queries import kafka_version
from twinlog.mm2.selection import Side

Versions = Mapping[int, tuple[int, int]]
_NEWEST: Final = (4, 3)  # later releases look the same


@dataclass(frozen=True, slots=True)
class Need:
    """A version of a request that a broker must support: this one or, if `more`, any later one."""

    key: int
    name: str
    version: int
    since: str  # the first Kafka release with it
    sides: tuple[Side, ...]
    lost: str = ""  # what does not work without it; empty: replication as a whole
    more: bool = True


_BOTH: Final[tuple[Side, ...]] = ("source", "target")
NEEDS: Final = (
    Need(fetch.API_KEY, "Fetch", fetch.BY_NAME, "2.7", ("source",)),
    Need(produce.API_KEY, "Produce", produce.VERSION, "2.4", ("target",), more=False),
    Need(3, "Metadata", 4, "0.11", _BOTH),
    Need(2, "ListOffsets", 1, "0.10.1", _BOTH),
    Need(22, "InitProducerId", 0, "0.11", ("target",)),
    Need(fetch.API_KEY, "Fetch", 7, "1.1", ("target",)),
    Need(61, "DescribeProducers", 0, "2.8", ("target",)),  # each recovery asks for our last sequence number
    Need(19, "CreateTopics", 1, "0.10.2", ("target",), "remote topics cannot be created"),
    Need(37, "CreatePartitions", 0, "1.0", ("target",), "remote topics cannot get more partitions"),
    Need(32, "DescribeConfigs", 1, "1.1", _BOTH, "configs of topics cannot be copied"),
    Need(44, "IncrementalAlterConfigs", 0, "2.3", ("target",), "configs of existing remote topics are not changed"),
    Need(9, "OffsetFetch", 1, "0.8.2", ("source",), "offsets of groups cannot be translated"),
)


def gaps(versions: Versions, sides: Iterable[Side]) -> list[Need]:
    """The needs that these versions do not meet, for a cluster in these roles."""
    wanted = set(sides)
    return [need for need in NEEDS if wanted & set(need.sides) and not _met(versions, need)]


def _met(versions: Versions, need: Need) -> bool:
    low, high = versions.get(need.key, (0, -1))
    return high >= need.version and (need.more or low <= need.version)


def common(every: Iterable[Versions]) -> dict[int, tuple[int, int]]:
    """The versions that all brokers support."""
    found: dict[int, tuple[int, int]] | None = None
    for versions in every:
        if found is None:
            found = dict(versions)
        else:
            found = {
                key: (max(low, versions[key][0]), min(high, versions[key][1]))
                for key, (low, high) in found.items()
                if key in versions
            }
    return found or {}


def findings(alias: str, versions: Versions, sides: Iterable[Side]) -> list[Finding]:
    lacking = gaps(versions, sides)
    name = spelled(versions)
    if not lacking:
        return [Finding("ok", "versions", alias, "", f"broker API versions of {name}")]
    found = []
    for need in lacking:
        status: Status = "warning" if need.lost else "error"
        _, high = versions.get(need.key, (0, -1))
        older = high < need.version
        lacks = f"brokers ({name}) do not support {need.name} {need.version}"
        what = f"{lacks}: {need.lost or 'replication is not possible'}"
        advice = f"upgrade them to Kafka {need.since} or later" if older else "upgrade Twinlog"
        found.append(Finding(status, "versions", alias, "", what, advice))
    return found


def spelled(versions: Versions) -> str:
    newest = kafka_version(versions)
    return f"Kafka {newest[0]}.{newest[1]}{' or newer' if newest >= _NEWEST else ''}"
