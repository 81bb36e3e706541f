"""Why a topic is (not) replicated, a group (not) followed: the rule, the setting that has it, and where that stands."""

from dataclasses import dataclass
from typing import Any

from twinlog.config.flows import Connector, FlowConfig
from twinlog.config.values import DEFAULT, Origin
from twinlog.topology.policy import policy_of
from twinlog.topology.selection import (
    GroupFilter,
    GroupSelection,
    TopicFilter,
    TopicSelection,
    group_selection_of,
    selection_of,
)


@dataclass(frozen=True, slots=True)
class Answer:
    yes: bool
    reason: str
    key: str = ""  # the setting that decides; empty where none does
    origin: Origin = DEFAULT
    remote: str = ""  # a topic's name on the target, where it goes there

    def __str__(self) -> str:
        return f"{self.reason} ({place(self.key, self.origin)})" if self.key else self.reason


def place(key: str, origin: Origin) -> str:
    """`mm2.properties:12`, with the key where the operator wrote another one."""
    match origin.kind:
        case "file":
            note = f", as {origin.key}" if origin.key not in ("", key) else ""
            return f"{origin.file}:{origin.line}{note}"
        case "default":
            return "the default"
        case "derived":
            return origin.note or "derived"


def of_topic(flow: FlowConfig, topic: str, selection: TopicSelection | None = None) -> Answer:
    """Whether the flow copies this topic of its source. `selection`: the flow's, where many topics are asked for."""
    connector = flow.source
    if (resting := _resting(connector, "MirrorSourceConnector")) is not None:
        return Answer(yes=False, reason=f"not replicated: {resting.reason}", key=resting.key, origin=resting.origin)
    assert connector is not None
    selection = selection or selection_of(flow)
    key, yes = _topic_key(selection, topic), selection.selects(topic)
    remote = selection.remote_name(topic) if yes else ""
    return Answer(yes, selection.reason(topic), key, _origin(connector, key), remote)


def of_group(flow: FlowConfig, group: str) -> Answer:
    """Whether checkpoints are written for this group of the source. It needs a position in such a topic besides."""
    connector = flow.checkpoint
    # A dedicated MM2 starts no checkpoint connector where these say no; its source connector has them all the same.
    switches: list[tuple[str, Connector[Any] | None]] = [
        ("emit.checkpoints.enabled", connector or flow.source),
        ("emit.offset-syncs.enabled", connector),
        ("emit.offset-syncs.enabled", flow.source),
    ]
    for key, holder in switches if flow.replicates else ():
        if holder is not None and key in holder.values and holder.values[key].text.strip().lower() == "false":
            return Answer(yes=False, reason=f"not followed: {key} is false", key=key, origin=_origin(holder, key))
    if (resting := _resting(connector, "MirrorCheckpointConnector")) is not None:
        return Answer(yes=False, reason=f"not followed: {resting.reason}", key=resting.key, origin=resting.origin)
    assert connector is not None
    selection = group_selection_of(flow)
    key = _group_key(selection, group)
    return Answer(selection.selects(group), selection.reason(group), key, _origin(connector, key))


def group_offsets(flow: FlowConfig) -> Answer:
    """Whether the offsets of groups that are followed are written to the groups of the same name on the target."""
    connector = flow.checkpoint
    assert connector is not None
    key = "sync.group.offsets.enabled"
    written = connector.settings.sync_group_offsets_enabled
    where = f"committed on {flow.flow.target}"
    reason = f"while the group is idle there its offsets are {where}" if written else f"no offsets are {where}"
    return Answer(written, f"{reason}: {key} is {str(written).lower()}", key, _origin(connector, key))


def upstream_of(flow: FlowConfig, name: str) -> str | None:
    """The topic of the source whose copy on the target has this name; None where the name does not say so."""
    connector = flow.source
    if connector is None:
        return None
    policy, alias = policy_of(connector), connector.settings.source_cluster_alias
    upstream = policy.upstream_topic(name) if policy.topic_source(name) == alias else None
    if not upstream or upstream == name or policy.format_remote_topic(alias, upstream) != name:
        return None
    return upstream


def _resting(connector: Connector[Any] | None, kind: str) -> Answer | None:
    """Why the whole connector does nothing; None where it runs."""
    if connector is None:
        return Answer(yes=False, reason=f"the configuration has no {kind} for it")
    if connector.state != "running":
        return Answer(yes=False, reason=f"its {kind} is {connector.state}")
    if not connector.settings.enabled:
        origin = _origin(connector, "enabled")
        return Answer(yes=False, reason="the flow is not enabled", key="enabled", origin=origin)
    return None


def _topic_key(selection: TopicSelection, topic: str) -> str:
    """The setting that an operator would change; the rules are those of TopicSelection.reason, in its order."""
    if selection.policy.is_internal_topic(topic) or selection.cycle_through(topic) is not None:
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
