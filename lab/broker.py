"""A real broker as a child process that can be killed, paused and restarted with the same data and ports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab import jars, probe, storage
from lab.java_process import SMALL, JavaProcess, oauth_urls
from lab.listeners import (
    CONTROLLER,
    INTERNAL,
    PLAINTEXT,
    SUPER_USER,
    Listener,
    Secrets,
    broker_properties,
)
from lab.ports import HOST
from lab.waiting import until
from lab.zookeeper import has_broker
from twinlog.config.properties import properties_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """`settings` go into every broker's server.properties and override the lab's defaults."""

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
        """The brokers that are also controllers: an odd number, since a quorum of two survives no failure."""
        if self.zookeeper:
            return range(0)
        return range(self.brokers if self.brokers % 2 else self.brokers - 1)

    @property
    def zookeeper(self) -> bool:
        """Whether the metadata are in ZooKeeper: KRaft is ready for production since 3.3."""
        return jars.before(self.line, "3.3")


def server_properties(
    spec: ClusterSpec,
    node: int,
    ports: Mapping[Listener, int],
    metadata: Mapping[int, int] | str,
    secrets: Secrets,
    data: Path,
) -> dict[str, str]:
    """A broker's complete configuration. `metadata` is ZooKeeper's address, or maps broker ids to controller ports."""
    voters = {} if isinstance(metadata, str) else metadata
    is_controller = node in voters
    own_listeners = [listener for listener in ports if is_controller or listener != CONTROLLER]
    replicas = str(min(3, spec.brokers))
    properties = _zookeeper(node, metadata) if isinstance(metadata, str) else _quorum(node, metadata)
    properties |= {
        "listeners": ",".join(f"{each.name}://{each.host}:{ports[each]}" for each in own_listeners),
        "listener.security.protocol.map": ",".join(f"{each.name}:{each.protocol}" for each in ports),
        "inter.broker.listener.name": INTERNAL.name,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        # Tests write records with old timestamps, which retention would delete.
        "log.retention.ms": "-1",
        # Enough threads and buffers for one test.
        "num.network.threads": "1",
        "num.io.threads": "4",
        "num.recovery.threads.per.data.dir": "1",
        "log.cleaner.dedupe.buffer.size": "8388608",
    }
    clients = [listener for listener in own_listeners if listener != CONTROLLER]
    if any(each.advertised_host != each.host for each in clients):
        properties["advertised.listeners"] = ",".join(
            f"{each.name}://{each.advertised_host}:{ports[each]}" for each in clients
        )
    for listener in ports:
        properties |= broker_properties(listener, secrets)
    if spec.authorizer:
        properties["authorizer.class.name"] = (
            "kafka.security.authorizer.AclAuthorizer"
            if spec.zookeeper
            else "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        )
        properties["super.users"] = f"User:{SUPER_USER}"
    return properties | dict(spec.settings)


def _quorum(node: int, voters: Mapping[int, int]) -> dict[str, str]:
    """KRaft: the metadata are in a log of the controllers."""
    return {
        "process.roles": "broker,controller" if node in voters else "broker",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(f"{n}@{HOST}:{port}" for n, port in voters.items()),
        "controller.listener.names": CONTROLLER.name,
        "sasl.mechanism.controller.protocol": "PLAIN",
        # A killed broker can register again only after its session has expired: sooner than the default of 9 s, but
        # late enough for a machine with more JVMs than cores.
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "4000",
        # No no-op records in the metadata log: they are a third of an idle broker's CPU time.
        "metadata.max.idle.interval.ms": "0",
    }


def _zookeeper(node: int, address: str) -> dict[str, str]:
    return {
        "broker.id": str(node),
        "zookeeper.connect": address,
        "zookeeper.connection.timeout.ms": "60000",  # both are started at the same time
        "zookeeper.session.timeout.ms": "4000",  # as in a quorum
    }


class Broker:
    def __init__(
        self,
        spec: ClusterSpec,
        node: int,
        folder: Path,
        *,
        cluster_id: str,
        ports: Mapping[Listener, int],
        metadata: Mapping[int, int] | str,
        secrets: Secrets,
        wait_until_ready: Callable[["Broker"], None],
    ) -> None:
        self.id = node
        self.ports = dict(ports)
        self.folder = folder
        self.data = folder / "data"
        self.paused = False
        self._secrets = secrets
        self._zookeeper = metadata if isinstance(metadata, str) else None
        self._wait_until_ready = wait_until_ready
        if spec.zookeeper:
            self.data.mkdir(parents=True)  # a broker formats it
        else:
            storage.format_folder(self.data, spec.line, cluster_id, node)
        properties = server_properties(spec, node, ports, metadata, secrets, self.data)
        file = folder / "server.properties"
        file.write_text(properties_text(properties))
        kerberos = (f"-Djava.security.krb5.conf={secrets.kdc.config}",) if secrets.kdc else ()
        self.process = JavaProcess(
            f"{spec.name} broker {node}",
            folder / "broker.log",
            main="kafka.Kafka",
            arguments=[str(file)],
            line=spec.line,
            role="broker",
            flags=(*spec.flags, *kerberos),
            urls=oauth_urls(properties),
        )

    @property
    def log(self) -> Path:
        return self.process.log

    @property
    def alive(self) -> bool:
        return self.process.alive

    def launch(self) -> None:
        """Starts it without waiting, but for the end of its last session in ZooKeeper."""
        self.paused = False
        if (zookeeper := self._zookeeper) is not None:
            until(lambda: not has_broker(zookeeper, self.id), f"end of the session of {self.process.name}")
        self.process.start()

    def start(self) -> None:
        self.launch()
        self._wait_until_ready(self)

    def stop(self) -> None:
        """Controlled shutdown: its leaders move to other brokers first."""
        self.paused = False
        self.process.stop()

    def kill(self) -> None:
        """SIGKILL, without a controlled shutdown."""
        self.paused = False
        self.process.kill()

    def pause(self) -> None:
        self.paused = True
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()
        self.paused = False

    def restart(self) -> None:
        """With the same data and ports; stops it first if it is running. Returns when it serves requests again."""
        if self.alive:
            self.stop()
        self.start()

    def is_serving(self) -> bool:
        """Whether it serves requests on all its listeners."""
        return all(
            probe.is_serving(listener, port, self._secrets.authority)
            for listener, port in self.ports.items()
            if listener != CONTROLLER
        )
