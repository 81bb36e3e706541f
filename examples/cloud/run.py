"""Seed five: a local Kafka and one in the cloud, both ways, and the typical errors made on purpose; see README.md."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from kafka.admin import ConfigResource, ConfigResourceType
from producer import messages
from typical_errors import ERRORS, recognised

from twinlog import java
from twinlog.errors import LabError
from twinlog.lab.broker import Broker, ClusterSpec
from twinlog.lab.cluster import Cluster
from twinlog.lab.command import Command
from twinlog.lab.compare import read
from twinlog.lab.example import Stage, filled, main, prove, say, wait_until_equal
from twinlog.lab.listeners import PLAINTEXT, SASL_PLAIN_TLS, TLS, password
from twinlog.lab.ports import HOST

HERE = Path(__file__).parent
FROM_CLOUD, TO_CLOUD = HERE / "cloud-to-local.properties", HERE / "kafka-to-es-mm2.properties"
NO_PASSWORDS = HERE / "kafka-to-es-mm2-no-passwords.properties"
# What stands in the files, and is other here
CLOUD = ",".join(
    f"broker-{n}-qnprtqnp7hnkssdz.kafka.svc01.us-east.eventstreams.cloud.ibm.com:9093" for n in (3, 1, 0, 5, 2, 4)
)
CLOUD_TARGET = ",".join(f"broker-{n}-q.kafka.svc01.us-east.eventstreams.cloud.ibm.com:9093" for n in (3, 4))
LOCAL = "kafka1:9092,kafka2:9093,kafka3:9094"
ROUTE = (
    "my-cluster-kafka-bootstrap-jb-kafka-strimzi.gse-eda-demos-fa9ee67c9ab6a7791435450358e564cc-0001"
    ".us-east.containers.appdomain.cloud:443"
)
TRUSTSTORE, PASSWORDS = "/home/truststore.jks", "/home/passwords.properties"
STORE_PASSWORD = "password"  # noqa: S105  # the seed's
USER = "token"
RATE = 40.0
DOCTOR_SECONDS = 120.0


class Play:
    """The clusters, and each of the example's files with what is other here."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        say("starting two real Kafka clusters, local and cloud, of three brokers each")
        self.local, self.cloud = stage.lab.clusters(
            ClusterSpec(name="local", brokers=3, listeners=(PLAINTEXT, TLS)),
            ClusterSpec(name="cloud", brokers=3, listeners=(PLAINTEXT, SASL_PLAIN_TLS), users=(USER,)),
        )  # the plain door of the cloud is for our own eyes: nothing else in this example goes through it
        truststore = stage.folder.resolve() / "truststore.jks"
        make_truststore(authority(self.local), truststore)
        passwords = stage.folder.resolve() / "passwords.properties"
        passwords.write_text(f"truststore={STORE_PASSWORD}\n")
        self.key = password(USER)
        self.other = {
            FROM_CLOUD: {CLOUD: self.at_cloud, LOCAL: self.local.bootstrap(), "985...": self.key},
            TO_CLOUD: {
                ROUTE: self.local.bootstrap(TLS),
                CLOUD_TARGET: self.at_cloud,
                TRUSTSTORE: str(truststore),
                "am_...": self.key,
            },
        }
        self.other[NO_PASSWORDS] = {old: new for old, new in self.other[TO_CLOUD].items() if old != "am_..."} | {
            PASSWORDS: str(passwords)
        }
        # The CA of a cloud is one that every machine knows. Ours is not: this is how a machine gets to know another.
        self.machine = {"SSL_CERT_FILE": str(authority(self.cloud))}

    @property
    def at_cloud(self) -> str:
        return self.cloud.bootstrap(SASL_PLAIN_TLS)

    def file(self, example: Path) -> Path:
        return self.stage.fill(example, self.other[example])

    def environment(self, cluster: Cluster) -> dict[str, str]:
        """For the producer and the consumer."""
        if cluster is self.cloud:
            ca = str(authority(self.cloud))
            return {"KAFKA_BROKERS": self.at_cloud, "KAFKA_APIKEY": self.key, "KAFKA_CERT": ca}
        return {"KAFKA_BROKERS": self.local.bootstrap(TLS), "KAFKA_CERT": str(authority(self.local))}

    def publish(self, cluster: Cluster, topic: str, count: int) -> Command:
        words = ["--topic", topic, "--count", str(count), "--rate", str(RATE)]
        return self.stage.python(f"producer-{topic}", HERE / "producer.py", *words, env=self.environment(cluster))

    # What is wrong, and what the doctor says to it

    def wrong(self, name: str, example: Path, changes: Mapping[str, str], more: str = "") -> Path:
        """One of the files with something else changed, or added."""
        file = self.stage.folder / f"wrong-{name}.properties"
        text = filled(filled(example.read_text(), changes, str(example)), self._left(example, changes), str(example))
        file.write_text(f"{text.rstrip()}\n{more}\n")
        return file

    def _left(self, example: Path, changes: Mapping[str, str]) -> dict[str, str]:
        return {old: new for old, new in self.other[example].items() if old not in changes}

    def doctor(self, name: str, file: Path, env: Mapping[str, str] | None = None) -> None:
        """An error made on purpose: it must be recognised."""
        error = ERRORS[name]
        words = Path(sys.executable).with_name("twinlog"), "doctor", file, "--json"
        asked = subprocess.run(
            words, env={**os.environ, **self.machine, **(env or {})}, capture_output=True, text=True,
            timeout=DOCTOR_SECONDS, check=False,
        )  # fmt: skip
        try:
            findings = json.loads(asked.stdout)["findings"]
        except ValueError:  # a configuration that cannot be read: one line for each mistake
            findings = [
                {"status": "error", "check": "configuration", "where": "", "found": line, "advice": ""}
                for line in asked.stderr.splitlines()
            ]
        told = recognised(error, findings)
        if told is None:
            said = "; ".join(each["found"] for each in findings if each["status"] != "ok")
            raise LabError(f"twinlog doctor does not recognise {name} in {file}; it says: {said}")
        say(f"\n  MM2:    {error.mm2}")
        say(f"  doctor: {told['status']}: {': '.join(filter(None, (told['where'], told['found'])))}")
        if told["advice"]:
            say(f"          -> {told['advice']}")


def play(stage: Stage) -> None:
    scene = Play(stage)
    local, cloud = scene.local, scene.cloud
    cloud.create_topic("orders", partitions=3)
    cloud.create_topic("invoices")
    local.create_topic("products", partitions=3)
    local.create_topic("stock", partitions=3, replication_factor=1)  # one partition on each broker

    from_cloud = stage.twinlog("run", scene.file(FROM_CLOUD), name="cloud-to-local", env=scene.machine)
    scene.file(TO_CLOUD)  # the same flow, as the seed has it: with its passwords
    secret = {**scene.machine, "ES_APIKEY": scene.key}
    to_cloud = stage.twinlog("run", scene.file(NO_PASSWORDS), name="local-to-cloud", env=secret)
    count = max(int(stage.seconds * RATE), 30)
    producers = [scene.publish(cloud, "orders", count), scene.publish(local, "products", count)]

    say("\nmeanwhile, what stood in MirrorMaker 2's traces, made on purpose:")
    wrong_settings(scene)
    for producer in producers:
        producer.finish()
    wait_until_equal(cloud, local, {"orders": "source.orders"}, from_cloud)
    wait_until_equal(local, cloud, {"products": "source.products"}, to_cloud)
    consume(scene, count)

    sick_broker(scene, local.brokers[2], from_cloud)
    scene.publish(local, "products", 30).finish()
    wait_until_equal(cloud, local, {"orders": "source.orders"}, from_cloud)
    wait_until_equal(local, cloud, {"products": "source.products"}, to_cloud)
    for twinlog in (from_cloud, to_cloud):
        say(f"SIGTERM: {twinlog.name} has ended after {twinlog.stop():.1f} s")
    say("\ncomparing:")
    total = prove(cloud, local, {"orders": "source.orders"}) + prove(local, cloud, {"products": "source.products"})
    say(f"{total:,} records: equal in key, value, headers, timestamp, codec, partition and order")


def wrong_settings(scene: Play) -> None:
    topic = {"source->target.topics=orders": "source->target.topics=orders, ordres"}
    scene.doctor("topic", scene.wrong("topic", FROM_CLOUD, topic))
    scene.doctor("api-key", scene.wrong("api-key", FROM_CLOUD, {"985...": "an-old-key"}))
    stranger = scene.stage.folder.resolve() / "stranger.jks"
    make_truststore(authority(scene.cloud), stranger)
    scene.doctor("truststore", scene.wrong("truststore", TO_CLOUD, {TRUSTSTORE: str(stranger)}))
    plain = {"source.security.protocol=SSL": "source.security.protocol=PLAINTEXT"}
    scene.doctor("protocol", scene.wrong("protocol", TO_CLOUD, plain))
    connector = scene.stage.folder / "wrong-plugin.json"
    wanted = {"name": "mm2-cpc", "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConector"}
    connector.write_text(json.dumps(wanted))
    scene.doctor("plugin", connector)
    scene.doctor("log-dir", scene.file(FROM_CLOUD), {"TMPDIR": "/proc/nowhere"})


def consume(scene: Play, count: int) -> None:
    """The consumer sees all, with headers; and those are the producer's, byte for byte."""
    words = ["--topic", "source.products", "--count", str(count)]
    shown = scene.stage.python("consumer", HERE / "consumer.py", *words, env=scene.environment(scene.cloud)).finish()
    say(f"a consumer in the cloud has read {len(shown.splitlines()):,} records, such as\n  {shown.splitlines()[0]}")
    published = {each.value: each.headers for each, _ in zip(messages("products"), range(count), strict=False)}
    for partition in range(3):
        for record in read(scene.cloud.client_properties(), "source.products", partition):
            wanted = [(name.encode(), value) for name, value in published[record.value or b""]]
            if list(record.headers) != wanted:
                raise LabError(f"source.products has a record with other headers than the producer gave: {record}")


def sick_broker(scene: Play, broker: Broker, from_cloud: Command) -> None:
    """One broker of the local cluster goes, and comes back with an address that nobody knows."""
    local, cloud = scene.local, scene.cloud
    with local.admin() as admin:
        strict = ConfigResource(ConfigResourceType.TOPIC, "source.orders", {"min.insync.replicas": "2"})
        admin.alter_configs([strict])
    broker.stop()
    say(f"\nbroker {broker.id} of local is stopped")
    stock = {"source->target.topics=products": "source->target.topics=products, stock"}
    scene.doctor("leader", scene.wrong("leader", TO_CLOUD, stock))
    invoices = {"source->target.topics=orders": "source->target.topics=invoices"}
    scene.doctor("factor", scene.wrong("factor", FROM_CLOUD, invoices, "replication.factor=3"))
    scene.publish(cloud, "orders", 30).finish()
    scene.doctor("flush", scene.file(FROM_CLOUD))
    from_cloud.wait_for("cannot go on")
    line = next(line for line in from_cloud.said.splitlines() if "cannot go on" in line)
    say(f"  twinlog run, instead of MM2's line: {line.strip()}")

    properties = broker.folder / "server.properties"
    good = properties.read_text()
    doors = {"PLAINTEXT": "kafka-3.example.invalid:9094", "TLS": "kafka-3.example.invalid:9095"}
    doors["INTERNAL"] = next(f"{HOST}:{port}" for door, port in broker.ports.items() if door.name == "INTERNAL")
    listeners = ",".join(f"{name}://{address}" for name, address in doors.items())
    properties.write_text(f"{good}\nadvertised.listeners={listeners}\n")
    broker.start()
    say(f"\nbroker {broker.id} of local is back, with another advertised.listeners")
    scene.doctor("advertised", scene.file(FROM_CLOUD))
    properties.write_text(good)
    broker.restart()
    say(f"\nbroker {broker.id} of local is back, as it was")


def authority(cluster: Cluster) -> Path:
    assert cluster.authority is not None
    return cluster.authority.ca


def make_truststore(ca: Path, store: Path) -> None:
    """The seed's `keytool -import`, by the keytool that is part of every Java, even of one without tools."""
    store.unlink(missing_ok=True)
    keytool: list[str | Path] = [java.find().executable, "-m", "java.base/sun.security.tools.keytool.Main"]
    keytool += ["-import", "-trustcacerts", "-alias", "root", "-file", ca, "-keystore", store, "-storetype", "JKS"]
    made = subprocess.run(
        [*keytool, "-storepass", STORE_PASSWORD, "-noprompt"], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise LabError(f"keytool could not make {store}: {made.stdout}{made.stderr}")


if __name__ == "__main__":
    main(play, about=__doc__, seconds=15)
