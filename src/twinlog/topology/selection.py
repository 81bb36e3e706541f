"""Which topics of the source a flow replicates, under which names, which groups it follows, and why."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, cast

from twinlog.config.flows import Connector, FlowConfig
from twinlog.config.javaregex import JavaRegexError, compile_list
from twinlog.config.settings import CheckpointSettings
from twinlog.topology.plugins import CustomFilter, NameFilter, custom_filter, is_python
from twinlog.topology.policy import IdentityReplicationPolicy, ReplicationPolicy, policy_of, texts_of

Side = Literal["source", "target"]


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """MM2's DefaultTopicFilter: some pattern of `topics` and none of `topics.exclude` matches the whole name.

    An empty list matches nothing. Checkpoints go by this alone, without the other rules of TopicSelection.
    """

    topics: tuple[str, ...]
    exclude: tuple[str, ...]

    def accepts(self, topic: str, /) -> bool:
        return _matches(self.topics, topic) and not _matches(self.exclude, topic)


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """MM2's DefaultGroupFilter: likewise, of `groups` and `groups.exclude`."""

    groups: tuple[str, ...]
    exclude: tuple[str, ...]

    def accepts(self, group: str, /) -> bool:
        return _matches(self.groups, group) and not _matches(self.exclude, group)


@dataclass(frozen=True, slots=True)
class ConfigFilter:
    """MM2's DefaultConfigPropertyFilter: every topic config but those of `config.properties.exclude`."""

    exclude: tuple[str, ...]

    def accepts(self, name: str, /) -> bool:
        return not _matches(self.exclude, name)

    def reason(self, name: str) -> str:
        if self.accepts(name):
            return "copied: no pattern of config.properties.exclude matches it"
        return f"not copied: config.properties.exclude {_which(self.exclude, name)}"


@dataclass(frozen=True, slots=True)
class TopicSelection:
    source: str
    target: str
    policy: ReplicationPolicy
    filter: NameFilter
    heartbeats: bool = True  # heartbeats.replication.enabled

    def selects(self, topic: str) -> bool:
        wanted = self.filter.accepts(topic) or (self.heartbeats and self.policy.is_heartbeats_topic(topic))
        return wanted and not self.policy.is_internal_topic(topic) and self.cycle_through(topic) is None

    def remote_name(self, topic: str) -> str:
        return self.policy.format_remote_topic(self.source, topic)

    def cycle_through(self, topic: str) -> str | None:
        """The cluster of this flow that the topic has already been copied from, by its name; None: no cycle.

        Kafka 4.4's rule: the source counts too, so `us.orders` on `us` is not copied on to become `us.us.orders`.
        Under the identity policy every topic seems to come from the source, so there only the target counts.
        """
        ends = {self.target} if isinstance(self.policy, IdentityReplicationPolicy) else {self.source, self.target}
        while (origin := self.policy.topic_source(topic)) is not None:
            if origin in ends:
                return origin
            upstream = self.policy.upstream_topic(topic)
            if upstream is None or upstream == topic:
                return None
            topic = upstream
        return None

    def reason(self, topic: str) -> str:
        """One sentence: whether it is replicated, and the rule that decides. What no setting changes comes first."""
        if self.policy.is_internal_topic(topic):
            return f"not replicated: {self._why_internal(topic)}"
        if (origin := self.cycle_through(topic)) is not None:
            return f"not replicated: its name says that it was copied from {origin}, so it would go round in a circle"
        replicated = f"replicated as {self.remote_name(topic)}"
        if self.filter.accepts(topic):
            return f"{replicated}: {_why(self.filter, topic)}"
        if self.policy.is_heartbeats_topic(topic):
            if self.heartbeats:
                return f"{replicated}: it holds heartbeats, which go whatever topics and topics.exclude say"
            return "not replicated: it holds heartbeats, and heartbeats.replication.enabled is false"
        return f"not replicated: {_why(self.filter, topic)}"

    def _why_internal(self, topic: str) -> str:
        for start in ("__", "."):
            if topic.startswith(start):
                return f"it begins with {start}, as Kafka's internal topics do"
        return "it is one of MM2's internal topics"


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """Which consumer groups of the source checkpoints are written for, as far as their names say."""

    filter: NameFilter

    def selects(self, group: str) -> bool:
        return self.filter.accepts(group)

    def reason(self, group: str) -> str:
        return f"{'followed' if self.selects(group) else 'not followed'}: {_why(self.filter, group)}"


def selection_of(flow: FlowConfig) -> TopicSelection:
    """Aliases are the connector's: a dedicated-mode file may give it others than those of the flow's name."""
    connector = flow.source
    if connector is None:
        raise ValueError(f"{flow} has no source connector, so it replicates no topics")
    settings = connector.settings
    return TopicSelection(
        settings.source_cluster_alias,
        settings.target_cluster_alias,
        policy_of(connector),
        _topic_filter(connector),
        settings.heartbeats_replication_enabled,
    )


def checkpoint_topics_of(flow: FlowConfig) -> NameFilter:
    """The topics whose offsets are translated: the plain filter, without the other rules of TopicSelection."""
    return _topic_filter(_checkpoints(flow))


def group_selection_of(flow: FlowConfig) -> GroupSelection:
    connector = _checkpoints(flow)
    settings = connector.settings
    if is_python(settings.group_filter_class):
        return GroupSelection(custom_filter("group.filter.class", settings.group_filter_class, texts_of(connector)))
    return GroupSelection(GroupFilter(settings.groups, settings.groups_exclude))


def config_filter_of(flow: FlowConfig) -> ConfigFilter | CustomFilter:
    """Which topic configs are copied at all; the other rules are in configs.py."""
    connector = flow.source
    if connector is None:
        raise ValueError(f"{flow} has no source connector, so it copies no topic configs")
    name = connector.settings.config_property_filter_class
    if is_python(name):
        return custom_filter("config.property.filter.class", name, texts_of(connector))
    return ConfigFilter(connector.settings.config_properties_exclude)


def _checkpoints(flow: FlowConfig) -> Connector[CheckpointSettings]:
    if flow.checkpoint is None:
        raise ValueError(f"{flow} has no checkpoint connector, so it follows no groups")
    return flow.checkpoint


def _topic_filter(connector: Connector[Any]) -> NameFilter:
    settings = connector.settings
    if is_python(settings.topic_filter_class):
        return custom_filter("topic.filter.class", settings.topic_filter_class, texts_of(connector))
    return TopicFilter(settings.topics, settings.topics_exclude)


def offset_syncs_location(flow: FlowConfig) -> tuple[Side, str]:
    """Which cluster holds the offset-syncs topic, and its name there: the name of the *other* cluster is in it."""
    connector: Connector[Any] | None = flow.source or flow.checkpoint
    if connector is None:
        raise ValueError(f"{flow} has neither a source nor a checkpoint connector, so it has no offset syncs")
    settings = connector.settings
    side = cast("Side", settings.offset_syncs_topic_location)
    other = settings.target_cluster_alias if side == "source" else settings.source_cluster_alias
    return side, policy_of(connector).offset_syncs_topic(other)


@lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    return compile_list(patterns)


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    pattern = _compiled(patterns)
    return pattern is not None and pattern.fullmatch(name) is not None


def _why(chosen: NameFilter, name: str) -> str:
    """Why a filter accepts the name, or does not."""
    match chosen:
        case TopicFilter(include, exclude):
            key = "topics"
        case GroupFilter(include, exclude):
            key = "groups"
        case CustomFilter():
            return chosen.reason(name)
        case _:
            return f"{type(chosen).__name__} decides so"
    if _matches(exclude, name):
        return f"{key}.exclude {_which(exclude, name)}"
    return f"{key} {_which(include, name)}" if _matches(include, name) else f"no pattern of {key} matches it"


def _which(patterns: tuple[str, ...], name: str) -> str:
    """The element that matches, of a list that does. Maybe none by itself: `(a,b)` is two elements, one pattern."""
    for pattern in patterns:
        try:
            if _matches((pattern,), name):
                return f"has {pattern!r}"
        except JavaRegexError:
            continue
    return f"has {'|'.join(patterns)!r}"
