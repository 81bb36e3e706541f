"""Selects the flows to run, and their number of tasks. Pure."""

import math
import os
from collections.abc import Sequence
from typing import Final

from twinlog.config import Config
from twinlog.config.flows import FlowConfig
from twinlog.errors import ConfigError

_DEFAULT_MAX_TASKS: Final = 4  # if tasks.max is not set


def select_flows(config: Config, flows: Sequence[str], clusters: Sequence[str]) -> list[FlowConfig]:
    """The selected flows that replicate records; `clusters` are targets, as in MM2's --clusters. Empty if only
    heartbeats are emitted to these clusters.
    """
    known = [flow for flow in config.flows if flow.replicates]
    for wanted in flows:
        if not any(is_named(flow, wanted) for flow in known):
            raise ConfigError(
                f"--flow {wanted}: no such replicating flow in {', '.join(config.files)}; choose one of: "
                f"{', '.join(str(flow) for flow in known) or 'none'}"
            )
    for alias in clusters:
        if alias not in config.clusters:
            raise ConfigError(f"--clusters {alias}: no such cluster; choose from: {', '.join(sorted(config.clusters))}")
    found = [
        flow
        for flow in known
        if (not flows or any(is_named(flow, wanted) for wanted in flows))
        and (not clusters or flow.flow.target in clusters)
    ]
    if not found and clusters and heartbeat_flows(config, flows, clusters):
        return []  # as an MM2 node that only emits heartbeats
    if not found and known:
        raise ConfigError(
            f"--clusters {','.join(clusters)}: not the target of a replicating flow; flows: "
            f"{', '.join(str(flow) for flow in known)}"
        )
    if not found and not config.flows:
        raise ConfigError(
            f"{', '.join(config.files)}: no flow, only a cluster",
            "use twinlog serve for a Connect worker file, or name the JSON files of its connectors, too",
        )
    if not found:
        raise ConfigError(f"{', '.join(config.files)}: no replicating flow", "set <source>-><target>.enabled = true")
    return found


def heartbeat_flows(config: Config, flows: Sequence[str], clusters: Sequence[str]) -> list[FlowConfig]:
    """Selected flows that only emit heartbeats, as MM2 does in the direction without replication."""
    return [
        flow
        for flow in config.flows
        if flow.emits_heartbeats
        and not flow.replicates
        and (not flows or any(is_named(flow, wanted) for wanted in flows))
        and (not clusters or flow.flow.target in clusters)
    ]


def is_named(flow: FlowConfig, wanted: str) -> bool:
    """Whether `wanted` is the flow's `source->target` or its full name, ignoring blanks."""
    return wanted.replace(" ", "") in {str(flow.flow), str(flow).replace(" ", "")}


def tasks_of(flow: FlowConfig, flows: int = 1, cores: int | None = None) -> int:
    """`flows` run in this process. By default all of them together have about two tasks per core: a task is a process
    of 30 MB, and flows that are busy at the same time use all cores with one task each.
    """
    assert flow.source is not None
    if "tasks.max" in flow.source.values:
        return flow.source.settings.tasks_max
    cores = cores or os.cpu_count() or 1
    return max(1, min(_DEFAULT_MAX_TASKS, cores, math.ceil(2 * cores / max(flows, 1))))
