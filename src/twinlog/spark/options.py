"""Options of the data source, and the flow configuration they select."""

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twinlog.config import load
from twinlog.config.flows import FlowConfig
from twinlog.errors import ConfigError
from twinlog.sync.scheduler import interval

# Seconds between topic discoveries if the operator sets no interval: MM2's 600 would delay new topics.
_REFRESH: Final = 30
_REFRESH_EMPTY: Final = 5.0


@dataclass(frozen=True, slots=True)
class Options:
    config: FlowConfig
    flows: tuple[FlowConfig, ...]  # every flow of the configuration
    run: str
    tasks: int
    epoch_seconds: float
    refresh_seconds: float  # between two topic discoveries; inf: only at the start
    empty_seconds: float  # the same while no topic is selected
    first_epoch: int = 0
    instance: str = ""


def read_options(options: dict[str, str]) -> Options:
    """Reads the files on the driver; workers get a pickled copy, so that no secret is written into Spark's plan."""
    if "config" not in options:
        raise ConfigError('data source twinlog: no configuration; set option("config", "<mm2.properties>")')
    text = options["config"]
    paths = json.loads(text) if text.startswith("[") else [text]
    config = load(paths, Path(options["secrets"]) if "secrets" in options else None)
    name = options.get("flow", "").replace(" ", "")
    known = [f for f in config.flows if f.replicates]
    flows = [f for f in known if str(f).replace(" ", "") == name] if name else known
    if len(flows) != 1:
        names = ", ".join(map(str, known)) or "none"
        raise ConfigError(f'option("flow", "{name}"): not exactly one replicating flow; choose one of: {names}')
    source = flows[0].source
    assert source is not None
    settings, values = source.settings, source.values
    every = settings.refresh_topics_interval_seconds if "refresh.topics.interval.seconds" in values else None
    refresh = interval(_REFRESH if every is None else every, enabled=settings.refresh_topics_enabled, least=1.0)
    refresh = float("inf") if refresh is None else refresh
    tasks = settings.tasks_max if "tasks.max" in values else 2
    return Options(
        flows[0],
        config.flows,
        options.get("run") or uuid.uuid4().hex,
        int(options.get("tasks") or tasks),
        float(settings.twinlog_epoch_seconds),
        refresh,
        min(refresh, _REFRESH_EMPTY) if every is None and settings.refresh_topics_enabled else refresh,
        int(options.get("epoch") or 0),
        options.get("instance", ""),
    )
