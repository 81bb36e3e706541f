"""One real broker as a child process, which can be killed, paused and brought back on the same data and ports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from twinlog.config.properties import properties_text
from twinlog.lab import jars, probe, storage
from twinlog.lab.java_process import SMALL, JavaProcess, oauth_urls
from twinlog.lab.listeners import (
    CONTROLLER,
    INTERNAL,
    PLAINTEXT,
    SUPER_USER,
    Listener,
    Secrets,
    broker_properties,
)
from twinlog.lab.ports import HOST


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """What a cluster shall be. `settings` go into every broker's server.properties and win over ours."""

    name: str
    brokers: int = 1
    line: str = jars.NEWEST
    listeners: tuple[Listener, ...] = (PLAINTEXT,)
    users: tuple[str, ...] = ()
    authorizer: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = SMALL

    @property
    def controllers(self) -> range:
        """The brokers that also vote: an odd number, since with two voters the death of either would stop both."""
        return range(self.brokers if self.brokers % 2 else self.brokers - 1)


def server_properties(
    spec: ClusterSpec, node: int, ports: Mapping[Listener, int], voters: Mapping[int, int], secrets: Secrets, data: Path
) -> dict[str, str]:
    """A broker's whole configuration. `voters` gives the controllers' ports by broker id."""
    votes = node in voters
    doors = [listener for listener in ports if votes or listener != CONTROLLER]
    copies = str(min(3, spec.brokers))
    found = {
        "process.roles": "broker,controller" if votes else "broker",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(f"{n}@{HOST}:{port}" for n, port in voters.items()),
        "controller.listener.names": CONTROLLER.name,
        "listeners": ",".join(f"{listener.name}://{HOST}:{ports[listener]}" for listener in doors),
        "listener.security.protocol.map": ",".join(f"{each.name}:{each.protocol}" for each in ports),
        "inter.broker.listener.name": INTERNAL.name,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "default.replication.factor": copies,
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        # Tests write records of long ago: those would be deleted whenever a broker comes to look.
        "log.retention.ms": "-1",
        # A killed broker may only come back when the controller has given up its last life: not after 9 s, as
        # usual, but still long enough for a machine with more JVMs than cores.
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "4000",
        # Nothing is written to the metadata log when nothing happens: a third of what an idle broker costs.
        "metadata.max.idle.interval.ms": "0",
        # Threads and buffers for a broker that serves one test.
        "num.network.threads": "1",
        "num.io.threads": "4",
        "num.recovery.threads.per.data.dir": "1",
        "log.cleaner.dedupe.buffer.size": "8388608",
    }
    for listener in ports:
        found |= broker_properties(listener, secrets)
    if spec.authorizer:
        found["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        found["super.users"] = f"User:{SUPER_USER}"
    return found | dict(spec.settings)


class Broker:
    def __init__(
        self,
        spec: ClusterSpec,
        node: int,
        folder: Path,
        *,
        cluster_id: str,
        ports: Mapping[Listener, int],
        voters: Mapping[int, int],
        secrets: Secrets,
        ready: Callable[["Broker"], None],
    ) -> None:
        self.id = node
        self.ports = dict(ports)
        self.folder = folder
        self.data = folder / "data"
        self.paused = False
        self._secrets = secrets
        self._ready = ready
        storage.format_folder(self.data, spec.line, cluster_id, node)
        properties = server_properties(spec, node, ports, voters, secrets, self.data)
        file = folder / "server.properties"
        file.write_text(properties_text(properties))
        realm = (f"-Djava.security.krb5.conf={secrets.kdc.config}",) if secrets.kdc else ()
        self.process = JavaProcess(
            f"{spec.name} broker {node}",
            folder / "broker.log",
            main="kafka.Kafka",
            arguments=[str(file)],
            line=spec.line,
            role="broker",
            flags=(*spec.flags, *realm),
            urls=oauth_urls(properties),
        )

    @property
    def log(self) -> Path:
        return self.process.log

    @property
    def alive(self) -> bool:
        return self.process.alive

    def launch(self) -> None:
        """Starts it and does not wait."""
        self.paused = False
        self.process.start()

    def start(self) -> None:
        self.launch()
        self._ready(self)

    def stop(self) -> None:
        """In order: its leaders move to others first, where there are any."""
        self.paused = False
        self.process.stop()

    def kill(self) -> None:
        """As with kill -9 or a power cut: no goodbye to anyone."""
        self.paused = False
        self.process.kill()

    def pause(self) -> None:
        self.paused = True
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()
        self.paused = False

    def restart(self) -> None:
        """On the same data and the same ports; stops it first if it runs. Returns when it serves again."""
        if self.alive:
            self.stop()
        self.start()

    def answers(self) -> bool:
        """Whether it serves requests on every one of its listeners."""
        return all(
            probe.answers(listener, port, self._secrets.authority)
            for listener, port in self.ports.items()
            if listener != CONTROLLER
        )
