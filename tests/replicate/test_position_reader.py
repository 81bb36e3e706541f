"""Stored positions, read from real topics."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.listeners import PLAINTEXT
from twinlog.config import FlowConfig, load
from twinlog.errors import RefusedError
from twinlog.kafka.client import Client
from twinlog.kafka.records import encode
from twinlog.mm2 import source_offsets
from twinlog.mm2.offset_syncs import OffsetSync, encode_key, encode_value
from twinlog.mm2.source_offsets import Producers, StoredPosition
from twinlog.model import OffsetPair, TopicPartition
from twinlog.replicate.position_reader import PositionReader

pytestmark = pytest.mark.broker

POSITION = StoredPosition(source=12, target=10, topic_id="", leader_epoch=3)
TP = TopicPartition("orders", 0)


def read_flow(folder: Path, servers: str) -> FlowConfig:
    """Both clusters are the same, with aliases that no other test uses."""
    file = folder / "mm2.properties"
    file.write_text(
        f"clusters = knA, knB\nknA.bootstrap.servers = {servers}\nknB.bootstrap.servers = {servers}\n"
        "knA->knB.enabled = true\n"
    )
    return next(flow for flow in load([file]).flows if str(flow) == "knA->knB")


@contextmanager
def clients(flow: FlowConfig) -> Iterator[tuple[Client, Client]]:
    assert flow.source is not None
    source = Client("knA", flow.source.clients["source.consumer"], "test")
    target = Client("knB", flow.source.clients["data.producer"], "test")
    try:
        yield source, target
    finally:
        source.close()
        target.close()


def test_everything_is_read_once_then_only_new_records(tmp_path: Path, us: Cluster) -> None:
    flow = read_flow(tmp_path, us.bootstrap())
    offsets, syncs = "mm2-offsets.knA.internal", "mm2-offset-syncs.knB.internal"
    with clients(flow) as (source, target):
        known = PositionReader(flow, source, target)
        known.read()  # neither topic exists
        assert (known.stored_positions, known.mm2_positions, known.syncs, known.producers) == ({}, {}, {}, Producers())
        us.create_topic(offsets)
        us.create_topic(syncs)

        def write(topic: str, *pairs: tuple[bytes, bytes | None]) -> None:
            target.append(TopicPartition(topic, 0), encode([(1, key, value, ()) for key, value in pairs]))

        connector = source_offsets.connector_name(flow)
        position_key = source_offsets.position_key("knA", "knB", "orders", 0, "knA.orders")
        sync = OffsetSync("orders", 0, 9, 8)
        write(
            offsets,
            (position_key, POSITION.encode()),
            (
                source_offsets.position_key("knA", "other", "orders", 1, "knA.orders"),
                POSITION.encode(),
            ),  # of another flow
            (source_offsets.key(connector, "knA", "orders", 0), source_offsets.value(5)),
            (source_offsets.key(connector, "other", "orders", 1), source_offsets.value(5)),
            (source_offsets.producer_key("knA", "knB"), Producers((7,)).encode()),
            (b"?", b"?"),
        )
        write(syncs, (b"?", b"?"), (encode_key(sync), encode_value(sync)))
        known.read()
        assert known.stored_positions == {TP: POSITION}
        assert known.mm2_positions == {TP: 6}
        assert known.syncs == {TP: OffsetPair(9, 8)}
        assert known.offset_pairs(TP) == (OffsetPair(9, 8), OffsetPair(12, 10))
        assert known.offset_pairs(TopicPartition("orders", 1)) == ()
        assert known.producers == Producers((7,))

        sync = replace(sync, upstream=19, downstream=18)
        write(offsets, (position_key, None), (source_offsets.producer_key("knA", "knB"), Producers((8,)).encode()))
        write(syncs, (encode_key(sync), encode_value(sync)))
        known.read()
        assert known.offset_pairs(TP) == (OffsetPair(19, 18),)
        assert known.mm2_positions == {TP: 6}
        assert known.producers == Producers((8, 7))  # the last one, which was stored first, is used


def test_unauthorized_topics_are_an_error_or_ignored(tmp_path: Path, secure: Cluster) -> None:
    flow = read_flow(tmp_path, secure.bootstrap(PLAINTEXT))
    with clients(flow) as (source, target):
        with pytest.raises(RefusedError, match=r"topic mm2-offsets\.knA\.internal: TOPIC_AUTHORIZATION_FAILED"):
            PositionReader(flow, source, target).read()
        known = PositionReader(flow, source, target, ignore_unauthorized=True)
        known.read()
        assert (known.stored_positions, known.mm2_positions, known.syncs) == ({}, {}, {})


def test_recreated_topics_are_read_from_the_beginning(tmp_path: Path, us: Cluster) -> None:
    """Positions read before remain valid: the copied records are unchanged."""
    file = read_flow(tmp_path, us.bootstrap())
    offsets, syncs = "mm2-offsets.knA.internal", "mm2-offset-syncs.knB.internal"
    other = TopicPartition("orders", 7)

    def again(topic: str) -> None:
        with us.admin() as admin:
            exists = topic in admin.list_topics()
        if exists:
            us.delete_topic(topic)
        us.create_topic(topic)

    with clients(file) as (source, target):

        def write(tp: TopicPartition, number: int) -> None:
            stored_position = replace(POSITION, source=number)
            sync = OffsetSync(*tp, number, number)
            key = source_offsets.position_key("knA", "knB", tp.topic, tp.partition, f"knA.{tp.topic}")
            target.metadata([offsets, syncs])
            target.append(TopicPartition(offsets, 0), encode([(1, key, stored_position.encode(), ())]))
            target.append(TopicPartition(syncs, 0), encode([(1, encode_key(sync), encode_value(sync), ())]))

        known = PositionReader(file, source, target)
        again(offsets)
        again(syncs)
        for number in (1, 2, 3):
            write(TP, number)
        known.read()
        again(offsets)
        again(syncs)
        write(other, 4)
        known.read()
        assert {tp: stored_position.source for tp, stored_position in known.stored_positions.items()} == {
            TP: 3,
            other: 4,
        }
        assert known.syncs == {TP: OffsetPair(3, 3), other: OffsetPair(4, 4)}
