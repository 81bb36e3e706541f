"""Which topics of the source a flow replicates, under which names, and why."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, cast

from twinlog.config.flows import Connector, FlowConfig
from twinlog.config.javaregex import JavaRegexError, compile_list
from twinlog.topology.policy import IdentityReplicationPolicy, ReplicationPolicy, policy_of

Side = Literal["source", "target"]


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """MM2's DefaultTopicFilter: some pattern of `topics` and none of `topics.exclude` matches the whole name.

    An empty list matches nothing. Checkpoints go by this alone, without the other rules of TopicSelection.
    """

    topics: tuple[str, ...]
    exclude: tuple[str, ...]

    def accepts(self, topic: str) -> bool:
        return _matches(self.topics, topic) and not _matches(self.exclude, topic)


@dataclass(frozen=True, slots=True)
class TopicSelection:
    source: str
    target: str
    policy: ReplicationPolicy
    filter: TopicFilter
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
        included, excluded = _matches(self.filter.topics, topic), _matches(self.filter.exclude, topic)
        if included and not excluded:
            return f"{replicated}: topics {_which(self.filter.topics, topic)}"
        if self.policy.is_heartbeats_topic(topic):
            if self.heartbeats:
                return f"{replicated}: it holds heartbeats, which go whatever topics and topics.exclude say"
            return "not replicated: it holds heartbeats, and heartbeats.replication.enabled is false"
        if excluded:
            return f"not replicated: topics.exclude {_which(self.filter.exclude, topic)}"
        return "not replicated: no pattern of topics matches it"

    def _why_internal(self, topic: str) -> str:
        for start in ("__", "."):
            if topic.startswith(start):
                return f"it begins with {start}, as Kafka's internal topics do"
        return "it is one of MM2's internal topics"


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
        TopicFilter(settings.topics, settings.topics_exclude),
        settings.heartbeats_replication_enabled,
    )


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


def _which(patterns: tuple[str, ...], name: str) -> str:
    """The element that matches, of a list that does. Maybe none by itself: `(a,b)` is two elements, one pattern."""
    for pattern in patterns:
        try:
            if _matches((pattern,), name):
                return f"has {pattern!r}"
        except JavaRegexError:
            continue
    return f"has {'|'.join(patterns)!r}"
