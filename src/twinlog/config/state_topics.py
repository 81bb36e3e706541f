"""The state topics on a target, of all flows into it: no flow may overwrite another flow's topics."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from twinlog.config.flows import FlowConfig
from twinlog.config.values import FrozenMap


def with_storage_topics(flows: Sequence[FlowConfig]) -> tuple[FlowConfig, ...]:
    """Each flow with the state topics of all flows into the same target, which is known by alias or addresses."""
    found = []
    for flow in flows:
        names: dict[str, str] = {}
        for other in flows:
            if other.flow.target == flow.flow.target or _address(other) == _address(flow) != "":
                names |= dict(_storage(other))
        found.append(replace(flow, storage_topics=FrozenMap(names)))
    return tuple(found)


def _storage(flow: FlowConfig) -> Iterator[tuple[str, str]]:
    worker = flow.worker.settings
    yield worker.config_storage_topic, "connector configurations"
    yield worker.offset_storage_topic, "source offsets"
    yield worker.status_storage_topic, "connector states"
    for connector in flow.connectors.values():
        settings = connector.settings
        if settings.offsets_storage_topic:
            yield settings.offsets_storage_topic, "source offsets"
        # The name by MM2's policies; a custom policy's name is added where the flow runs.
        for separator in {".", settings.replication_policy_separator}:
            yield f"{settings.source_cluster_alias}{separator}checkpoints{separator}internal", "checkpoints"


def _address(flow: FlowConfig) -> str:
    for connector in flow.connectors.values():
        if (value := connector.clients["target.admin"].values.get("bootstrap.servers")) is not None:
            return str(value.text).strip()
    return ""
