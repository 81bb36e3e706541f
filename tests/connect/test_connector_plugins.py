"""Plugins and config definitions; compared with those of a real worker elsewhere."""

import pytest

from twinlog.config.settings import CONNECTORS
from twinlog.connect import connector_plugins
from twinlog.connect.definitions import definitions_of
from twinlog.connect.errors import ConnectError

MIRROR = "org.apache.kafka.connect.mirror."


@pytest.mark.parametrize("connector", CONNECTORS)
def test_a_connector_has_three_names(connector: str) -> None:
    for name in (connector, MIRROR + connector, connector.removesuffix("Connector")):
        assert connector_plugins.resolve(name) == connector


@pytest.mark.parametrize("name", ["", "Mirror", "mirrorsource", "org.x.MirrorSourceConnector", "FileStreamSource"])
def test_other_plugins_are_unknown(name: str) -> None:
    assert connector_plugins.resolve(name) is None
    with pytest.raises(ConnectError) as caught:
        connector_plugins.definitions(name)
    assert caught.value.status == 404


def test_converters_are_listed_on_request() -> None:
    assert {each["type"] for each in connector_plugins.listed()} == {"source"}
    every = connector_plugins.listed(connectors_only=False)
    assert [each["type"] for each in every] == ["source", "source", "source", "converter", "header_converter"]
    assert every[3]["class"] == "org.apache.kafka.connect.converters.ByteArrayConverter"


def test_only_one_version_is_available() -> None:
    assert connector_plugins.definitions("MirrorSource", connector_plugins.VERSION)
    with pytest.raises(ConnectError) as caught:
        connector_plugins.definitions("MirrorSource", "9")
    assert caught.value.status == 400


@pytest.mark.parametrize("connector", CONNECTORS)
def test_every_key_is_documented_once(connector: str) -> None:
    names = [each.name for each in definitions_of(connector)]
    assert len(names) == len(set(names))
    for each in definitions_of(connector):
        assert each.documentation.endswith(".")
        assert each.importance in ("HIGH", "MEDIUM", "LOW")
        assert each.required == (each.name in ("name", "connector.class", "source.cluster.alias"))


def test_order_of_keys() -> None:
    names = [each.name for each in definitions_of("MirrorHeartbeatConnector")]
    assert names[:3] == ["name", "connector.class", "connector.plugin.version"]
    assert names[-1] == "offsets.storage.topic"
    assert (
        names.index("errors.log.include.messages")
        < names.index("ssl.protocol")
        < names.index("emit.heartbeats.enabled")
    )


def test_defaults_are_strings_in_kafkas_notation() -> None:
    shown = {each.name: each.as_json()["default_value"] for each in definitions_of("MirrorSourceConnector")}
    assert shown["tasks.max"] == "1"
    assert shown["sync.topic.acls.enabled"] == "true"
    assert shown["topics.exclude"] == r"mm2.*\.internal,.*\.replica,__.*"
    assert shown["transforms"] == ""
    assert shown["name"] is shown["key.converter"] is None
