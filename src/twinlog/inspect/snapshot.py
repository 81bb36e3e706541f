"""The state of a flow's clusters, as inspected by `plan`, `doctor`, `compare` and `why`. Pure data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.inspect.permissions import Rights
from twinlog.kafka.resources import AclBinding
from twinlog.mm2.group_offsets import GroupOffsetChange
from twinlog.mm2.selection import Side
from twinlog.mm2.topic_configs import Entries
from twinlog.model import TopicPartition
from twinlog.sync.internal_topics import InternalTopic


@dataclass(frozen=True, slots=True)
class Topic:
    """From a cluster's metadata."""

    partitions: int
    error: str = ""
    leaderless: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is still to be copied of a partition or topic."""

    records: int
    size: int | None  # bytes, estimated; None: unknown
    problem: str = ""
    blocked: int = 0  # source offsets behind the first open transaction: not copied before it ends


def total(backlogs: Iterable[Backlog]) -> Backlog:
    found = list(backlogs)
    sizes = [each.size for each in found if each.size is not None]
    size = sum(sizes) if len(sizes) == len(found) else None
    return Backlog(sum(each.records for each in found), size, blocked=sum(each.blocked for each in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    alias: str
    id: str | None
    brokers: int
    topics: Mapping[str, Topic]
    configs: Mapping[str, Entries] = field(default_factory=dict)
    acls: Sequence[AclBinding] | None = ()  # None: no authorizer


@dataclass(frozen=True, slots=True)
class Refusal:
    """A cluster's error for a topic that would be created or changed."""

    text: str
    denied: bool = False  # a permission is missing
    without: tuple[str, ...] = ()  # configs: without these it would be accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSnapshot:
    """Both clusters."""

    source: ClusterSnapshot
    target: ClusterSnapshot
    internal_topics: tuple[InternalTopic, ...] = ()
    named: Mapping[str, bool] = field(
        default_factory=dict
    )  # named in `topics`, not listed: whether it may not be described
    backlogs: Mapping[TopicPartition, Backlog] = field(default_factory=dict)
    groups: tuple[str, ...] = ()  # of the source, with committed offsets in a topic of the flow
    other_groups: tuple[str, ...] = ()
    unread_groups: tuple[str, ...] = ()
    group_offsets: tuple[GroupOffsetChange, ...] = ()  # to be committed on the target
    refusals: Mapping[tuple[Side, str], Refusal] = field(default_factory=dict)  # of topics to be created
    config_refusals: Mapping[str, Refusal] = field(default_factory=dict)  # of remote topics to be changed
    rights: Rights = field(default_factory=dict)
