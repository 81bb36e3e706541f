"""What the topics beside the records say of positions, read from real ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from twinlog.config import FlowConfig, load
from twinlog.errors import RefusedError
from twinlog.kafka.client import Client
from twinlog.kafka.records import encode
from twinlog.lab.cluster import Cluster
from twinlog.lab.listeners import PLAINTEXT
from twinlog.model import Anchor, TopicPartition
from twinlog.tracking import source_offsets
from twinlog.tracking.known import Known
from twinlog.tracking.offset_syncs import OffsetSync, encode_key, encode_value
from twinlog.tracking.source_offsets import Cursor, Producers

pytestmark = pytest.mark.broker

CURSOR = Cursor(source=12, target=10, topic_id="", leader_epoch=3)
PLACE = TopicPartition("orders", 0)


def read_flow(folder: Path, servers: str) -> FlowConfig:
    """With aliases that no other test uses; both are one cluster."""
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


def test_all_that_is_known_and_later_what_is_new(tmp_path: Path, us: Cluster) -> None:
    flow = read_flow(tmp_path, us.bootstrap())
    offsets, syncs = "mm2-offsets.knA.internal", "mm2-offset-syncs.knB.internal"
    with clients(flow) as (source, target):
        known = Known(flow, source, target)
        known.read()  # neither topic is there
        assert (known.cursors, known.mm2, known.syncs, known.producers) == ({}, {}, {}, Producers())
        us.create_topic(offsets)
        us.create_topic(syncs)

        def write(topic: str, *pairs: tuple[bytes, bytes | None]) -> None:
            target.append(TopicPartition(topic, 0), encode([(1, key, value, ()) for key, value in pairs]))

        connector = source_offsets.connector_name(flow)
        cursor_key = source_offsets.cursor_key("knA", "knB", "orders", 0)
        sync = OffsetSync("orders", 0, 9, 8)
        write(
            offsets,
            (cursor_key, CURSOR.encode()),
            (source_offsets.cursor_key("knA", "other", "orders", 1), CURSOR.encode()),  # of another flow
            (source_offsets.key(connector, "knA", "orders", 0), source_offsets.value(5)),
            (source_offsets.key(connector, "other", "orders", 1), source_offsets.value(5)),
            (source_offsets.producer_key("knA", "knB"), Producers((7,)).encode()),
            (b"?", b"?"),
        )
        write(syncs, (b"?", b"?"), (encode_key(sync), encode_value(sync)))
        known.read()
        assert known.cursors == {PLACE: CURSOR}
        assert known.mm2 == {PLACE: 5}
        assert known.syncs == {PLACE: Anchor(9, 8)}
        assert known.anchors(PLACE) == (Anchor(9, 8), Anchor(12, 10))
        assert known.anchors(TopicPartition("orders", 1)) == ()
        assert known.producers == Producers((7,))

        sync = replace(sync, upstream=19, downstream=18)
        write(offsets, (cursor_key, None), (source_offsets.producer_key("knA", "knB"), Producers((8,)).encode()))
        write(syncs, (encode_key(sync), encode_value(sync)))
        known.read()
        assert known.anchors(PLACE) == (Anchor(19, 18),)
        assert known.mm2 == {PLACE: 5}
        assert known.producers == Producers((8, 7))  # what was there first is what we use


def test_topics_that_may_not_be_read_are_an_error_or_passed_over(tmp_path: Path, secure: Cluster) -> None:
    flow = read_flow(tmp_path, secure.bootstrap(PLAINTEXT))
    with clients(flow) as (source, target):
        with pytest.raises(RefusedError, match=r"topic mm2-offsets\.knA\.internal: TOPIC_AUTHORIZATION_FAILED"):
            Known(flow, source, target).read()
        known = Known(flow, source, target, pass_over_denied=True)
        known.read()
        assert (known.cursors, known.mm2, known.syncs) == ({}, {}, {})
