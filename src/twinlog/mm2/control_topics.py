"""Control topics of a target: their records control replication or a Connect worker, and move consumer groups.

A flow never copies records of its source into one, whatever policy, separator and filters are set: otherwise a source
with a topic of such a name could configure the target. The name on the target counts, so `checkpoints.internal` of `us`
is excluded, too: it would become `us.checkpoints.internal`.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from twinlog.config.flows import Connector, FlowConfig
from twinlog.config.values import FrozenMap
from twinlog.mm2.replication_policy import ReplicationPolicy, policy_of

# Kafka's own: a broker would refuse the records, and the partition would stop.
_KAFKAS: Final = frozenset((
    "__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", "__remote_log_metadata",
))  # fmt: skip
# MM2's and Twinlog's, of any flow: `mm2-offsets.us.internal`. Their separator is a dot, or that of some flow's policy.
_FAMILIES: Final = {
    "mm2-offsets": "source offsets",
    "mm2-configs": "connector configurations",
    "mm2-status": "connector states",
    "mm2-offset-syncs": "offset syncs",
    "mm2-twinlog": "Twinlog's journal",
}
_SEPARATORS: Final = (".", "_", "-")  # of other flows into the same target


@dataclass(frozen=True, slots=True)
class ControlTopics:
    names: FrozenMap = field(default_factory=lambda: FrozenMap({}))  # name on the target -> content
    separators: tuple[str, ...] = (".",)

    def holds(self, name: str) -> str:
        """The content of the control topic of this name on the target; empty: it is not a control topic."""
        if name in self.names:
            return str(self.names[name])
        if name in _KAFKAS:
            return "Kafka's own state"
        for one in {*self.separators, *_SEPARATORS}:
            if name.endswith(f"checkpoints{one}internal"):
                return "checkpoints"
            for family, held in _FAMILIES.items():
                if name.startswith(family + one) and name.endswith(f"{one}internal"):
                    return held
        return ""


def control_topics_of(flow: FlowConfig) -> ControlTopics:
    """Those of the flow itself, and of the other configured flows into the same target."""
    names = dict(flow.storage_topics)
    separators = {".": None}
    worker = flow.worker.settings
    names |= {
        worker.config_storage_topic: "connector configurations",
        worker.offset_storage_topic: "source offsets",
        worker.status_storage_topic: "connector states",
    }
    for connector in flow.connectors.values():
        policy = policy_of(connector)
        separators[connector.settings.replication_policy_separator] = None
        names |= _of_connector(connector, policy)
    return ControlTopics(FrozenMap(names), tuple(separators))


def _of_connector(connector: Connector[Any], policy: ReplicationPolicy) -> dict[str, str]:
    settings = connector.settings
    found = {
        policy.checkpoints_topic(settings.source_cluster_alias): "checkpoints",
        policy.offset_syncs_topic(settings.source_cluster_alias): "offset syncs",
        policy.heartbeats_topic(): "heartbeats",
    }
    if settings.offsets_storage_topic:
        found[settings.offsets_storage_topic] = "source offsets"
    return found
