"""Which client settings a connector may override, compared with Kafka's own policies."""

import json
from pathlib import Path
from typing import Any

import pytest

from lab.kafka_classes import KafkaJvm
from twinlog.config import InvalidConfigError, load
from twinlog.config.override_policy import complaint, refused

POLICY = "org.apache.kafka.connect.connector.policy."
KEYS = ["acks", "sasl.jaas.config", "sasl.mechanism", "security.protocol", "bootstrap.servers", "ssl.keystore.location"]
WORKER = """bootstrap.servers=eu:9092
group.id=g
offset.storage.topic=offsets
config.storage.topic=configs
status.storage.topic=status
key.converter=org.apache.kafka.connect.converters.ByteArrayConverter
value.converter=org.apache.kafka.connect.converters.ByteArrayConverter
header.converter=org.apache.kafka.connect.converters.ByteArrayConverter
"""
CONNECTOR = {
    "name": "c",
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "us",
    "target.cluster.alias": "eu",
    "source.cluster.bootstrap.servers": "us:9092",
    "target.cluster.bootstrap.servers": "eu:9092",
}


def loaded(folder: Path, worker: str, **more: str) -> Any:
    (folder / "worker.properties").write_text(WORKER + worker)
    config = CONNECTOR | {key.replace("__", "."): text for key, text in more.items()}
    (folder / "c.json").write_text(json.dumps(config))
    return load([folder / "worker.properties", folder / "c.json"])


@pytest.mark.java
@pytest.mark.parametrize("policy", ["All", "None", "Principal", "Allowlist"])
@pytest.mark.parametrize("listed", ["", "acks", "acks, bootstrap.servers"])
def test_every_policy_forbids_what_kafkas_own_forbids(kafka_jvm: KafkaJvm, policy: str, listed: str) -> None:
    theirs = getattr(
        kafka_jvm.jvm.org.apache.kafka.connect.connector.policy, f"{policy}ConnectorClientConfigOverridePolicy"
    )()
    theirs.configure(kafka_jvm.map({"connector.client.config.override.allowlist": listed}))
    request = kafka_jvm.jvm.org.apache.kafka.connect.connector.policy.ConnectorClientConfigRequest(
        "c", None, None, kafka_jvm.map(dict.fromkeys(KEYS, "x")), None
    )
    judged = {str(each.name()): [str(text) for text in each.errorMessages()] for each in theirs.validate(request)}
    allowlist = [each.strip() for each in listed.split(",")]
    keys = [f"producer.override.{key}" for key in KEYS]
    ours = {key: complaint(key, policy) for key in refused(keys, policy, allowlist, exactly_once=False)}
    assert ours == {f"producer.override.{key}": texts[0] for key, texts in judged.items() if texts}


@pytest.mark.parametrize(
    "policy", ["None", "NoneConnectorClientConfigOverridePolicy", f"{POLICY}NoneConnectorClientConfigOverridePolicy"]
)
def test_an_override_that_the_worker_file_forbids_is_rejected(tmp_path: Path, policy: str) -> None:
    assert loaded(tmp_path, "", producer__override__acks="1").flows
    with pytest.raises(InvalidConfigError, match="The 'None' policy does not allow 'acks' to be overridden"):
        loaded(tmp_path, f"connector.client.config.override.policy={policy}\n", producer__override__acks="1")


def test_the_policy_may_be_a_reference(tmp_path: Path) -> None:
    (tmp_path / "policy").write_text("p=None\n")
    provider = "config.providers=file\nconfig.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
    worker = f"{provider}connector.client.config.override.policy=${{file:{tmp_path}/policy:p}}\n"
    with pytest.raises(InvalidConfigError, match="The 'None' policy"):
        loaded(tmp_path, worker, producer__override__acks="1")


def test_overrides_of_clients_that_connect_does_not_create_are_not_checked() -> None:
    keys = ["consumer.override.group.id", "admin.override.retries"]
    assert not list(refused(keys, "None", [], exactly_once=False))
    assert list(refused([*keys, "offsets.storage.topic"], "None", [], exactly_once=False)) == keys[::-1]
    assert list(refused([*keys, "topic.creation.groups"], "None", [], exactly_once=False)) == ["admin.override.retries"]
    assert set(refused(keys, "None", [], exactly_once=True)) == set(keys)


def test_an_unknown_policy_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="not a policy of Kafka"):
        loaded(tmp_path, "connector.client.config.override.policy=com.example.Strict\n")
