"""Why a topic is (not) replicated or a group (not) followed: the rule, its setting, and the file and line of it."""

from dataclasses import dataclass
from typing import Any, Final

from twinlog.config.flows import Connector, FlowConfig
from twinlog.config.values import DEFAULT, Origin
from twinlog.mm2.replication_policy import policy_of
from twinlog.mm2.selection import (
    GroupFilter,
    GroupSelection,
    TopicFilter,
    TopicSelection,
    group_selection_of,
    selection_of,
)

_NOT_REPLICATED: Final = "not replicated"
_NOT_FOLLOWED: Final = "not followed"


@dataclass(frozen=True, slots=True)
class Answer:
    yes: bool
    verdict: str  # replicated as us.orders, not followed, ...
    cause: str  # the rule
    key: str = ""  # the setting that decides; empty if none does
    origin: Origin = DEFAULT
    remote: str = ""  # the name of a replicated topic on the target

    @property
    def reason(self) -> str:
        return f"{self.verdict}: {self.cause}"

    @property
    def detail(self) -> str:
        """The cause, and where it was set."""
        return f"{self.cause} ({place(self.key, self.origin)})" if self.key else self.cause

    def __str__(self) -> str:
        return f"{self.verdict}: {self.detail}"


def place(key: str, origin: Origin) -> str:
    """`mm2.properties:12`, with the key of the file if that is another one."""
    match origin.kind:
        case "file":
            note = f", as {origin.key}" if origin.key not in ("", key) else ""
            return f"{origin.file}:{origin.line}{note}"
        case "default":
            return "the default"
        case "derived":
            return origin.note or "derived"


def of_topic(flow: FlowConfig, topic: str, selection: TopicSelection | None = None) -> Answer:
    """Whether the flow copies this topic of its source. `selection`: the flow's, if it is used for many topics."""
    connector = flow.source
    if (inactive := _inactive(connector, "MirrorSourceConnector", _NOT_REPLICATED)) is not None:
        return inactive
    assert connector is not None
    selection = selection or selection_of(flow)
    key, yes = _topic_key(selection, topic), selection.selects(topic)
    remote = selection.remote_name(topic) if yes else ""
    return Answer(yes, selection.verdict(topic), selection.cause(topic), key, _origin(connector, key), remote)


def of_group(flow: FlowConfig, group: str) -> Answer:
    """Whether checkpoints are written for this group of the source. It also needs committed offsets in such a topic."""
    connector = flow.checkpoint
    # A dedicated MM2 starts no checkpoint connector if these are false; its source connector has them anyway.
    switches: list[tuple[str, Connector[Any] | None]] = [
        ("emit.checkpoints.enabled", connector or flow.source),
        ("emit.offset-syncs.enabled", connector),
        ("emit.offset-syncs.enabled", flow.source),
    ]
    for key, holder in switches if flow.replicates else ():
        if holder is not None and key in holder.values and holder.values[key].text.strip().lower() == "false":
            return _no(_NOT_FOLLOWED, f"{key} is false", key, holder)
    if connector is not None and connector.settings.emit_checkpoints_interval_seconds < 0:
        key = "emit.checkpoints.interval.seconds"
        return _no(_NOT_FOLLOWED, f"{key} is negative", key, connector)
    if (inactive := _inactive(connector, "MirrorCheckpointConnector", _NOT_FOLLOWED)) is not None:
        return inactive
    assert connector is not None
    selection = group_selection_of(flow)
    key = _group_key(selection, group)
    return Answer(
        selection.selects(group), selection.verdict(group), selection.cause(group), key, _origin(connector, key)
    )


def group_offsets(flow: FlowConfig) -> Answer:
    """Whether the offsets of followed groups are committed for the groups of the same name on the target."""
    connector = flow.checkpoint
    assert connector is not None
    key = "sync.group.offsets.enabled"
    enabled = connector.settings.sync_group_offsets_enabled
    not_committed = f"offsets not committed on {flow.flow.target}"
    if not enabled:
        return _no(not_committed, f"{key} is false", key, connector)
    if not flow.syncs_group_offsets:
        key = "sync.group.offsets.interval.seconds"
        return _no(not_committed, f"{key} is negative", key, connector)
    verdict = f"offsets committed on {flow.flow.target} while the group is idle there"
    return Answer(enabled, verdict, f"{key} is true", key, _origin(connector, key))


def upstream_of(flow: FlowConfig, name: str) -> str | None:
    """The topic of the source whose remote topic has this name; None if the name is not that of a remote topic."""
    connector = flow.source
    if connector is None:
        return None
    policy, alias = policy_of(connector), connector.settings.source_cluster_alias
    upstream = policy.upstream_topic(name) if policy.topic_source(name) == alias else None
    if not upstream or upstream == name or policy.format_remote_topic(alias, upstream) != name:
        return None
    return upstream


def _inactive(connector: Connector[Any] | None, kind: str, verdict: str) -> Answer | None:
    """Why the whole connector does nothing; None if it runs."""
    if connector is None:
        return _no(verdict, f"the configuration has no {kind} for it")
    if connector.state != "running":
        return _no(verdict, f"its {kind} is {connector.state}")
    if not connector.settings.enabled:
        return _no(verdict, "the flow is not enabled", "enabled", connector)
    return None


def _no(verdict: str, cause: str, key: str = "", connector: Connector[Any] | None = None) -> Answer:
    origin = _origin(connector, key) if connector is not None else DEFAULT
    return Answer(yes=False, verdict=verdict, cause=cause, key=key, origin=origin)


def _topic_key(selection: TopicSelection, topic: str) -> str:
    """The setting that an operator would change; the rules are those of TopicSelection.cause, in its order."""
    if selection.policy.is_internal_topic(topic):
        return ""
    if selection.cycle_through(topic) is not None:
        return selection.setting_of_cycle(topic)
    if selection.control.holds(selection.remote_name(topic)):
        return ""
    if not isinstance(selection.filter, TopicFilter):
        accepted = selection.filter.accepts(topic)
        heartbeats = not accepted and selection.policy.is_heartbeats_topic(topic)
        return "heartbeats.replication.enabled" if heartbeats else "topic.filter.class"
    if selection.filter.accepts(topic):
        return "topics"
    if selection.policy.is_heartbeats_topic(topic):
        return "heartbeats.replication.enabled"
    return "topics.exclude" if TopicFilter(selection.filter.exclude, ()).accepts(topic) else "topics"


def _group_key(selection: GroupSelection, group: str) -> str:
    if not isinstance(selection.filter, GroupFilter):
        return "group.filter.class"
    excluded = GroupFilter(selection.filter.exclude, ()).accepts(group)
    return "groups.exclude" if excluded else "groups"


def _origin(connector: Connector[Any], key: str) -> Origin:
    value = connector.values.get(key)
    return value.origin if value is not None else DEFAULT
