"""What can be run here, and how its settings are described; a real worker's descriptions are compared elsewhere."""

import pytest

from twinlog.config.settings import CONNECTORS
from twinlog.connect import plugins
from twinlog.connect.definitions import definitions_of
from twinlog.connect.errors import ConnectError

MIRROR = "org.apache.kafka.connect.mirror."


@pytest.mark.parametrize("connector", CONNECTORS)
def test_a_connector_is_known_by_three_names(connector: str) -> None:
    for name in (connector, MIRROR + connector, connector.removesuffix("Connector")):
        assert plugins.resolve(name) == connector


@pytest.mark.parametrize("name", ["", "Mirror", "mirrorsource", "org.x.MirrorSourceConnector", "FileStreamSource"])
def test_others_cannot_be_run(name: str) -> None:
    assert plugins.resolve(name) is None
    with pytest.raises(ConnectError) as caught:
        plugins.definitions(name)
    assert caught.value.status == 404


def test_converters_are_listed_only_when_asked_for() -> None:
    assert {each["type"] for each in plugins.listed()} == {"source"}
    every = plugins.listed(connectors_only=False)
    assert [each["type"] for each in every] == ["source", "source", "source", "converter", "header_converter"]
    assert every[3]["class"] == "org.apache.kafka.connect.converters.ByteArrayConverter"


def test_another_version_is_not_here() -> None:
    assert plugins.definitions("MirrorSource", plugins.VERSION)
    with pytest.raises(ConnectError) as caught:
        plugins.definitions("MirrorSource", "9")
    assert caught.value.status == 400


@pytest.mark.parametrize("connector", CONNECTORS)
def test_every_key_is_described_once_with_a_sentence(connector: str) -> None:
    names = [each.name for each in definitions_of(connector)]
    assert len(names) == len(set(names))
    for each in definitions_of(connector):
        assert each.documentation.endswith(".")
        assert each.importance in ("HIGH", "MEDIUM", "LOW")
        assert each.required == (each.name in ("name", "connector.class", "source.cluster.alias"))


def test_connects_own_keys_come_first_and_those_of_sources_last() -> None:
    names = [each.name for each in definitions_of("MirrorHeartbeatConnector")]
    assert names[:3] == ["name", "connector.class", "connector.plugin.version"]
    assert names[-1] == "offsets.storage.topic"
    assert (
        names.index("errors.log.include.messages")
        < names.index("ssl.protocol")
        < names.index("emit.heartbeats.enabled")
    )


def test_defaults_are_texts_as_kafka_writes_them() -> None:
    shown = {each.name: each.as_json()["default_value"] for each in definitions_of("MirrorSourceConnector")}
    assert shown["tasks.max"] == "1"
    assert shown["sync.topic.acls.enabled"] == "true"
    assert shown["topics.exclude"] == r"mm2.*\.internal,.*\.replica,__.*"
    assert shown["transforms"] == ""
    assert shown["name"] is shown["key.converter"] is None
