"""A local Kafka and one in the cloud, in both directions, and typical configuration errors; see README.md."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from kafka.admin import ConfigResource, ConfigResourceType
from producer import messages
from typical_errors import ERRORS, recognised

from lab.broker import Broker, ClusterSpec
from lab.cluster import Cluster
from lab.command import Command
from lab.compare_logs import read
from lab.errors import LabError
from lab.example import Example, echo, filled, main, verify_equal, wait_until_equal
from lab.listeners import PLAINTEXT, SASL_PLAIN_TLS, TLS, password
from lab.ports import HOST
from twinlog import java

HERE = Path(__file__).parent
FROM_CLOUD, TO_CLOUD = HERE / "cloud-to-local.properties", HERE / "kafka-to-es-mm2.properties"
NO_PASSWORDS = HERE / "kafka-to-es-mm2-no-passwords.properties"
# Values in the example's files that are replaced here
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
STORE_PASSWORD = "password"  # noqa: S105  # as in the example's files
USER = "token"
RATE = 40.0
DOCTOR_SECONDS = 120.0


class Setup:
    """The clusters, and the values to replace in each of the example's files."""

    def __init__(self, example: Example) -> None:
        self.example = example
        echo("starting two real Kafka clusters, local and cloud, of three brokers each")
        self.local, self.cloud = example.lab.clusters(
            ClusterSpec(name="local", brokers=3, listeners=(PLAINTEXT, TLS)),
            ClusterSpec(name="cloud", brokers=3, listeners=(PLAINTEXT, SASL_PLAIN_TLS), users=(USER,)),
        )  # the cloud's PLAINTEXT listener is only for the comparison at the end
        truststore = example.folder.resolve() / "truststore.jks"
        make_truststore(authority(self.local), truststore)
        passwords = example.folder.resolve() / "passwords.properties"
        passwords.write_text(f"truststore={STORE_PASSWORD}\n")
        self.key = password(USER)
        self.replacements = {
            FROM_CLOUD: {CLOUD: self.cloud_address, LOCAL: self.local.bootstrap(), "985...": self.key},
            TO_CLOUD: {
                ROUTE: self.local.bootstrap(TLS),
                CLOUD_TARGET: self.cloud_address,
                TRUSTSTORE: str(truststore),
                "am_...": self.key,
            },
        }
        without_key = {old: new for old, new in self.replacements[TO_CLOUD].items() if old != "am_..."}
        self.replacements[NO_PASSWORDS] = without_key | {PASSWORDS: str(passwords)}
        # A real cloud has a public CA. This makes the lab's CA a trusted one.
        self.trusted_ca = {"SSL_CERT_FILE": str(authority(self.cloud))}

    @property
    def cloud_address(self) -> str:
        return self.cloud.bootstrap(SASL_PLAIN_TLS)

    def file(self, template: Path) -> Path:
        return self.example.fill(template, self.replacements[template])

    def environment(self, cluster: Cluster) -> dict[str, str]:
        """Connection settings of the producer and the consumer."""
        if cluster is self.cloud:
            ca = str(authority(self.cloud))
            return {"KAFKA_BROKERS": self.cloud_address, "KAFKA_APIKEY": self.key, "KAFKA_CERT": ca}
        return {"KAFKA_BROKERS": self.local.bootstrap(TLS), "KAFKA_CERT": str(authority(self.local))}

    def publish(self, cluster: Cluster, topic: str, count: int) -> Command:
        arguments = ["--topic", topic, "--count", str(count), "--rate", str(RATE)]
        return self.example.python(f"producer-{topic}", HERE / "producer.py", *arguments, env=self.environment(cluster))

    # Configuration errors, and how `twinlog doctor` reports them

    def wrong(self, name: str, template: Path, changes: Mapping[str, str], more: str = "") -> Path:
        """One of the files with an error: other replacements, or lines added."""
        file = self.example.folder / f"wrong-{name}.properties"
        others = {old: new for old, new in self.replacements[template].items() if old not in changes}
        text = filled(filled(template.read_text(), changes, str(template)), others, str(template))
        file.write_text(f"{text.rstrip()}\n{more}\n")
        return file

    def doctor(self, name: str, file: Path, env: Mapping[str, str] | None = None) -> None:
        """Runs `twinlog doctor`, which must recognise the error."""
        error = ERRORS[name]
        command = Path(sys.executable).with_name("twinlog"), "doctor", file, "--json"
        doctor = subprocess.run(
            command, env={**os.environ, **self.trusted_ca, **(env or {})}, capture_output=True, text=True,
            timeout=DOCTOR_SECONDS, check=False,
        )  # fmt: skip
        try:
            findings = json.loads(doctor.stdout)["findings"]
        except ValueError:  # an invalid configuration: one line per error
            findings = [
                {"status": "error", "check": "configuration", "where": "", "found": line, "advice": ""}
                for line in doctor.stderr.splitlines()
            ]
        finding = recognised(error, findings)
        if finding is None:
            found = "; ".join(each["found"] for each in findings if each["status"] != "ok")
            raise LabError(f"twinlog doctor does not recognise {name} in {file}; it found: {found}")
        echo(f"\n  MM2:    {error.mm2}")
        echo(f"  doctor: {finding['status']}: {': '.join(filter(None, (finding['where'], finding['found'])))}")
        if finding["advice"]:
            echo(f"          -> {finding['advice']}")


def run(example: Example) -> None:
    setup = Setup(example)
    local, cloud = setup.local, setup.cloud
    cloud.create_topic("orders", partitions=3)
    cloud.create_topic("invoices")
    local.create_topic("products", partitions=3)
    local.create_topic("stock", partitions=3, replication_factor=1)  # one partition on each broker

    from_cloud = example.twinlog("run", setup.file(FROM_CLOUD), name="cloud-to-local", env=setup.trusted_ca)
    setup.file(TO_CLOUD)  # the same flow with passwords in the file, for reference
    secret = {**setup.trusted_ca, "ES_APIKEY": setup.key}
    to_cloud = example.twinlog("run", setup.file(NO_PASSWORDS), name="local-to-cloud", env=secret)
    count = max(int(example.seconds * RATE), 30)
    producers = [setup.publish(cloud, "orders", count), setup.publish(local, "products", count)]

    echo("\nmeanwhile, typical errors from MirrorMaker 2's logs, provoked one by one:")
    wrong_settings(setup)
    for producer in producers:
        producer.finish()
    wait_until_equal(cloud, local, {"orders": "source.orders"}, from_cloud)
    wait_until_equal(local, cloud, {"products": "source.products"}, to_cloud)
    consume(setup, count)

    broker_failure(setup, local.brokers[2], from_cloud)
    setup.publish(local, "products", 30).finish()
    wait_until_equal(cloud, local, {"orders": "source.orders"}, from_cloud)
    wait_until_equal(local, cloud, {"products": "source.products"}, to_cloud)
    for twinlog in (from_cloud, to_cloud):
        echo(f"SIGTERM: {twinlog.name} exited after {twinlog.stop():.1f} s")
    echo("\ncomparing:")
    total = verify_equal(cloud, local, {"orders": "source.orders"}) + verify_equal(
        local, cloud, {"products": "source.products"}
    )
    echo(f"{total:,} records: equal in key, value, headers, timestamp, codec, partition and order")


def wrong_settings(setup: Setup) -> None:
    topic = {"source->target.topics=orders": "source->target.topics=orders, ordres"}
    setup.doctor("topic", setup.wrong("topic", FROM_CLOUD, topic))
    setup.doctor("api-key", setup.wrong("api-key", FROM_CLOUD, {"985...": "an-old-key"}))
    other_ca = setup.example.folder.resolve() / "other-ca.jks"
    make_truststore(authority(setup.cloud), other_ca)
    setup.doctor("truststore", setup.wrong("truststore", TO_CLOUD, {TRUSTSTORE: str(other_ca)}))
    plain = {"source.security.protocol=SSL": "source.security.protocol=PLAINTEXT"}
    setup.doctor("protocol", setup.wrong("protocol", TO_CLOUD, plain))
    connector = setup.example.folder / "wrong-plugin.json"
    config = {"name": "mm2-cpc", "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConector"}
    connector.write_text(json.dumps(config))
    setup.doctor("plugin", connector)
    setup.doctor("log-dir", setup.file(FROM_CLOUD), {"TMPDIR": "/proc/nowhere"})


def consume(setup: Setup, count: int) -> None:
    """The consumer must read all records, with exactly the producer's headers."""
    arguments = ["--topic", "source.products", "--count", str(count)]
    consumer = setup.example.python("consumer", HERE / "consumer.py", *arguments, env=setup.environment(setup.cloud))
    shown = consumer.finish()
    echo(f"a consumer in the cloud has read {len(shown.splitlines()):,} records, such as\n  {shown.splitlines()[0]}")
    published = {each.value: each.headers for each, _ in zip(messages("products"), range(count), strict=False)}
    for partition in range(3):
        for record in read(setup.cloud.client_properties(), "source.products", partition):
            expected = [(name.encode(), value) for name, value in published[record.value or b""]]
            if list(record.headers) != expected:
                raise LabError(f"source.products: headers differ from the producer's: {record}")


def broker_failure(setup: Setup, broker: Broker, from_cloud: Command) -> None:
    """A broker of the local cluster is stopped, and restarted with an advertised address that cannot be resolved."""
    local, cloud = setup.local, setup.cloud
    with local.admin() as admin:
        strict = ConfigResource(ConfigResourceType.TOPIC, "source.orders", {"min.insync.replicas": "2"})
        admin.alter_configs([strict])
    broker.stop()
    echo(f"\nstopped broker {broker.id} of local")
    stock = {"source->target.topics=products": "source->target.topics=products, stock"}
    setup.doctor("leader", setup.wrong("leader", TO_CLOUD, stock))
    invoices = {"source->target.topics=orders": "source->target.topics=invoices"}
    setup.doctor("factor", setup.wrong("factor", FROM_CLOUD, invoices, "replication.factor=3"))
    setup.publish(cloud, "orders", 30).finish()
    setup.doctor("flush", setup.file(FROM_CLOUD))
    from_cloud.wait_for("failing, retrying")
    line = next(line for line in from_cloud.output.splitlines() if "failing, retrying" in line)
    echo(f"  twinlog run, instead of MM2's line: {line.strip()}")

    properties = broker.folder / "server.properties"
    original = properties.read_text()
    addresses = {"PLAINTEXT": "kafka-3.example.invalid:9094", "TLS": "kafka-3.example.invalid:9095"}
    addresses["INTERNAL"] = next(f"{HOST}:{port}" for each, port in broker.ports.items() if each.name == "INTERNAL")
    listeners = ",".join(f"{name}://{address}" for name, address in addresses.items())
    properties.write_text(f"{original}\nadvertised.listeners={listeners}\n")
    broker.start()
    echo(f"\nrestarted broker {broker.id} of local with wrong advertised.listeners")
    setup.doctor("advertised", setup.file(FROM_CLOUD))
    properties.write_text(original)
    broker.restart()
    echo(f"\nrestarted broker {broker.id} of local with its original configuration")


def authority(cluster: Cluster) -> Path:
    assert cluster.authority is not None
    return cluster.authority.ca


def make_truststore(ca: Path, store: Path) -> None:
    """`keytool -import`, by the keytool class that is part of every Java runtime, even without tools."""
    store.unlink(missing_ok=True)
    keytool: list[str | Path] = [java.find().executable, "-m", "java.base/sun.security.tools.keytool.Main"]
    keytool += ["-import", "-trustcacerts", "-alias", "root", "-file", ca, "-keystore", store, "-storetype", "JKS"]
    result = subprocess.run(
        [*keytool, "-storepass", STORE_PASSWORD, "-noprompt"], capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise LabError(f"keytool cannot create {store}: {result.stdout}{result.stderr}")


if __name__ == "__main__":
    main(run, about=__doc__, seconds=15)
