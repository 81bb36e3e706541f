"""A real Kafka cluster of one or more brokers, with administration and fault injection."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, UserScramCredentialUpsertion
from kafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
    TopicAlreadyExistsError,
)

from lab import acls, kafka_tools, listeners, storage
from lab.broker import Broker, ClusterSpec
from lab.certificates import Authority
from lab.errors import LabError
from lab.java_process import JavaProcess
from lab.kdc import Kdc
from lab.listeners import CONTROLLER, INTERNAL, SUPER_USER, Listener, Secrets
from lab.oauth_server import TokenIssuer
from lab.ports import HOST, free_port
from lab.waiting import until
from lab.zookeeper import ZooKeeper

START_SECONDS = 90
RETRY_SECONDS = 30

T = TypeVar("T")


class Cluster:
    """`brokers[i]` has the id `i`. A Lab starts several clusters in parallel."""

    def __init__(self, spec: ClusterSpec, folder: Path) -> None:
        self.spec = spec
        self.name = spec.name
        self.folder = folder
        self.id = storage.new_cluster_id()  # with ZooKeeper the first broker chooses one: see `prepare`
        all_listeners = (*spec.listeners, INTERNAL)
        tls = any(each.tls for each in all_listeners)
        self.authority = Authority(folder / "certificates", spec.name) if tls else None
        passwords = {user: listeners.password(user) for user in spec.users}
        self.issuer = TokenIssuer(passwords) if any(each.oauth for each in all_listeners) else None
        self.kdc = Kdc(folder / "kdc") if any(each.kerberos for each in all_listeners) else None
        self.secrets = Secrets(spec.users, self.authority, self.issuer.endpoints if self.issuer else None, self.kdc)
        self.zookeeper = ZooKeeper(spec.name, spec.line, folder / "zookeeper") if spec.zookeeper else None
        bound = all_listeners if spec.zookeeper else (*all_listeners, CONTROLLER)
        ports = [{each: free_port() for each in bound} for _ in range(spec.brokers)]
        self.brokers = tuple(
            Broker(
                spec,
                node,
                folder / f"broker-{node}",
                cluster_id=self.id,
                ports=ports[node],
                metadata=(
                    self.zookeeper.address if self.zookeeper else {n: ports[n][CONTROLLER] for n in spec.controllers}
                ),
                secrets=self.secrets,
                wait_until_ready=self._wait_until_ready,
            )
            for node in range(spec.brokers)
        )

    def __repr__(self) -> str:
        return f"<Cluster {self.name}: Kafka {self.spec.line}, {len(self.brokers)} broker(s)>"

    @property
    def processes(self) -> list[JavaProcess]:
        """The brokers, then ZooKeeper if there is one: it is stopped last."""
        return [broker.process for broker in self.brokers] + ([self.zookeeper.process] if self.zookeeper else [])

    # Start and stop

    def start(self) -> None:
        self.launch()
        until(self.is_ready, f"starting {self.name}", seconds=START_SECONDS, failed=self.start_failure, logs=self.logs)
        self.prepare()

    def launch(self) -> None:
        """Starts all brokers without waiting for them."""
        if self.zookeeper:
            self.zookeeper.process.start()
        for broker in self.brokers:
            broker.launch()

    def prepare(self) -> None:
        """Creates the SCRAM users: they are stored in the cluster's metadata, so the brokers must be up."""
        if self.zookeeper:
            self.id = self._admin_call(_describe)["cluster_id"]
        mechanisms = sorted({each.mechanism or "" for each in self.spec.listeners if each.scram})
        for mechanism in mechanisms if self.spec.users else ():  # Kafka accepts a user once per request
            alterations = [UserScramCredentialUpsertion(u, mechanism, listeners.password(u)) for u in self.spec.users]
            results = self._admin_call(partial(KafkaAdminClient.alter_user_scram_credentials, alterations=alterations))
            if refused := {user: error for user, error in results.items() if error}:
                raise LabError(f"{self.name}: cannot create SCRAM users: {refused}")

    def close(self) -> None:
        for process in self.processes:
            process.end()
        if self.issuer:
            self.issuer.close()
            self.issuer = None
        if self.kdc:
            self.kdc.close()

    def remove_data(self) -> None:
        """Removes everything but logs and configurations."""
        data = [broker.data for broker in self.brokers] + ([self.zookeeper.data] if self.zookeeper else [])
        for folder in (*data, self.folder / "certificates", self.folder / "kdc"):
            shutil.rmtree(folder, ignore_errors=True)

    def is_ready(self) -> bool:
        """Whether every broker serves requests on all its listeners and sees all other brokers as alive."""
        return all(broker.is_serving() for broker in self.brokers) and all(map(self._sees_all, self.brokers))

    def start_failure(self) -> str | None:
        """Why it will never be ready: a process that has exited, with the end of its log."""
        for process in self.processes:
            if reason := process.exit_report():
                return reason
        return None

    def logs(self) -> str:
        return "".join(f"\n{process.name}{process.log_excerpt()}" for process in self.processes)

    def _wait_until_ready(self, broker: Broker) -> None:
        broker.process.wait_until_up(lambda: broker.is_serving() and self._sees_all(broker), START_SECONDS)

    def _sees_all(self, broker: Broker) -> bool:
        running = {each.id for each in self._running()}
        try:
            with self.admin(through=[broker], timeout=5) as admin:
                known = {each["broker_id"] for each in _describe(admin)["brokers"] if not each.get("is_fenced")}
        except LabError:
            return False
        return running <= known

    # Listeners and clients

    def bootstrap(self, listener: Listener | None = None) -> str:
        chosen = self._listener(listener)
        return ",".join(f"{chosen.advertised_host}:{broker.ports[chosen]}" for broker in self.brokers)

    def client_properties(self, listener: Listener | None = None, user: str | None = None) -> dict[str, str]:
        """The properties of a Java client for that listener (default: the first)."""
        chosen = self._listener(listener)
        return {"bootstrap.servers": self.bootstrap(chosen)} | listeners.client_properties(chosen, user, self.secrets)

    def librdkafka_properties(self, listener: Listener | None = None, user: str | None = None) -> dict[str, str]:
        chosen = self._listener(listener)
        properties = listeners.librdkafka_properties(chosen, user, self.secrets)
        return {"bootstrap.servers": self.bootstrap(chosen)} | properties

    def _listener(self, listener: Listener | None) -> Listener:
        chosen = listener or self.spec.listeners[0]
        if chosen not in self.brokers[0].ports:
            raise LabError(f"{self.name} has no listener {chosen.name}: add it to the cluster's ClusterSpec")
        return chosen

    @contextmanager
    def admin(self, through: Sequence[Broker] | None = None, timeout: float = 30) -> Iterator[Any]:
        """kafka-python's admin client as the super user; Kafka errors become LabErrors."""
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
                bootstrap_timeout_ms=int(timeout * 1000),
                request_timeout_ms=int(timeout * 1000),
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
        """Runs one of Kafka's command-line tools against this cluster and returns its output."""
        properties = self.client_properties(listener, user)
        return kafka_tools.run(name, *arguments, properties=properties, stdin=stdin, seconds=seconds)

    # Topics and leaders

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Returns when every running broker knows a leader of every partition."""
        spec = {
            "num_partitions": partitions,
            "replication_factor": replication_factor or min(3, len(self.brokers)),
            "configs": dict(configs or {}),
        }
        attempts = 0

        def create(admin: Any) -> None:
            nonlocal attempts
            attempts += 1
            try:
                admin.create_topics({name: spec})
            except TopicAlreadyExistsError:
                if attempts == 1:  # else the request before was carried out, and only its response was late
                    raise

        self._admin_call(create)
        self.wait_for_topic(name)

    def wait_for_topic(self, name: str) -> None:
        """Returns once every running broker knows a topic that was just created."""
        for broker in self._running():
            with self.admin(through=[broker]) as admin:
                admin.wait_for_topics([name])

    def delete_topic(self, name: str) -> None:
        """Returns once no running broker knows it."""
        self._admin_call(lambda admin: admin.delete_topics([name]))
        self._until_on_every_broker(lambda admin: name not in admin.list_topics(), f"deleting {name}")

    def alter_topic(self, name: str, configs: Mapping[str, str]) -> None:
        """Returns once every running broker shows these configs."""
        resource = ConfigResource(ConfigResourceType.TOPIC, name)
        changed = ConfigResource(ConfigResourceType.TOPIC, name, dict(configs))
        self._admin_call(lambda admin: admin.alter_configs([changed]))

        def is_shown(admin: Any) -> bool:
            found = admin.describe_configs([resource])["topic"][name]
            return all(found.get(key, {}).get("value") == value for key, value in configs.items())

        self._until_on_every_broker(is_shown, f"configs of {name}")

    def partition(self, topic: str, partition: int) -> dict[str, Any]:
        """The partition's current metadata: leader_id, replica_nodes, isr_nodes."""
        for described in self._admin_call(lambda admin: admin.describe_topics([topic])):
            for each in described["partitions"]:
                if each["partition_index"] == partition:
                    return dict(each)
        raise LabError(f"{self.name}: partition {topic}-{partition} does not exist")

    def leader(self, topic: str, partition: int) -> int:
        """The leader's broker id, which is also its index in `brokers`; -1 while there is no leader."""
        return int(self.partition(topic, partition)["leader_id"])

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Returns when broker `to` is the leader. If it has no replica of the partition, it replaces another one."""
        before = [int(replica) for replica in self.partition(topic, partition)["replica_nodes"]]
        after = [to, *(replica for replica in before if replica != to)][: len(before)]
        move = {TopicPartition(topic, partition): after}
        if after != before:
            errors = self._admin_call(lambda admin: admin.alter_partition_reassignments(move))
            if error := next(filter(None, errors.values()), None):
                raise LabError(f"{self.name}: cannot move {topic}-{partition} to broker {to}: {error.__name__}")

        def leads() -> bool:
            with suppress(LabError):  # the new replica is not in sync yet
                self._admin_call(lambda admin: admin.elect_leaders(0, {topic: [partition]}))
            return self.leader(topic, partition) == to

        until(leads, f"{self.name}: moving the leader of {topic}-{partition} to broker {to}")

    def _admin_call(self, call: Callable[[Any], T]) -> T:
        """Retries on lost connections: a client may send a request to a broker that has just died."""
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                with self.admin(timeout=5) as admin:
                    return call(admin)
            except LabError as error:
                lost = isinstance(error.__cause__, KafkaConnectionError | KafkaTimeoutError | RequestTimedOutError)
                if not lost or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _until_on_every_broker(self, condition: Callable[[Any], bool], what: str) -> None:
        """The controller acknowledges a change before the brokers apply it."""
        for broker in self._running():
            with self.admin(through=[broker]) as admin:
                until(partial(condition, admin), f"{self.name}: {what}")

    def _running(self) -> list[Broker]:
        return [broker for broker in self.brokers if broker.alive and not broker.paused]

    # ACLs

    def grant(self, user: str, *operations: str, **resource: str) -> None:
        """`grant("alice", "READ", "DESCRIBE", topic="orders")`; a name ending with * is a prefix."""
        self._alter_acls(user, operations, resource, allow=True)

    def deny(self, user: str, *operations: str, **resource: str) -> None:
        self._alter_acls(user, operations, resource, allow=False)

    def _alter_acls(self, user: str, operations: Sequence[str], resource: Mapping[str, str], *, allow: bool) -> None:
        if not self.spec.authorizer:
            raise LabError(f"{self.name} has no authorizer: set authorizer=True in its ClusterSpec")
        entries = acls.entries(user, operations, resource, allow=allow)
        if failed := self._admin_call(lambda admin: admin.create_acls(entries))["failed"]:
            raise LabError(f"{self.name}: cannot create ACLs: {failed}")

        def are_applied(admin: Any) -> bool:
            return not set(entries) - set(admin.describe_acls(acls.EVERY)[0])

        self._until_on_every_broker(are_applied, f"ACLs of {user}")


def _describe(admin: Any) -> dict[str, Any]:
    """The cluster's id and brokers.

    kafka-python's describe_cluster fails with brokers before 3.7, whose response lacks a field. For older ones still it
    uses the metadata, which contain no fenced brokers.
    """
    try:
        return dict(admin.describe_cluster())
    except KeyError:
        found = admin._manager.run(admin._get_cluster_metadata, [])  # noqa: SLF001  # no public call returns brokers
        return {**found, "brokers": [{**each, "broker_id": each["node_id"]} for each in found["brokers"]]}
