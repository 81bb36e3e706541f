"""Keeps topics that would go round for ever out of a flow; knows clusters by their ids, for which it asks them."""

import contextlib
from collections.abc import Callable, Sequence

from twinlog.config.flows import FlowConfig
from twinlog.errors import KafkaError
from twinlog.kafka.client import Client
from twinlog.topology.loops import Way, refusal, round_trip
from twinlog.topology.selection import TopicSelection, selection_of


class LoopGuard:
    """Of one flow, which knows the others of its file."""

    def __init__(self, config: FlowConfig, flows: Sequence[FlowConfig]) -> None:
        self._config = config
        self._flows = [config, *(flow for flow in flows if flow.replicates and str(flow) != str(config))]
        self._ways = [Way(flow.flow, _keeps(selection_of(flow))) for flow in self._flows]
        self._ids: dict[str, str] = {}

    def refused(self, topic: str) -> str:
        """Why this flow must not take the topic; empty: it may."""
        if not self._ways[0].selects(topic):
            return ""
        self._ask()
        trip = round_trip(topic, self._ways, self._ids)
        return refusal(topic, trip, self._ids) if self._config.flow in trip else ""

    def _ask(self) -> None:
        """A cluster that does not answer goes by its alias, and is asked again with the next topic."""
        for flow in self._flows:
            for alias, role in ((flow.flow.source, "source.admin"), (flow.flow.target, "target.admin")):
                if alias in self._ids or flow.source is None:
                    continue
                client = Client(alias, flow.source.clients[role], "twinlog-loops")
                with contextlib.suppress(KafkaError):
                    self._ids[alias] = client.metadata([]).cluster_id or alias
                client.close()


def _keeps(selection: TopicSelection) -> Callable[[str], bool]:
    """Whether a topic takes the flow under the name that it has."""
    return lambda topic: selection.remote_name(topic) == topic and selection.selects(topic)
