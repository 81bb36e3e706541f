"""Which flows of a configuration are run, and by how many tasks. Pure."""

import os
from collections.abc import Sequence
from typing import Final

from twinlog.config import Config
from twinlog.config.flows import FlowConfig
from twinlog.errors import ConfigError

_MOST_TASKS: Final = 4  # where the operator does not say how many


def chosen(config: Config, flows: Sequence[str], clusters: Sequence[str]) -> list[FlowConfig]:
    """The flows that replicate records, and are asked for; `clusters` are targets, as MM2's --clusters has it."""
    known = [flow for flow in config.flows if flow.replicates]
    for wanted in flows:
        if not any(is_named(flow, wanted) for flow in known):
            there = ", ".join(str(flow) for flow in known) or "none"
            raise ConfigError(
                f"--flow {wanted}: no such flow that replicates in {', '.join(config.files)}; there is: {there}"
            )
    for alias in clusters:
        if alias not in config.clusters:
            raise ConfigError(f"--clusters {alias}: no such cluster; there is: {', '.join(sorted(config.clusters))}")
    found = [
        flow
        for flow in known
        if (not flows or any(is_named(flow, wanted) for wanted in flows))
        and (not clusters or flow.flow.target in clusters)
    ]
    if not found and known:
        raise ConfigError(
            f"--clusters {','.join(clusters)}: none of the flows that replicate ends there; there is: "
            f"{', '.join(str(flow) for flow in known)}"
        )
    if not found:
        raise ConfigError(f"{', '.join(config.files)}: no flow replicates: set <source>-><target>.enabled = true")
    return found


def beating(config: Config, flows: Sequence[str], clusters: Sequence[str]) -> list[FlowConfig]:
    """Flows that copy nothing and only emit heartbeats: by them the way back is known."""
    return [
        flow
        for flow in config.flows
        if flow.emits_heartbeats
        and not flow.replicates
        and (not flows or any(is_named(flow, wanted) for wanted in flows))
        and (not clusters or flow.flow.target in clusters)
    ]


def is_named(flow: FlowConfig, wanted: str) -> bool:
    """By its clusters, which may have several flows between them, or by its full name; blanks do not matter."""
    return wanted.replace(" ", "") in {str(flow.flow), str(flow).replace(" ", "")}


def tasks_of(flow: FlowConfig) -> int:
    assert flow.source is not None
    if "tasks.max" in flow.source.values:
        return flow.source.settings.tasks_max
    return max(1, min(_MOST_TASKS, os.cpu_count() or 1))
