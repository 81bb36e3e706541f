"""Generated dedicated-mode files give the same maps as in the real MM2."""

import random
from pathlib import Path

import pytest

from lab.kafka_classes import KafkaJvm
from twinlog.config.dedicated import Dedicated
from twinlog.config.layers import connector_client
from twinlog.config.problems import Problems
from twinlog.config.properties import read_properties
from twinlog.config.settings import CONNECTORS
from twinlog.config.values import Value

pytestmark = pytest.mark.java

ALIASES = ["A", "B", "C", "us-east", "eu_1", "A.b"]
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
CLIENT_METHODS = {
    ("source", "consumer"): "sourceConsumerConfig",
    ("target", "consumer"): "targetConsumerConfig",
    ("source", "producer"): "sourceProducerConfig",
    ("target", "producer"): "targetProducerConfig",
    ("source", "admin"): "sourceAdminConfig",
    ("target", "admin"): "targetAdminConfig",
}
# Every family of the specification's section 1.3, with keys that must not travel between families.
KEYS = {
    "topics": ["orders.*", "a, b", "x\\\\.y"],
    "topics.exclude": ["internal.*", ""],
    "groups": ["g1, g2"],
    "tasks.max": ["8", "2 "],
    "enabled": ["true", "TRUE", "true ", "false", " true", "yes"],
    "emit.heartbeats.enabled": ["true", "false", "false ", "FALSE", "True"],
    "emit.checkpoints.enabled": ["false"],
    "replication.factor": ["3", "-1"],
    "replication.policy.separator": ["_", ".", "::"],
    "replication.policy.class": ["org.apache.kafka.connect.mirror.IdentityReplicationPolicy"],
    "offset.lag.max": ["0"],
    "offset-syncs.topic.location": ["target"],
    "use.defaults.from": ["source"],
    "exactly.once.support": ["required"],
    "transforms": ["t"],
    "transforms.t.type": ["X"],
    "errors.tolerance": ["all"],
    "metric.reporters": [""],
    "name": ["mine"],
    "security.protocol": ["SSL", "SASL_SSL", "PLAINTEXT"],
    "ssl.truststore.location": ["/etc/trust.jks"],
    "ssl.truststore.password": ["changeit"],
    "sasl.mechanism": ["PLAIN"],
    "sasl.jaas.config": ['org.x.PlainLoginModule required username="u" password="p";'],
    "bootstrap.servers": ["h:9092", "h1:9092,h2:9092"],
    "client.id": ["mine"],
    "consumer.isolation.level": ["read_committed"],
    "consumer.auto.offset.reset": ["latest"],
    "consumer.security.protocol": ["SASL_PLAINTEXT"],
    "consumer.poll.timeout.ms": ["500"],
    "consumer.client.id": ["c"],
    "producer.acks": ["1"],
    "producer.compression.type": ["zstd"],
    "producer.override.linger.ms": ["7"],
    "producer.sasl.mechanism": ["SCRAM-SHA-512"],
    "admin.timeout.ms": ["1000"],
    "admin.retries": ["3"],
    "administrator": ["me"],
    "source.consumer.fetch.min.bytes": ["9"],
    "target.producer.batch.size": ["1"],
    "source.cluster.security.protocol": ["SSL"],
    "target.cluster.topics": ["nothing"],
    "group.id": ["g"],
    "offset.storage.topic": ["offsets"],
    "offset.storage.replication.factor": ["1"],
    "config.storage.replication.factor": ["1"],
    "status.storage.partitions": ["2"],
    "offset.flush.interval.ms": ["5000"],
    "exactly.once.source.support": ["enabled"],
    "key.converter": [BYTES],
    "value.converter.schemas.enable": ["false"],
    "header.converter": [BYTES],
    "task.shutdown.graceful.timeout.ms": ["1"],
    "worker.sync.timeout.ms": ["2"],
    "workers": ["5"],
    "listeners": ["http://:0"],
    "dedicated.mode.enable.internal.rest": ["true"],
    "unheard.of": ["x"],
}
REFERENCES = ["${env:HOME}", "x${env:HOME}y${env:HOME}", "${env:TWINLOG_NOT_SET}",
              "${other:a:b}", "${file:PATH:secret}", "${file:PATH:missing}", "$${env:HOME}", "${env}"]  # fmt: skip


@pytest.mark.parametrize("seed", range(120))
def test_every_map_is_mm2s(kafka_jvm: KafkaJvm, tmp_path: Path, seed: int) -> None:
    (tmp_path / "secrets.properties").write_text("secret = s3cret\n")
    file = tmp_path / "mm2.properties"
    file.write_text(made_up_file(random.Random(seed), str(tmp_path / "secrets.properties")))
    theirs = kafka_jvm.mirror_maker(kafka_jvm.properties(file.read_bytes()))
    ours = Dedicated(read_properties(file.read_bytes().decode("latin-1"), file.name, Problems()), Problems())

    assert {(flow.source, flow.target) for flow in ours.flows()} == set(theirs.flows()), file.read_text()
    for flow in ours.flows():
        assert texts(ours.worker(flow)) == theirs.worker(flow.source, flow.target), f"worker {flow}"
        for name in CONNECTORS:
            connector = ours.connector(flow, name)
            assert texts(connector) == theirs.connector(flow.source, flow.target, name), f"{name} {flow}"


@pytest.mark.parametrize("seed", range(40))
def test_every_client_is_mm2s(kafka_jvm: KafkaJvm, tmp_path: Path, seed: int) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(made_up_file(random.Random(1000 + seed), "", only_valid=True))
    theirs = kafka_jvm.mirror_maker(kafka_jvm.properties(file.read_bytes()))
    ours = Dedicated(read_properties(file.read_bytes().decode("latin-1"), file.name, Problems()), Problems())

    for flow in ours.flows():
        values = ours.connector(flow, "MirrorSourceConnector")
        for (side, client), method in CLIENT_METHODS.items():
            expected = theirs.client(flow.source, flow.target, "MirrorSource", method)
            made = texts(connector_client(values, side, client))
            # MM2 names each client after its role, in front of which it keeps the operator's own name.
            assert expected.pop("client.id").endswith("|role")
            made.pop("client.id", None)
            # Connector keys that MM2 passes to clients, which ignore them.
            for leaked in ("poll.timeout.ms", "timeout.ms"):
                expected.pop(leaked, None)
                made.pop(leaked, None)
            assert made == expected, f"{side} {client} {flow}\n{file.read_text()}"


def made_up_file(rng: random.Random, secrets: str, *, only_valid: bool = False) -> str:
    aliases = rng.sample(ALIASES, rng.randint(2, 3))
    flows = [f"{a}->{b}" for a in aliases for b in aliases]
    lines = [f"clusters = {', '.join(aliases)}"]
    lines += [f"{alias}.bootstrap.servers = {alias}:9092" for alias in aliases if rng.random() < 0.9]
    if not only_valid and rng.random() < 0.4:
        package = "org.apache.kafka.common.config.provider."
        lines += ["config.providers = env, file", f"config.providers.env.class = {package}EnvVarConfigProvider"]
        lines += [f"config.providers.file.class = {package}FileConfigProvider"]
    for _ in range(rng.randint(0, 25)):
        prefix = rng.choice(["", "", *(f"{a}." for a in aliases), *(f"{f}." for f in flows)])
        key = rng.choice(list(KEYS))
        value = rng.choice(KEYS[key])
        if only_valid and key == "enabled":
            value = "true"
        if not only_valid and rng.random() < 0.15:
            value = rng.choice(REFERENCES).replace("PATH", secrets)
        lines.append(f"{prefix}{key}{rng.choice(['=', ' = ', ': ', ' '])}{value}")
    rng.shuffle(lines)
    return "\n".join(lines) + "\n"


def texts(values: dict[str, Value]) -> dict[str, str]:
    return {key: value.text for key, value in values.items()}
