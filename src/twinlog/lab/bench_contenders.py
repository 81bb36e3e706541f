"""Who is measured: MM2 as shipped, MM2 tuned, and Twinlog, each a process of its own with a file of its own.

Each measurement gives the source another alias. So every contender fills remote topics and internal topics that are its
own, on the same brokers, which are as warm for one as for the other.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from twinlog.errors import LabError
from twinlog.lab.cluster import Cluster
from twinlog.lab.demo_run import TwinlogRun
from twinlog.lab.java_process import SHIPPED
from twinlog.lab.lab import Lab
from twinlog.lab.listeners import PLAINTEXT, Listener
from twinlog.lab.peer import EAGER, MirrorMaker

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

# What kafka's connect-mirror-maker.sh gives to the JVM.
_FLAGS = ("-Xms256M", "-Xmx2G", *SHIPPED)


@dataclass(frozen=True, slots=True)
class Contender:
    key: str
    name: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        return self.key == "twinlog"


CONTENDERS = {
    each.key: each
    for each in (
        Contender("shipped", "MM2 as shipped"),
        Contender("tuned", "MM2 tuned", TUNED),
        Contender("twinlog", "Twinlog"),
    )
}


def properties(
    contender: Contender, us: Cluster, eu: Cluster, alias: str, topics: str, door: Listener = PLAINTEXT
) -> dict[str, str]:
    """MM2's defaults, but for one copy of each topic: there is one broker. Heartbeats would be another flow, back."""
    found = {
        "clusters": f"{alias}, eu",
        **{f"{alias}.{key}": value for key, value in us.client_properties(door).items()},
        **{f"eu.{key}": value for key, value in eu.client_properties(door).items()},
        f"{alias}->eu.enabled": "true",
        f"{alias}->eu.topics": topics,
        "emit.heartbeats.enabled": "false",
    }
    found |= {key: value for key, value in EAGER.items() if key.endswith("replication.factor")}
    return found | {key.format(source=alias, target="eu"): value for key, value in contender.settings.items()}


class Running:
    def __init__(self, program: MirrorMaker | TwinlogRun) -> None:
        self._program = program

    @property
    def pid(self) -> int:
        return self._program.process.pid or 0

    def check(self) -> None:
        if reason := self._program.process.last_words():
            raise LabError(reason)

    def quote(self) -> str:
        return self._program.process.quote()

    def stop(self) -> None:
        self._program.stop()


@contextmanager
def running(
    lab: Lab, contender: Contender, us: Cluster, eu: Cluster, *, alias: str, topics: str, door: Listener = PLAINTEXT
) -> Iterator[Running]:
    """Started, and stopped in good order at the end; killed if something else went wrong."""
    wanted = properties(contender, us, eu, alias, topics, door)
    program: MirrorMaker | TwinlogRun
    if contender.ours:
        folder = lab.folder / alias
        program = TwinlogRun(wanted, folder, folder / "scratch")
        program.start()
    else:
        program = lab.mirror_maker(wanted, name=alias, flags=_FLAGS)
    try:
        yield Running(program)
        program.stop()
    finally:
        program.kill()
