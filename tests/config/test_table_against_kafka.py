"""Our table of settings is Kafka's own: every key, type and default compared with the ConfigDefs in Kafka's jars."""

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from lab.kafka_classes import KafkaJvm
from twinlog.config.clients import CLIENT_KEYS, CONNECTION_KEYS
from twinlog.config.problems import Problems
from twinlog.config.setting import read, rows
from twinlog.config.settings import CONNECTORS, WORKER_WITHOUT_EFFECT, WorkerSettings
from twinlog.config.value_types import Kind, parse
from twinlog.config.values import DEFAULT, Value

pytestmark = pytest.mark.java

MIRROR = "org.apache.kafka.connect.mirror."
CLIENTS = {
    "C": "org.apache.kafka.clients.consumer.ConsumerConfig",
    "P": "org.apache.kafka.clients.producer.ProducerConfig",
    "A": "org.apache.kafka.clients.admin.AdminClientConfig",
}
# Read by MM2's topic filter or by Connect, not declared by the connector itself.
READ_ELSEWHERE = {"topics", "topics.exclude", "emit.offset-syncs.enabled"}


@pytest.mark.parametrize("connector", CONNECTORS)
def test_connector_settings_are_mm2s(kafka_jvm: KafkaJvm, connector: str) -> None:
    theirs = declared(kafka_jvm, MIRROR + connector.replace("Connector", "Config"), "CONNECTOR_CONFIG_DEF")
    table = {row.key.name: row for row in rows(CONNECTORS[connector])}
    ours = {
        name: (row.key.kind.name, default(row.key.kind, row.default, required=row.required))
        for name, row in table.items()
        if row.key.declared and (name in theirs or name not in READ_ELSEWHERE)
    }
    mm2s = {name: known for name, known in ours.items() if not name.startswith("twinlog.")}
    assert mm2s == {name: known for name, known in theirs.items() if name not in CONNECTION_KEYS}


@pytest.mark.parametrize("letter", CLIENTS)
def test_client_settings_are_kafkas(kafka_jvm: KafkaJvm, letter: str) -> None:
    theirs = declared(kafka_jvm, CLIENTS[letter], "CONFIG")
    theirs.pop("internal.throw.on.fetch.stable.offset.unsupported", None)  # internal to Kafka Streams
    ours = {name: (key.kind.name, default(key.kind, key.default)) for name, key in CLIENT_KEYS[letter].items()}
    for name in ours:
        if theirs[name][1] == "required":  # bootstrap.servers, (de)serializers: the clients' business
            theirs[name] = (theirs[name][0], None)
    if letter == "A":
        theirs["bootstrap.servers"] = ("LIST", None)  # empty there, because controllers may be named instead
    assert ours == theirs


def test_worker_settings_are_connects(kafka_jvm: KafkaJvm) -> None:
    theirs = declared(kafka_jvm, "org.apache.kafka.connect.runtime.distributed.DistributedConfig", "config")
    policy = "org.apache.kafka.connect.connector.policy.AllowlistConnectorClientConfigOverridePolicy"
    theirs |= declared(kafka_jvm, policy, "CONFIG_DEF")
    ours = {
        row.key.name: (row.key.kind.name, default(row.key.kind, row.default, required=row.required))
        for row in rows(WorkerSettings)
        # Two are system properties of Kafka, which are settings here.
        if not row.key.name.startswith(("twinlog.", "org.apache.kafka.sasl.oauthbearer.allowed."))
    }
    assert ours == {name: theirs[name] for name in ours}
    # The others are marked as without effect, or are keys of Kafka's clients.
    rest = set(theirs) - set(ours) - set(CLIENT_KEYS["A"]) - set(CLIENT_KEYS["C"])
    assert rest <= WORKER_WITHOUT_EFFECT


def test_connection_keys_are_mm2s(kafka_jvm: KafkaJvm) -> None:
    assert set(CONNECTION_KEYS) == set(declared(kafka_jvm, MIRROR + "MirrorClientConfig", "CLIENT_CONFIG_DEF"))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (kind, text)
        for kind in Kind
        for text in [
            "", " ", "a", " a b ", "true", " TRUE ", "yes", "0", "+7", "-3", " 12 ", "1_0", "32768", "-32768", "2147483648",
            "9223372036854775807", "9223372036854775808", "3.0", ".5", "1e3", "1f", "NaN", "-Infinity", "1e", "a,b",
            " a , b ", "a,,b", "a,", ",", "\u00a0x\u00a0",
        ]
        if kind is not Kind.CLASS
    ],
)  # fmt: skip
def test_texts_are_read_as_kafka_reads_them(kafka_jvm: KafkaJvm, kind: Kind, text: str) -> None:
    types = {str(t): t for t in kafka_jvm._class("org.apache.kafka.common.config.ConfigDef$Type").getEnumConstants()}
    try:
        read = kafka_jvm.jvm.org.apache.kafka.common.config.ConfigDef.parseType("k", text, types[kind.name])
        theirs = read.value() if kind is Kind.PASSWORD else tuple(read) if kind is Kind.LIST else read
    except Exception:  # noqa: BLE001  (Kafka rejects it)
        theirs = "refused"
    try:
        ours = parse(kind, text)
    except ValueError:
        ours = "refused"
    assert repr(ours) == repr(theirs)


ODD = [
    "",
    " ",
    "x",
    "-2",
    "0",
    "1",
    "a,,b",
    "a,b,a",
    "true",
    "TRUE",
    "none",
    "NONE",
    "requested",
    "target",
    "legacy",
    "new",
]


WORKER = {
    "bootstrap.servers": "b:1",
    "group.id": "g",
    "offset.storage.topic": "o",
    "config.storage.topic": "c",
    "status.storage.topic": "s",
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
}


@pytest.mark.parametrize("connector", CONNECTORS)
def test_a_connectors_value_is_rejected_if_mm2_rejects_it(kafka_jvm: KafkaJvm, connector: str) -> None:
    config = getattr(kafka_jvm.jvm.org.apache.kafka.connect.mirror, connector.replace("Connector", "Config"))
    base = {"name": "n", "connector.class": MIRROR + connector, "source.cluster.alias": "us"}
    skip = READ_ELSEWHERE if connector == "MirrorCheckpointConnector" else set()
    assert not (differ := differences(kafka_jvm, config, CONNECTORS[connector], base, skip)), "\n".join(differ)


def test_a_workers_value_is_rejected_if_connect_rejects_it(kafka_jvm: KafkaJvm) -> None:
    config = kafka_jvm.jvm.org.apache.kafka.connect.runtime.distributed.DistributedConfig
    # Listeners are parsed as addresses when a REST server starts, which none does here.
    # An empty group or topic, and an interval below 1, Connect refuses too, but only when it starts.
    skip = {"listeners", "connector.client.config.override.policy", "group.id", "offset.flush.interval.ms"}
    skip |= {f"{kind}.storage.topic" for kind in ("offset", "config", "status")}
    assert not (differ := differences(kafka_jvm, config, WorkerSettings, WORKER, skip)), "\n".join(differ)


def differences(
    kafka_jvm: KafkaJvm, config: Any, settings: type[Any], base: dict[str, str], skip: set[str]
) -> list[str]:
    """Every declared key with odd values. Classes are another matter: MM2 has more of them than we can run."""
    found = []
    for row in rows(settings):
        name = row.key.name
        if name.startswith("twinlog."):
            continue  # Kafka knows nothing of it
        if row.key.kind is Kind.CLASS or name.endswith(".plugin.version") or not row.key.declared or name in skip:
            continue
        for text in ODD:
            values = base | {name: text}
            try:
                config(kafka_jvm.map(values))
                theirs = True
            except Py4JJavaError:
                theirs = False
            problems = Problems()
            read(settings, {key: Value(key, value, DEFAULT) for key, value in values.items()}, "test", problems)
            if theirs == bool(problems.errors):
                found.append(f"{name} = {text!r}: {'accepted' if theirs else 'refused'} by Kafka")
    return found


def declared(kafka_jvm: KafkaJvm, config: str, member: str) -> dict[str, tuple[str, Any]]:
    """Name -> (type, default) of the keys that a class of Kafka's declares; `required` where there is no default."""
    found = {}
    for name, key in kafka_jvm.config_def(config, member).items():
        kind = Kind[str(key.type)]
        found[name] = (kind.name, "required" if not key.hasDefault() else plain(kind, key.defaultValue))
    return found


def plain(kind: Kind, value: Any) -> Any:
    if kind is Kind.LIST and value is not None:
        return tuple(item if isinstance(item, str) else str(item.getName()) for item in value)
    if kind is Kind.CLASS and value is not None:
        return value if isinstance(value, str) else str(value.getName())
    return value


def default(kind: Kind, value: Any, *, required: bool = False) -> Any:
    return "required" if required else plain(kind, value)
