"""The bytes of a checkpoint, which ones a group's offsets give, and which are emitted."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.kafka_classes import KafkaJvm
from twinlog.mm2.checkpoints import (
    HIGHEST_HEADER,
    Checkpoint,
    CheckpointStore,
    Due,
    candidates,
    decode_highest,
    encode_highest,
    name_on_target,
)
from twinlog.mm2.group_offsets import Committed
from twinlog.mm2.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from twinlog.model import TopicPartition

Invoke = Callable[..., Any]

LONG = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


class TestBytes:
    KEY = bytes.fromhex("0006 67726f757039 0008 412e746f70696331 00000002")
    VALUE = bytes.fromhex("0000 000000000000000a 0000000000000005 0000")
    CHECKPOINT = Checkpoint("group9", "A.topic1", 2, 10, 5)

    def test_the_specifications_example(self) -> None:
        assert (self.CHECKPOINT.key(), self.CHECKPOINT.value()) == (self.KEY, self.VALUE)
        assert Checkpoint.decode(self.KEY, self.VALUE) == self.CHECKPOINT

    @given(TEXT, TEXT, st.integers(0, 2**31 - 1), LONG, LONG, TEXT)
    def test_there_and_back(self, group: str, topic: str, partition: int, up: int, down: int, metadata: str) -> None:
        checkpoint = Checkpoint(group, topic, partition, up, down, metadata)
        assert Checkpoint.decode(checkpoint.key(), checkpoint.value()) == checkpoint

    @pytest.mark.parametrize(
        ("key", "value", "complaint"),
        [
            (None, VALUE, "checkpoint without a key"),
            (KEY, None, "checkpoint without a value"),
            (KEY[:5], VALUE, "checkpoint: key of 5 bytes is too short for group of 6"),
            (KEY[:-1], VALUE, "checkpoint: key of 21 bytes is too short for partition"),
            (KEY.replace(b"A.topic1", b"A.\xffopic1"), VALUE, "checkpoint: key has a topic that is not UTF-8"),
            (KEY, VALUE[:3], "checkpoint: value of 3 bytes is too short for upstream offset"),
            (KEY, VALUE[:17], "checkpoint: value of 17 bytes is too short for downstream offset"),
            (KEY, VALUE[:-2], "checkpoint: value of 18 bytes is too short for the length of metadata"),
            (KEY, VALUE[:-2] + b"\xff\xff", "checkpoint: value has an invalid length of metadata: -1"),
            (KEY, b"\x00\x01" + VALUE[2:], "checkpoint: value has unsupported version 1"),
        ],
    )
    def test_malformed(self, key: bytes | None, value: bytes | None, complaint: str) -> None:
        with pytest.raises(ValueError, match=complaint):
            Checkpoint.decode(key, value)

    @given(st.binary(max_size=30), st.binary(max_size=30).map(lambda rest: b"\0\0" + rest))
    def test_any_bytes_are_a_checkpoint_or_a_value_error(self, key: bytes, value: bytes) -> None:
        try:
            checkpoint = Checkpoint.decode(key, value)
        except ValueError:
            return
        assert key.startswith(checkpoint.key())
        assert value.startswith(checkpoint.value())

    @pytest.mark.java
    def test_mm2_writes_and_reads_the_same(self, kafka_jvm: KafkaJvm, invoke: Invoke) -> None:
        java = kafka_jvm.jvm.org.apache.kafka
        ours = Checkpoint("grüppe", "us.tópic", 2**31 - 1, 2**62, 2**40, "their own words: ñ")
        partition = java.common.TopicPartition("us.tópic", 2**31 - 1)
        theirs = java.connect.mirror.Checkpoint("grüppe", partition, 2**62, 2**40, "their own words: ñ")
        assert bytes(invoke(theirs, "recordKey")) == ours.key()
        assert bytes(invoke(theirs, "recordValue")) == ours.value()
        for extra in (b"", b"bytes behind the last field"):
            key, value = ours.key() + extra, ours.value() + extra
            record = java.clients.consumer.ConsumerRecord("x", 0, 0, key, value)
            assert java.connect.mirror.Checkpoint.deserializeRecord(record).equals(theirs)
            assert Checkpoint.decode(key, value) == ours


def checkpoint(up: int, down: int, group: str = "g", topic: str = "us.t", metadata: str = "") -> Checkpoint:
    return Checkpoint(group, topic, 0, up, down, metadata)


class TestTheStore:
    @pytest.mark.parametrize(
        ("up", "down", "wanted"),
        [
            (100, 200, False),  # the same
            (101, 200, False),  # it went on, but nothing new was replicated
            (101, 199, False),  # so it did, and the translation has become coarser
            (100, 201, True),  # the translation has become finer
            (101, 201, True),
            (99, 199, True),  # the consumer rewound
            (99, 200, True),
            (99, 201, True),
        ],
    )
    def test_what_is_emitted(self, up: int, down: int, wanted: bool) -> None:
        store = CheckpointStore()
        store.add(checkpoint(100, 200))
        assert store.wants(checkpoint(up, down)) is wanted

    def test_the_first_is_emitted_and_others_do_not_count(self) -> None:
        store = CheckpointStore()
        assert store.wants(checkpoint(0, 0))
        for other in (checkpoint(5, 5, group="h"), checkpoint(5, 5, topic="us.u"), Checkpoint("g", "us.t", 1, 5, 5)):
            store.add(other)
        assert store.wants(checkpoint(0, 0))

    def test_the_last_one_counts(self) -> None:
        store = CheckpointStore()
        for each in (checkpoint(100, 200), checkpoint(10, 20, metadata="m"), checkpoint(7, 7, topic="us.u")):
            store.add(each)
        assert store.wants(checkpoint(11, 21))
        assert store.of_group("g") == {
            TopicPartition("us.t", 0): checkpoint(10, 20, metadata="m"),
            TopicPartition("us.u", 0): checkpoint(7, 7, topic="us.u"),
        }
        store.add(checkpoint(1, 1, group="h"))
        assert list(store.groups()) == ["g", "h"]
        assert store.of_group("nobody") == {}

    def test_what_is_handed_out_is_a_copy(self) -> None:
        store = CheckpointStore()
        store.add(checkpoint(1, 1))
        store.of_group("g").clear()
        assert len(store.of_group("g")) == 1


class TestACheckpointThatIsWrong:
    @pytest.mark.parametrize(
        ("up", "down", "limit", "wanted"),
        [
            (100, 50, 60, True),  # the remote topic was created again, with fewer records before
            (101, 50, 199, True),
            (100, 50, 200, False),  # it can be there: the translation has become coarser
            (100, 50, None, False),  # nothing is known
        ],
    )
    def test_is_replaced(self, up: int, down: int, limit: int | None, wanted: bool) -> None:
        store = CheckpointStore()
        store.add(checkpoint(100, 200))
        assert store.wants(checkpoint(up, down), limit) is wanted


HERE, THERE = TopicPartition("t", 0), TopicPartition("us.t", 0)


class TestHowFarAGroupMayHaveBeenSynced:
    def due(self, store: CheckpointStore, new: Checkpoint | None, limit: int | None = None, offset: int = 0) -> Due:
        due = Due()
        found = {} if new is None else {HERE: new}
        standing = {HERE: Committed(offset if new is None else new.upstream)}
        due.add(store, "g", standing, found, {HERE: THERE}, lambda *_: limit)
        return due

    def test_the_header(self) -> None:
        assert decode_highest(encode_highest(5000)) == 5000
        assert decode_highest([(b"other", b"x"), *encode_highest(0)]) == 0
        for odd in ([], [(HIGHEST_HEADER, None)], [(HIGHEST_HEADER, b"123")], [(b"other", b"12345678")]):
            assert decode_highest(odd) is None

    def test_it_never_falls_when_a_group_is_reset(self) -> None:
        store = CheckpointStore()
        store.add(checkpoint(5000, 5000), 5000)
        for up, highest in ((1000, 5000), (2000, 5000), (6000, 6000), (10, 6000)):
            due = self.due(store, checkpoint(up, up))
            assert due.checkpoints == [checkpoint(up, up)]
            assert due.without_highest(store) == set()
            assert due.highest(store, {}) == {("g", THERE): highest}
            store.add(checkpoint(up, up), highest)
            assert store.highest("g", THERE) == highest

    @pytest.mark.parametrize(
        ("on_target", "highest"),
        [({}, None), ({"g": {}}, 5000), ({"g": {THERE: 70}}, 5000), ({"g": {THERE: 7000}}, 7000)],
    )
    def test_what_mm2_wrote_is_taken_over_once(
        self, on_target: dict[str, dict[TopicPartition, int]], highest: int | None
    ) -> None:
        store = CheckpointStore()
        store.add(checkpoint(5000, 5000))
        due = self.due(store, checkpoint(5001, 5000))
        assert due.checkpoints == [checkpoint(5000, 5000)], "the same again: it is not said how far MM2 went"
        assert due.without_highest(store) == {"g"}
        found = due.highest(store, on_target)
        assert found.get(("g", THERE)) == highest
        store.add(checkpoint(5000, 5000), highest)
        assert bool(self.due(store, checkpoint(5001, 5000)).checkpoints) is (highest is None)

    def test_a_group_without_a_checkpoint(self) -> None:
        store = CheckpointStore()
        due = self.due(store, checkpoint(10, 10))
        assert due.highest(store, {"g": {THERE: 300}}) == {("g", THERE): 300}
        assert due.highest(store, {"g": {}}) == {("g", THERE): 10}

    def test_in_another_remote_topic_it_begins_again(self) -> None:
        store = CheckpointStore()
        store.add(checkpoint(100, 200), 5000)
        due = self.due(store, checkpoint(100, 50), limit=60)
        assert (due.checkpoints, due.wrong, due.untranslated) == ([checkpoint(100, 50)], {("g", THERE)}, {})
        assert due.without_highest(store) == {"g"}
        assert due.highest(store, {"g": {}}) == {("g", THERE): 50}

    def test_what_cannot_be_translated_yet(self) -> None:
        store = CheckpointStore()
        store.add(checkpoint(100, 200), 200)
        assert not self.due(store, None, limit=None, offset=100).untranslated
        due = self.due(store, None, limit=0, offset=100)
        assert (due.checkpoints, due.untranslated) == ([], {("g", THERE): 100})

    def test_partitions_of_which_nothing_is_known_now_are_left_alone(self) -> None:
        store = CheckpointStore()
        due = Due()
        due.add(store, "g", {HERE: Committed(1)}, {HERE: checkpoint(1, 1)}, {}, lambda *_: 0)
        assert due == Due()


class TestCandidates:
    POLICY: ReplicationPolicy = DefaultReplicationPolicy()

    def found(
        self, committed: dict[TopicPartition, Committed], translations: dict[int, int | None]
    ) -> dict[TopicPartition, Checkpoint]:
        return candidates(
            "g",
            committed,
            lambda topic: topic != "unwanted",
            self.POLICY,
            "us",
            "eu",
            lambda tp, upstream: translations[upstream] if tp.partition < 5 else None,
        )

    def test_what_can_be_translated(self) -> None:
        committed = {
            TopicPartition("t", 0): Committed(10, "m"),
            TopicPartition("t", 1): Committed(11, ""),
            TopicPartition("t", 2): Committed(12, "too old"),
            TopicPartition("t", 3): Committed(13, "no sync yet"),
            TopicPartition("t", 4): Committed(-1, "none, as some clients say it"),
            TopicPartition("t", 5): Committed(10, "no sync of this partition"),
            TopicPartition("unwanted", 0): Committed(10, ""),
        }
        assert self.found(committed, {10: 110, 11: 0, 12: -1, 13: None}) == {
            TopicPartition("t", 0): Checkpoint("g", "us.t", 0, 10, 110, "m"),
            TopicPartition("t", 1): Checkpoint("g", "us.t", 1, 11, 0),
        }

    def test_it_is_translated_by_its_name_on_the_source(self) -> None:
        asked = []

        def translate(tp: TopicPartition, upstream: int) -> int:
            asked.append((tp, upstream))
            return 1

        candidates(
            "g", {TopicPartition("t", 3): Committed(7)}, lambda _: True, self.POLICY, "us", "eu", translate
        )  # fmt: skip
        assert asked == [(TopicPartition("t", 3), 7)]

    @pytest.mark.parametrize(
        ("topic", "policy", "name"),
        [
            ("t", DefaultReplicationPolicy(), "us.t"),
            ("ap.t", DefaultReplicationPolicy(), "us.ap.t"),
            ("eu.t", DefaultReplicationPolicy(), "t"),  # it came from there
            ("eu.ap.t", DefaultReplicationPolicy(), "t"),  # MM2's rule: its first name, not ap.t
            ("eu-t", DefaultReplicationPolicy(separator="-"), "t"),
            ("eu.t", DefaultReplicationPolicy(separator="-"), "us-eu.t"),
            ("t", IdentityReplicationPolicy(source_alias="us"), "t"),
            ("eu.t", IdentityReplicationPolicy(source_alias="us"), "eu.t"),
            ("heartbeats", IdentityReplicationPolicy(source_alias="us"), "us.heartbeats"),
        ],
    )
    def test_the_name_on_the_target(self, topic: str, policy: ReplicationPolicy, name: str) -> None:
        assert name_on_target(topic, policy, "us", "eu") == name
