"""A real Kafka cluster of one or more brokers: start it, talk to it, hurt it."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import UserScramCredentialUpsertion
from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, RequestTimedOutError

from twinlog.errors import LabError
from twinlog.lab import acls, listeners, storage, tools
from twinlog.lab.broker import Broker, ClusterSpec
from twinlog.lab.certificates import Authority
from twinlog.lab.kdc import Kdc
from twinlog.lab.listeners import CONTROLLER, INTERNAL, SUPER_USER, Listener, Secrets
from twinlog.lab.ports import HOST, free_port
from twinlog.lab.tokens import TokenIssuer
from twinlog.lab.waiting import until

START_SECONDS = 90
ASK_SECONDS = 30

T = TypeVar("T")


class Cluster:
    """`brokers[i]` has the id `i`. Starts with `start`, or with several others in parallel through a Lab."""

    def __init__(self, spec: ClusterSpec, folder: Path) -> None:
        self.spec = spec
        self.name = spec.name
        self.folder = folder
        self.id = storage.new_cluster_id()
        doors = (*spec.listeners, INTERNAL)
        self.authority = Authority(folder / "certificates", spec.name) if any(d.tls for d in doors) else None
        passwords = {user: listeners.password(user) for user in spec.users}
        self.issuer = TokenIssuer(passwords) if any(d.oauth for d in doors) else None
        self.kdc = Kdc(folder / "kdc") if any(d.kerberos for d in doors) else None
        self.secrets = Secrets(spec.users, self.authority, self.issuer.endpoints if self.issuer else None, self.kdc)
        ports = [{door: free_port() for door in (*doors, CONTROLLER)} for _ in range(spec.brokers)]
        self.brokers = tuple(
            Broker(
                spec,
                node,
                folder / f"broker-{node}",
                cluster_id=self.id,
                ports=ports[node],
                voters={n: ports[n][CONTROLLER] for n in spec.controllers},
                secrets=self.secrets,
                ready=self._wait_for,
            )
            for node in range(spec.brokers)
        )

    def __repr__(self) -> str:
        return f"<Cluster {self.name}: Kafka {self.spec.line}, {len(self.brokers)} broker(s)>"

    # Life and death

    def start(self) -> None:
        self.launch()
        until(self.is_ready, f"starting {self.name}", seconds=START_SECONDS, failed=self.why_not, logs=self.logs)
        self.prepare()

    def launch(self) -> None:
        """Starts every broker, all at once, and waits for none."""
        for broker in self.brokers:
            broker.launch()

    def prepare(self) -> None:
        """What can only be done once the brokers serve: SCRAM users live in the cluster's metadata."""
        mechanisms = sorted({door.mechanism or "" for door in self.spec.listeners if door.scram})
        for mechanism in mechanisms if self.spec.users else ():  # Kafka takes a user once per request
            wanted = [UserScramCredentialUpsertion(u, mechanism, listeners.password(u)) for u in self.spec.users]
            answer = self._ask(partial(KafkaAdminClient.alter_user_scram_credentials, alterations=wanted))
            if refused := {user: why for user, why in answer.items() if why}:
                raise LabError(f"{self.name}: SCRAM users were refused: {refused}")

    def close(self) -> None:
        for broker in self.brokers:
            broker.process.end()
        if self.issuer:
            self.issuer.close()
            self.issuer = None
        if self.kdc:
            self.kdc.close()

    def remove_data(self) -> None:
        """Leaves nothing but logs and configurations."""
        for folder in (*(broker.data for broker in self.brokers), self.folder / "certificates", self.folder / "kdc"):
            shutil.rmtree(folder, ignore_errors=True)

    def is_ready(self) -> bool:
        """Every broker serves on all its listeners and knows all the others as alive."""
        return all(broker.answers() for broker in self.brokers) and all(map(self._sees_all, self.brokers))

    def why_not(self) -> str | None:
        """A reason why it will never be ready: a broker that ended, with the last words of its log."""
        for broker in self.brokers:
            if reason := broker.process.last_words():
                return reason
        return None

    def logs(self) -> str:
        return "".join(f"\n{broker.process.name}{broker.process.quote()}" for broker in self.brokers)

    def _wait_for(self, broker: Broker) -> None:
        broker.process.wait_until_up(lambda: broker.answers() and self._sees_all(broker), START_SECONDS)

    def _sees_all(self, broker: Broker) -> bool:
        running = {each.id for each in self._running()}
        try:
            with self.admin(through=[broker], patience=5) as admin:
                known = {each["broker_id"] for each in admin.describe_cluster()["brokers"] if not each.get("is_fenced")}
        except LabError:
            return False
        return running <= known

    # Doors

    def bootstrap(self, listener: Listener | None = None) -> str:
        door = self._door(listener)
        return ",".join(f"{HOST}:{broker.ports[door]}" for broker in self.brokers)

    def client_properties(self, listener: Listener | None = None, user: str | None = None) -> dict[str, str]:
        """What a Java client needs to come in through that listener (the first, if none is named)."""
        door = self._door(listener)
        return {"bootstrap.servers": self.bootstrap(door)} | listeners.client_properties(door, user, self.secrets)

    def librdkafka_properties(self, listener: Listener | None = None, user: str | None = None) -> dict[str, str]:
        door = self._door(listener)
        return {"bootstrap.servers": self.bootstrap(door)} | listeners.librdkafka_properties(door, user, self.secrets)

    def _door(self, listener: Listener | None) -> Listener:
        door = listener or self.spec.listeners[0]
        if door not in self.brokers[0].ports:
            raise LabError(f"{self.name} has no listener {door.name}: name it when the cluster is made")
        return door

    @contextmanager
    def admin(self, through: Sequence[Broker] | None = None, patience: float = 30) -> Iterator[Any]:
        """An admin client (kafka-python's) as the super user; what goes wrong inside becomes a LabError."""
        brokers = through or self._running()
        if not brokers:
            raise LabError(f"{self.name}: no broker is running")
        try:
            with KafkaAdminClient(
                bootstrap_servers=[f"{HOST}:{broker.ports[INTERNAL]}" for broker in brokers],
                security_protocol=INTERNAL.protocol,
                sasl_mechanism=INTERNAL.mechanism,
                sasl_plain_username=SUPER_USER,
                sasl_plain_password=listeners.password(SUPER_USER),
                bootstrap_timeout_ms=int(patience * 1000),
                request_timeout_ms=int(patience * 1000),
                reconnect_backoff_max_ms=500,
            ) as client:
                yield client
        except KafkaError as error:
            raise LabError(f"{self.name}: {error}") from error

    def tool(
        self,
        name: str,
        *arguments: str,
        listener: Listener | None = INTERNAL,
        user: str | None = SUPER_USER,
        stdin: str = "",
        seconds: float = 120,
    ) -> str:
        """Runs one of Kafka's own command-line tools against this cluster; returns what it printed."""
        properties = self.client_properties(listener, user)
        return tools.run(name, *arguments, properties=properties, stdin=stdin, seconds=seconds)

    # Topics and leaders

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Returns when every partition has a leader that every running broker knows."""
        wanted = {
            "num_partitions": partitions,
            "replication_factor": replication_factor or min(3, len(self.brokers)),
            "configs": dict(configs or {}),
        }
        self._ask(lambda admin: admin.create_topics({name: wanted}))
        for broker in self._running():
            with self.admin(through=[broker]) as admin:
                admin.wait_for_topics([name])

    def partition(self, topic: str, partition: int) -> dict[str, Any]:
        """The partition as the cluster's metadata has it now: leader_id, replica_nodes, isr_nodes."""
        for described in self._ask(lambda admin: admin.describe_topics([topic])):
            for each in described["partitions"]:
                if each["partition_index"] == partition:
                    return dict(each)
        raise LabError(f"{self.name}: there is no partition {topic}-{partition}")

    def leader(self, topic: str, partition: int) -> int:
        """The leading broker's id, which is also its index in `brokers`; -1 while there is none."""
        return int(self.partition(topic, partition)["leader_id"])

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Returns when broker `to` leads. If it had no copy of the partition it gets one, in place of another's."""
        had = [int(replica) for replica in self.partition(topic, partition)["replica_nodes"]]
        wanted = [to, *(replica for replica in had if replica != to)][: len(had)]
        move = {TopicPartition(topic, partition): wanted}
        if wanted != had:
            refused = self._ask(lambda admin: admin.alter_partition_reassignments(move))
            if why := next(filter(None, refused.values()), None):
                raise LabError(f"{self.name}: {topic}-{partition} cannot move to broker {to}: {why.__name__}")

        def leads() -> bool:
            with suppress(LabError):  # the new copy is not in sync yet
                self._ask(lambda admin: admin.elect_leaders(0, {topic: [partition]}))
            return self.leader(topic, partition) == to

        until(leads, f"{self.name}: moving the leader of {topic}-{partition} to broker {to}")

    def _ask(self, question: Callable[[Any], T]) -> T:
        """A client that does not know yet which brokers are dead may ask one of those: then we ask again."""
        deadline = time.monotonic() + ASK_SECONDS
        while True:
            try:
                with self.admin(patience=5) as admin:
                    return question(admin)
            except LabError as error:
                lost = isinstance(error.__cause__, KafkaConnectionError | KafkaTimeoutError | RequestTimedOutError)
                if not lost or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _running(self) -> list[Broker]:
        return [broker for broker in self.brokers if broker.alive and not broker.paused]

    # Who may do what

    def grant(self, user: str, *operations: str, **resource: str) -> None:
        """`grant("alice", "READ", "DESCRIBE", topic="orders")`; a name that ends with * is a prefix."""
        self._alter_acls(user, operations, resource, allow=True)

    def deny(self, user: str, *operations: str, **resource: str) -> None:
        self._alter_acls(user, operations, resource, allow=False)

    def _alter_acls(self, user: str, operations: Sequence[str], resource: Mapping[str, str], *, allow: bool) -> None:
        if not self.spec.authorizer:
            raise LabError(f"{self.name} has no authorizer: ask for one when the cluster is made")
        entries = acls.entries(user, operations, resource, allow=allow)
        if refused := self._ask(lambda admin: admin.create_acls(entries))["failed"]:
            raise LabError(f"{self.name}: ACLs were refused: {refused}")
