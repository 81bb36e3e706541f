"""What is measured: MM2 with default settings, MM2 tuned, and Twinlog, each in its own process.

Each measurement uses another alias for the source, so that all replicators use the same brokers but their own remote
and internal topics.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from lab.errors import LabError
from lab.java_process import SHIPPED
from lab.lab import Lab
from lab.mirrormaker import TEST_SETTINGS, MirrorMaker
from lab.twinlog_run import TwinlogRun

TUNED = {
    "tasks.max": "2",
    "{source}.consumer.max.poll.records": "5000",
    "{source}.consumer.max.partition.fetch.bytes": str(4 << 20),
    "{target}.producer.batch.size": str(512 << 10),
    "{target}.producer.linger.ms": "20",
    "{target}.producer.buffer.memory": str(128 << 20),
    "{target}.producer.max.request.size": str(8 << 20),
    "{target}.producer.max.in.flight.requests.per.connection": "5",
}

# The JVM flags of Kafka's connect-mirror-maker.sh.
_FLAGS = ("-Xms256M", "-Xmx2G", *SHIPPED)


@dataclass(frozen=True, slots=True)
class Replicator:
    key: str
    name: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_twinlog(self) -> bool:
        return self.key == "twinlog"


REPLICATORS = {
    each.key: each
    for each in (
        Replicator("shipped", "MM2 as shipped"),
        Replicator("tuned", "MM2 tuned", TUNED),
        Replicator("twinlog", "Twinlog"),
    )
}


@dataclass(frozen=True, slots=True)
class Route:
    """How a replicator reaches both clusters (client properties), and settings for this route in its file."""

    source: Mapping[str, str]
    target: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)


def properties(replicator: Replicator, route: Route, alias: str, topics: str) -> dict[str, str]:
    """MM2's defaults, except for replication factors (there is one broker) and heartbeats (they need a flow back)."""
    found = {
        "clusters": f"{alias}, eu",
        **{f"{alias}.{key}": value for key, value in route.source.items()},
        **{f"eu.{key}": value for key, value in route.target.items()},
        f"{alias}->eu.enabled": "true",
        f"{alias}->eu.topics": topics,
        "emit.heartbeats.enabled": "false",
    }
    found |= {key: value for key, value in TEST_SETTINGS.items() if key.endswith("replication.factor")}
    settings = {**replicator.settings, **route.settings}
    return found | {key.format(source=alias, target="eu"): value for key, value in settings.items()}


class Running:
    def __init__(self, program: MirrorMaker | TwinlogRun) -> None:
        self._program = program

    @property
    def pid(self) -> int:
        return self._program.process.pid or 0

    def check(self) -> None:
        if reason := self._program.process.exit_report():
            raise LabError(reason)

    def log_excerpt(self) -> str:
        return self._program.process.log_excerpt()

    def stop(self) -> None:
        self._program.stop()


@contextmanager
def running(lab: Lab, replicator: Replicator, route: Route, *, alias: str, topics: str) -> Iterator[Running]:
    """Starts it, and stops it gracefully at the end; kills it after an error."""
    configuration = properties(replicator, route, alias, topics)
    program: MirrorMaker | TwinlogRun
    if replicator.is_twinlog:
        folder = lab.folder / alias
        program = TwinlogRun(configuration, folder, folder / "scratch")
        program.start()
    else:
        program = lab.mirror_maker(configuration, name=alias, flags=_FLAGS)
    try:
        yield Running(program)
        program.stop()
    finally:
        program.kill()
