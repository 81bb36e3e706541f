"""What a soak runs on: two clusters of three brokers, a link to each, topics, and the configuration of Twinlog."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import UserScramCredentialUpsertion

from lab import listeners
from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.emulated_link import EmulatedLink, TunLink
from lab.errors import LabError
from lab.lab import Lab
from lab.link_conditions import Conditions
from lab.listeners import PLAINTEXT, SCRAM_256
from lab.proxy import Proxy
from soak.clock import Clock
from soak.disk import Disk
from soak.plan import SIDES, SOURCE, TARGET, Kind, available, emulated_side
from soak.replicator import Replicator
from soak.traffic import TOPICS, Traffic
from twinlog.config.properties import properties_text

USER = "twinlog"
NORMAL = Conditions(round_trip=0.03)  # of the emulated link, without a fault
_BROKERS = 3
_SETTINGS = {
    "min.insync.replicas": "2",  # acknowledged means: it survives any one broker
    "log.cleaner.backoff.ms": "3000",
    "log.cleaner.threads": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
}


class Stage:
    """Clients of the soak use each cluster's first listener, which no fault disturbs; Twinlog uses the links."""

    def __init__(self, folder: Path, seed: int, per_second: float, no_disk: str | None) -> None:
        self.folder = folder
        self._file = folder / "mm2.properties"
        self._passwords = dict.fromkeys(SIDES, listeners.password(USER))
        self.left_out: dict[str, str] = {}  # faults that this machine cannot do, with the reason
        with contextlib.ExitStack() as stack:
            self.lab = stack.enter_context(Lab())
            self.packets = self._open_link(stack, emulated_side(seed))
            self.clusters = dict(zip(SIDES, self.lab.clusters(*map(self._spec, SIDES)), strict=True))
            self.source, self.target = self.clusters[SOURCE], self.clusters[TARGET]
            for cluster in self.clusters.values():
                _require_two_replicas(cluster)
            self.proxies = {
                side: stack.enter_context(Proxy(self.clusters[side], SCRAM_256))
                for side in SIDES
                if self.packets is None or side != self.packets_side
            }
            self.disk = self._open_disk(stack, no_disk)
            self.clock = self._open_clock()
            for topic in TOPICS:
                self.source.create_topic(topic.name, topic.partitions, 3, topic.configs)
            self.write_configuration()
            self.traffic = Traffic(self.source, TOPICS, per_second, seed)
            self.traffic.start()
            stack.callback(self.traffic.finish)
            self.replicator = Replicator(self._file, folder, lambda: self.clock.env if self.clock else {})
            stack.callback(self.replicator.close)
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        side = self.packets_side if self.packets else None
        return available(packets=side, disk=self.disk is not None, clock=self.clock is not None)

    def write_configuration(self) -> None:
        """The file of `twinlog run`."""
        properties = {
            "clusters": ", ".join(SIDES),
            f"{SOURCE}->{TARGET}.enabled": "true",
            f"{SOURCE}->{TARGET}.topics": "soak-.*",
            "tasks.max": "2",
            "replication.factor": "3",
            "refresh.topics.interval.seconds": "5",
            "offset.storage.partitions": "5",
            f"{SOURCE}.consumer.isolation.level": "read_committed",
        }
        for side in SIDES:
            properties |= {f"{side}.{key}": value for key, value in self._route(side).items()}
        self._file.write_text(properties_text(properties))

    def change_password(self, side: str, password: str) -> Callable[[], None]:
        """In the cluster. The result changes it in the file."""
        with self.clusters[side].admin() as admin:
            change = [UserScramCredentialUpsertion(USER, SCRAM_256.mechanism, password)]
            errors = KafkaAdminClient.alter_user_scram_credentials(admin, alterations=change)
        if refused := {user: error for user, error in errors.items() if error}:
            raise LabError(f"{side}: cannot change the password: {refused}")

        def write() -> None:
            self._passwords[side] = password
            self.write_configuration()

        return write

    def _route(self, side: str) -> dict[str, str]:
        if self.packets and side == self.packets_side:
            properties = self.packets.client_properties(self.clusters[side], USER)
        else:
            properties = self.proxies[side].client_properties(USER)
        jaas = "sasl.jaas.config"
        return properties | {jaas: properties[jaas].replace(listeners.password(USER), self._passwords[side])}

    def _spec(self, side: str) -> ClusterSpec:
        emulated = (self.packets.listener,) if self.packets and side == self.packets_side else ()
        return ClusterSpec(
            name=side,
            brokers=_BROKERS,
            listeners=(PLAINTEXT, SCRAM_256, *emulated),
            users=(USER,),
            settings=_SETTINGS,
        )

    def _open_link(self, stack: contextlib.ExitStack, side: str) -> EmulatedLink | None:
        self.packets_side = side
        try:
            link = stack.enter_context(TunLink())
        except LabError as error:
            self.left_out["link cut, lossy, slow"] = str(error)
            return None
        link.change(NORMAL)
        link.listener = replace(link.listener, mechanism=SCRAM_256.mechanism)
        return link

    def _open_disk(self, stack: contextlib.ExitStack, no_disk: str | None) -> Disk | None:
        if no_disk is None:
            disk = Disk(self.target.brokers[-1])
            stack.callback(disk.close)
            stack.callback(disk.broker.process.end)
            return disk
        self.left_out["disk full, read-only"] = no_disk
        return None

    def _open_clock(self) -> Clock | None:
        try:
            return Clock(self.folder)
        except LabError as error:
            self.left_out["clock of twinlog stepped"] = str(error)
            return None


def _require_two_replicas(cluster: Cluster) -> None:
    """Also for topics that Twinlog creates: MM2's rules exclude this config, and 4.x ignores it in a broker's file."""
    default = ("--entity-type", "brokers", "--entity-default")
    cluster.tool("configs", "--alter", "--add-config", "min.insync.replicas=2", *default)
