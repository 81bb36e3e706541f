"""Our table of settings is Kafka's own: every key, type and default compared with the ConfigDefs in Kafka's jars."""

from typing import Any

import pytest

from twinlog.config.clients import CLIENT_KEYS, CONNECTION_KEYS
from twinlog.config.kinds import Kind, parse
from twinlog.config.settings import CONNECTORS, WORKER_WITHOUT_EFFECT, WorkerSettings
from twinlog.config.table import rows
from twinlog.lab.jvm import KafkaJvm

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
    assert ours == {name: known for name, known in theirs.items() if name not in CONNECTION_KEYS}


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
    ours = {
        row.key.name: (row.key.kind.name, default(row.key.kind, row.default, required=row.required))
        for row in rows(WorkerSettings)
    }
    assert ours == {name: theirs[name] for name in ours}
    # What is left over is said to have no effect, or is a key of Kafka's clients.
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
    except Exception:  # noqa: BLE001  (Kafka refuses it; why is said in Java)
        theirs = "refused"
    try:
        ours = parse(kind, text)
    except ValueError:
        ours = "refused"
    assert repr(ours) == repr(theirs)


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
