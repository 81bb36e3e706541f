"""What is seen of a flow's clusters by those who look before anything is done. Pure: only nouns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.model import TopicPartition
from twinlog.topology.acls import AclBinding
from twinlog.topology.configs import Entries
from twinlog.topology.rights import Rights
from twinlog.topology.selection import Side


@dataclass(frozen=True, slots=True)
class Topic:
    """As a cluster's metadata has it."""

    partitions: int
    error: str = ""
    leaderless: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnTopic:
    """One of the topics beside the records: MM2's, and Twinlog's journal."""

    side: Side
    name: str
    partitions: int
    replication_factor: int
    key: str  # the setting of its replication factor


@dataclass(frozen=True, slots=True)
class Wait:
    """What is still to be copied of one partition."""

    records: int
    size: int | None  # bytes, about; None: not known
    trouble: str = ""


def together(waits: Iterable[Wait]) -> Wait:
    found = list(waits)
    sizes = [wait.size for wait in found if wait.size is not None]
    return Wait(sum(wait.records for wait in found), sum(sizes) if len(sizes) == len(found) else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    alias: str
    id: str | None
    brokers: int
    topics: Mapping[str, Topic]
    configs: Mapping[str, Entries] = field(default_factory=dict)
    acls: Sequence[AclBinding] | None = ()  # None: there is no authorizer


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a cluster says to a topic that would be created, or changed."""

    text: str
    denied: bool = False  # for want of a right
    without: tuple[str, ...] = ()  # configs: it would take it without these


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """All that was seen of both clusters."""

    source: Cluster
    target: Cluster
    own: tuple[OwnTopic, ...] = ()
    named: Mapping[str, bool] = field(default_factory=dict)  # asked for by name, not to be seen: whether it is hidden
    waits: Mapping[TopicPartition, Wait] = field(default_factory=dict)
    groups: tuple[str, ...] = ()  # consumer groups of the source that have a position in a topic of the flow
    other_groups: tuple[str, ...] = ()
    unread_groups: tuple[str, ...] = ()
    refusals: Mapping[tuple[Side, str], Refusal] = field(default_factory=dict)  # of topics that would be created
    config_refusals: Mapping[str, Refusal] = field(default_factory=dict)  # of remote topics that would be changed
    rights: Rights = field(default_factory=dict)
