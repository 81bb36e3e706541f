"""Topic, group and config selection: what a flow replicates, under which names, and why."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, cast

from twinlog.config.flows import Connector, FlowConfig
from twinlog.config.java_regex import JavaRegexError, compile_list
from twinlog.config.settings import CheckpointSettings
from twinlog.mm2.control_topics import ControlTopics, control_topics_of
from twinlog.mm2.plugins import CustomFilter, NameFilter, custom_filter, is_python
from twinlog.mm2.replication_policy import ReplicationPolicy, policy_of, texts_of

Side = Literal["source", "target"]

ALIAS_TOPICS = "twinlog.source.alias.topics"


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """MM2's DefaultTopicFilter: some pattern of `topics` and none of `topics.exclude` matches the full name.

    An empty list matches nothing. Checkpoints use this filter alone, without the other rules of TopicSelection.
    """

    topics: tuple[str, ...]
    exclude: tuple[str, ...]

    def accepts(self, topic: str, /) -> bool:
        return _matches(self.topics, topic) and not _matches(self.exclude, topic)


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """MM2's DefaultGroupFilter: the same with `groups` and `groups.exclude`."""

    groups: tuple[str, ...]
    exclude: tuple[str, ...]

    def accepts(self, group: str, /) -> bool:
        return _matches(self.groups, group) and not _matches(self.exclude, group)


@dataclass(frozen=True, slots=True)
class ConfigFilter:
    """MM2's DefaultConfigPropertyFilter: every topic config except those in `config.properties.exclude`."""

    exclude: tuple[str, ...]

    def accepts(self, name: str, /) -> bool:
        return not _matches(self.exclude, name)

    def reason(self, name: str) -> str:
        if self.accepts(name):
            return "copied: no pattern of config.properties.exclude matches it"
        return f"not copied: config.properties.exclude {_which(self.exclude, name)}"


_PLAIN: Final = re.compile(r"[\w.-]+")  # a pattern that looks like a topic name


@dataclass(frozen=True, slots=True)
class TopicSelection:
    source: str
    target: str
    policy: ReplicationPolicy
    filter: NameFilter
    heartbeats: bool = True  # heartbeats.replication.enabled
    own_alias_is_cycle: bool = False  # twinlog.source.alias.topics = exclude
    control: ControlTopics = field(default_factory=ControlTopics)

    def selects(self, topic: str) -> bool:
        return (
            self._wanted(topic)
            and not self.policy.is_internal_topic(topic)
            and self.cycle_through(topic) is None
            and not self.control.holds(self.remote_name(topic))
        )

    def _wanted(self, topic: str) -> bool:
        return self.filter.accepts(topic) or (self.heartbeats and self.policy.is_heartbeats_topic(topic))

    def unseen(self, seen: Collection[str]) -> list[str]:
        """Topics that `topics` lists by name and that are not in `seen`."""
        if not isinstance(self.filter, TopicFilter):
            return []
        return [
            pattern
            for pattern in self.filter.topics
            if _PLAIN.fullmatch(pattern)
            and self.selects(pattern)
            and pattern not in seen
            and not any(TopicFilter((pattern,), ()).accepts(name) for name in seen)
        ]

    def remote_name(self, topic: str) -> str:
        return self.policy.format_remote_topic(self.source, topic)

    def left_out_as_cycle(self, topic: str) -> str | None:
        """The cluster that the topic was copied from, if it is left out only because of the cycle."""
        if not self._wanted(topic) or self.policy.is_internal_topic(topic):
            return None
        return self.cycle_through(topic)

    def cycle_through(self, topic: str) -> str | None:
        """The cluster of this flow that the topic was already copied from, by its name; None: no cycle.

        MM2 up to 4.3 checks for the target only: `us.orders` on `us` is like any other topic and becomes
        `us.us.orders`. With 4.4's rule (KAFKA-9914) the source counts, too, except for topics that keep their names:
        those would all seem to come from the source. The name decides, not the policy's class, because a policy ported
        from Java may have any class.
        """
        ends = {self.target}
        if self.own_alias_is_cycle and self.remote_name(topic) != topic:
            ends.add(self.source)
        seen = {topic}
        while (origin := self.policy.topic_source(topic)) is not None:
            if origin in ends:
                return origin
            upstream = self.policy.upstream_topic(topic)
            if upstream is None or upstream in seen:
                return None
            seen.add(upstream)
            topic = upstream
        return None

    def reason(self, topic: str) -> str:
        return f"{self.verdict(topic)}: {self.cause(topic)}"

    def verdict(self, topic: str) -> str:
        return f"replicated as {self.remote_name(topic)}" if self.selects(topic) else "not replicated"

    def cause(self, topic: str) -> str:
        """The rule that decides. Rules that no setting changes come first."""
        if self.policy.is_internal_topic(topic):
            return self._internal_cause(topic)
        if (origin := self.cycle_through(topic)) is not None:
            return self._cycle_cause(origin)
        remote = self.remote_name(topic)
        if held := self.control.holds(remote):
            return f"{remote} on {self.target} is a control topic ({held})"
        if not self.filter.accepts(topic) and self.policy.is_heartbeats_topic(topic):
            if self.heartbeats:
                return "heartbeats topic, replicated regardless of topics and topics.exclude"
            return "heartbeats topic, and heartbeats.replication.enabled is false"
        return _filter_cause(self.filter, topic)

    def setting_of_cycle(self, topic: str) -> str:
        """The setting that excludes the topic as a cycle; empty: no setting does."""
        return ALIAS_TOPICS if self.own_alias_is_cycle and self.cycle_through(topic) == self.source else ""

    def _cycle_cause(self, origin: str) -> str:
        if origin != self.target:
            return f"by its name it was copied from {origin}, and {ALIAS_TOPICS} is exclude"
        return f"replication cycle: by its name it was copied from {origin}"

    def _internal_cause(self, topic: str) -> str:
        for prefix in ("__", "."):
            if topic.startswith(prefix):
                return f"internal topic (its name starts with {prefix})"
        return "internal topic of MM2"


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """The consumer groups of the source for which checkpoints are written, by name."""

    filter: NameFilter

    def selects(self, group: str) -> bool:
        return self.filter.accepts(group)

    def reason(self, group: str) -> str:
        return f"{self.verdict(group)}: {self.cause(group)}"

    def verdict(self, group: str) -> str:
        return "followed" if self.selects(group) else "not followed"

    def cause(self, group: str) -> str:
        return _filter_cause(self.filter, group)


def selection_of(flow: FlowConfig) -> TopicSelection:
    """With the connector's aliases: a dedicated-mode file may set others than those in the flow's name."""
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
        settings.twinlog_source_alias_topics == "exclude",
        control_topics_of(flow),
    )


def checkpoint_topics_of(flow: FlowConfig) -> NameFilter:
    """The topics whose offsets are translated: the filter alone, without the other rules of TopicSelection."""
    return _topic_filter(_checkpoints(flow))


def group_selection_of(flow: FlowConfig) -> GroupSelection:
    connector = _checkpoints(flow)
    settings = connector.settings
    if is_python(settings.group_filter_class):
        return GroupSelection(custom_filter("group.filter.class", settings.group_filter_class, texts_of(connector)))
    return GroupSelection(GroupFilter(settings.groups, settings.groups_exclude))


def config_filter_of(flow: FlowConfig) -> ConfigFilter | CustomFilter:
    """Which topic configs are copied at all; the other rules are in topic_configs.py."""
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
    """The cluster with the offset-syncs topic, and its name, which contains the alias of the *other* cluster."""
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


def _filter_cause(name_filter: NameFilter, name: str) -> str:
    match name_filter:
        case TopicFilter(include, exclude):
            key = "topics"
        case GroupFilter(include, exclude):
            key = "groups"
        case CustomFilter():
            return name_filter.reason(name)
        case _:
            return f"decided by {type(name_filter).__name__}"
    if _matches(exclude, name):
        return f"{key}.exclude {_which(exclude, name)}"
    return f"{key} {_which(include, name)}" if _matches(include, name) else f"no pattern of {key} matches it"


def _which(patterns: tuple[str, ...], name: str) -> str:
    """The matching element of a matching list; the whole list if no element matches alone: `(a,b)` is two elements,
    one pattern.
    """
    for pattern in patterns:
        try:
            if _matches((pattern,), name):
                return f"has {pattern!r}"
        except JavaRegexError:
            continue
    return f"has {'|'.join(patterns)!r}"
