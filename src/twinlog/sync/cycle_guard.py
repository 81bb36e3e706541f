"""Skips topics that would be replicated in a cycle. Clusters are identified by their ids."""

from collections.abc import Callable, Iterable, Sequence

from twinlog.config.flows import FlowConfig
from twinlog.errors import KafkaError, UnreachableError
from twinlog.mm2.client_ids import SIDES
from twinlog.mm2.cycles import CyclePath, refusal, round_trip
from twinlog.mm2.selection import TopicSelection, selection_of
from twinlog.sync.flow_clients import FlowClients


class CycleGuard:
    """Checks the topics of one flow against all flows of the configuration."""

    def __init__(self, config: FlowConfig, flows: Sequence[FlowConfig]) -> None:
        self._config = config
        self._flows = [config, *(flow for flow in flows if flow.replicates and str(flow) != str(config))]
        self._paths = [CyclePath(flow.flow, _keeps_name(selection_of(flow))) for flow in self._flows]
        self._ids: dict[str, str] = {}

    def reasons_to_skip(self, topics: Iterable[str]) -> dict[str, str]:
        """Why this flow must not replicate them, by topic; without the topics that it may replicate."""
        kept = [topic for topic in topics if self._paths[0].selects(topic)]
        if kept:
            self._read_ids()
        trips = {topic: round_trip(topic, self._paths, self._ids) for topic in kept}
        return {topic: refusal(topic, trip, self._ids) for topic, trip in trips.items() if self._config.flow in trip}

    def _read_ids(self) -> None:
        """An unreachable cluster is identified by its alias until the next call."""
        unreachable: set[str] = set()
        for flow in self._flows:
            with FlowClients(flow) as clients:
                for side in SIDES:
                    alias = flow.flow.source if side == "source" else flow.flow.target
                    if alias in self._ids or alias in unreachable:
                        continue
                    try:
                        self._ids[alias] = clients.client(f"{side}.admin").metadata([]).cluster_id or alias
                    except UnreachableError:
                        unreachable.add(alias)
                    except KafkaError:  # another flow may have other credentials
                        continue


def _keeps_name(selection: TopicSelection) -> Callable[[str], bool]:
    """Whether the flow replicates a topic without changing its name."""
    return lambda topic: selection.remote_name(topic) == topic and selection.selects(topic)
