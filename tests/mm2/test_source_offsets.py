"""Connect's offset records, byte by byte (section 8.2), and Twinlog's own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.kafka_classes import KafkaJvm
from twinlog.config import FlowConfig, load
from twinlog.kafka.topic_writer import partition_for
from twinlog.mm2 import source_offsets
from twinlog.mm2.source_offsets import PositionEntry, Producers, ProducersEntry, SourceOffset, StoredPosition, parse
from twinlog.model import Flow

ReadFlow = Callable[..., FlowConfig]
Invoke = Callable[..., Any]

MIRROR = "org.apache.kafka.connect.mirror."
KEY = b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]'
EXOTIC = ['q"uo\\te', "/slash/", "\x00\x01\x1b\x1f\x7f\x80\x9f", "\b\f\n\r\t", "é ß 日本", "\u2028\u2029\ufeff\ufffd", "\U0001f600\U0010ffff", "<&'>"]  # fmt: skip
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
CURSOR = StoredPosition(source=12, target=10, topic_id="kMrXTJjPQ0-2LbNTc2bMEQ", leader_epoch=3)


class TestConnectsRecords:
    def test_bytes(self) -> None:
        assert source_offsets.key("MirrorSourceConnector", "A", "t", 0) == KEY
        assert source_offsets.value(123) == b'{"offset":123}'
        assert parse(KEY, b'{"offset":123}') == SourceOffset("MirrorSourceConnector", "A", "t", 0, 123)

    def test_where_they_lie(self) -> None:
        key = source_offsets.key("A->B.MirrorSourceConnector", "A", "t", 0)
        assert partition_for(key, 25) == 18

    def test_a_tombstone(self) -> None:
        assert parse(KEY, None) == SourceOffset("MirrorSourceConnector", "A", "t", 0, None)

    def test_escapes_as_jackson_writes_them(self) -> None:
        key = source_offsets.key('a"\\/\x1f\n', "é", "\U0001f600", 0)
        assert key == rb'["a\"\\/\u001F\n",{"cluster":"' + "é".encode() + rb'","partition":0,"topic":"\uD83D\uDE00"}]'

    @pytest.mark.parametrize(
        "key",
        [
            b'["MirrorCheckpointConnector",{"partition":0,"topic":"A.t","group":"g"}]',
            b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]',
            b'["MirrorSourceConnector",{"topic":"t","partition":0,"cluster":"A"}]',  # Connect would not find it
            b'["MirrorSourceConnector", {"cluster":"A","partition":0,"topic":"t"}]',
            b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t","extra":1}]',
            b'["MirrorSourceConnector",{"cluster":"A","partition":true,"topic":"t"}]',
            b'["MirrorSourceConnector",{"cluster":"A","partition":0.0,"topic":"t"}]',
            b'["MirrorSourceConnector",{"cluster":"\\ud83d","partition":0,"topic":"t"}]',
            b'["file-source",{"filename":"x"}]',
            b'"text"',
            b"[[" * 100_000,
            b"\xff",
            b"",
            None,
        ],
    )
    def test_other_keys(self, key: bytes | None) -> None:
        assert parse(key, b'{"offset":1}') is None

    @pytest.mark.parametrize("value", [b"", b"{", b"1", b"null", b"{}", b'{"offset":"1"}', b'{"offset":true}', b'{"offset":1.5}'])  # fmt: skip
    def test_malformed_values(self, value: bytes) -> None:
        assert parse(KEY, value) is None
        assert parse(source_offsets.position_key("A", "B", "t", 0, "us.t"), value) is None
        assert parse(source_offsets.producer_key("A", "B"), value) is None

    @given(NAMES, NAMES, NAMES, st.integers(0, 2**31 - 1), st.integers(0, 2**62))
    def test_there_and_back(self, name: str, cluster: str, topic: str, partition: int, offset: int) -> None:
        key, value = source_offsets.key(name, cluster, topic, partition), source_offsets.value(offset)
        assert json.loads(key) == [name, {"cluster": cluster, "partition": partition, "topic": topic}]
        assert parse(key, value) == SourceOffset(name, cluster, topic, partition, offset)

    @given(st.binary(max_size=30) | st.text('["{,:}]0twinlogclusterpartitiontopic').map(str.encode), st.binary())
    def test_any_bytes_can_be_parsed(self, key: bytes, value: bytes) -> None:
        parse(key, value)

    @pytest.mark.java
    @pytest.mark.parametrize("name", EXOTIC)
    def test_connect_writes_the_same(self, kafka_jvm: KafkaJvm, invoke: Invoke, name: str) -> None:
        java, is_key = kafka_jvm.jvm, True
        converter = java.org.apache.kafka.connect.json.JsonConverter()
        converter.configure(kafka_jvm.map({"schemas.enable": "false"}), is_key)
        partition = invoke(
            f"{MIRROR}MirrorUtils", "wrapPartition", java.org.apache.kafka.common.TopicPartition(name, 3), name
        )
        pair = java.java.util.ArrayList()
        pair.add(name)
        pair.add(partition)
        assert source_offsets.key(name, name, name, 3) == converter.fromConnectData("x", None, pair)
        offset = java.org.apache.kafka.connect.mirror.MirrorUtils.wrapOffset(2**40)
        assert source_offsets.value(2**40) == converter.fromConnectData("x", None, offset)


class TestTwinlogsRecords:
    def test_a_cursor(self) -> None:
        key = source_offsets.position_key("A", "B", "t", 7, "A.t")
        assert key == b'["twinlog",{"cluster":"A","partition":7,"topic":"t","target":"B","remote":"A.t"}]'
        value = CURSOR.encode()
        assert value.startswith(b'{"source":12,"target":10,"topic_id":"kMrXTJjPQ0-2LbNTc2bMEQ","leader_epoch":3,')
        assert StoredPosition.decode(value) == CURSOR
        assert parse(key, value) == PositionEntry(Flow("A", "B"), "t", 7, CURSOR, "A.t")
        assert parse(key, None) == PositionEntry(Flow("A", "B"), "t", 7, None, "A.t")
        older = b'["twinlog",{"cluster":"A","partition":7,"topic":"t","target":"B"}]'
        assert source_offsets.position_key("A", "B", "t", 7, None) == older
        assert parse(older, value) == PositionEntry(Flow("A", "B"), "t", 7, CURSOR)

    @pytest.mark.parametrize(
        "value",
        [
            b'{"source":12,"target":10,"topic_id":"x"}',
            b'{"source":12,"target":10,"topic_id":5,"leader_epoch":3}',
            b'{"source":12,"target":null,"topic_id":"x","leader_epoch":3}',
            b'{"source":true,"target":1,"topic_id":"x","leader_epoch":3}',
            b"[]",
            b"\xff",
        ],
    )
    def test_a_malformed_cursor_is_none(self, value: bytes) -> None:
        assert StoredPosition.decode(value) is None

    def test_a_later_version_may_add_to_a_cursor(self) -> None:
        assert StoredPosition.decode(CURSOR.encode()[:-1] + b',"more":1}') == CURSOR

    def test_producers(self) -> None:
        key = source_offsets.producer_key("A", "B")
        assert key == b'["twinlog",{"cluster":"A","target":"B"}]'
        producers = Producers().adding(4001).adding(4002).adding(4001)
        assert producers.ids == (4002, 4001)  # newest last, each once
        assert producers.encode() == b'{"ids":[4002,4001]}'
        assert parse(key, producers.encode()) == ProducersEntry(Flow("A", "B"), producers)
        assert parse(key, Producers().encode()) == ProducersEntry(Flow("A", "B"), Producers())
        assert parse(key, None) == ProducersEntry(Flow("A", "B"), None)

    def test_the_64_newest_producers_are_kept(self) -> None:
        producers = Producers()
        for producer_id in range(100):
            producers = producers.adding(producer_id)
        assert producers.ids == tuple(range(36, 100))

    @pytest.mark.parametrize("value", [b'{"ids":[1,"2"]}', b'{"ids":1}', b'{"ids":[true]}', b"[1]"])
    def test_malformed_producers_are_none(self, value: bytes) -> None:
        assert Producers.decode(value) is None


class TestNamesFromTheConfiguration:
    def test_dedicated(self, read_flow: ReadFlow) -> None:
        flow = read_flow()
        assert source_offsets.connector_name(flow) == "MirrorSourceConnector"
        assert source_offsets.offsets_topic(flow) == ("mm2-offsets.A.internal", 25, 3)

    def test_a_dedicated_mm2_does_not_ask_for_a_name(self, read_flow: ReadFlow) -> None:
        assert source_offsets.connector_name(read_flow("name = mine")) == "MirrorSourceConnector"
        assert source_offsets.connector_name(read_flow("A->B.name = mine")) == "MirrorSourceConnector"

    def test_settings_of_the_topic(self, read_flow: ReadFlow) -> None:
        lines = ["offset.storage.partitions = 5", "offset.storage.replication.factor = 1", "offset.storage.topic = o"]
        assert source_offsets.offsets_topic(read_flow(*lines)) == ("o", 5, 1)

    def test_connect(self, tmp_path: Path) -> None:
        body = {
            "connector.class": f"{MIRROR}MirrorSourceConnector",
            "source.cluster.alias": "us",
            "target.cluster.alias": "eu",
            "source.cluster.bootstrap.servers": "u:1",
            "target.cluster.bootstrap.servers": "e:1",
        }
        file = tmp_path / "orders.json"
        file.write_text(json.dumps({"name": "my orders", "config": body}))
        (flow,) = load([file]).flows
        assert source_offsets.connector_name(flow) == "my orders"
        file.write_text(json.dumps(body))
        (flow,) = load([file]).flows
        assert source_offsets.connector_name(flow) == "orders"
        assert source_offsets.offsets_topic(flow) == ("connect-offsets", 25, 3)

    def test_strimzi(self, tmp_path: Path) -> None:
        file = tmp_path / "mm2.yaml"
        file.write_text(
            """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: m}
spec:
  connectCluster: eu
  clusters:
    - {alias: us, bootstrapServers: "u:1"}
    - {alias: eu, bootstrapServers: "e:1"}
  mirrors:
    - {sourceCluster: us, targetCluster: eu, sourceConnector: {}}
"""
        )
        (flow,) = load([file]).flows
        assert source_offsets.connector_name(flow) == "us->eu.MirrorSourceConnector"
        assert source_offsets.offsets_topic(flow).name == "mirrormaker2-cluster-offsets"

    def test_a_flow_without_a_source_connector(self, read_flow: ReadFlow) -> None:
        with pytest.raises(ValueError, match="A->B has no source connector"):
            source_offsets.connector_name(FlowConfig(Flow("A", "B"), read_flow().worker))
