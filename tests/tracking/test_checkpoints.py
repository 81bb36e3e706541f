"""The bytes of a checkpoint, which ones a group's offsets give, and which are emitted."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.lab.jvm import KafkaJvm
from twinlog.model import TopicPartition
from twinlog.topology.policy import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from twinlog.tracking.checkpoints import Checkpoint, CheckpointStore, candidates, name_on_target
from twinlog.tracking.group_offsets import Committed

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
            (None, VALUE, "a checkpoint has no key"),
            (KEY, None, "a checkpoint has no value"),
            (KEY[:5], VALUE, "a checkpoint's key has 5 bytes: too short for its group of 6"),
            (KEY[:-1], VALUE, "a checkpoint's key has 21 bytes: too short for its partition"),
            (KEY.replace(b"A.topic1", b"A.\xffopic1"), VALUE, "a checkpoint's key has a topic that is not UTF-8"),
            (KEY, VALUE[:3], "a checkpoint's value has 3 bytes: too short for its upstream offset"),
            (KEY, VALUE[:17], "a checkpoint's value has 17 bytes: too short for its downstream offset"),
            (KEY, VALUE[:-2], "a checkpoint's value has 18 bytes: too short for the length of its metadata"),
            (KEY, VALUE[:-2] + b"\xff\xff", "a checkpoint's value says that its metadata has -1 bytes"),
            (KEY, b"\x00\x01" + VALUE[2:], "a checkpoint's value is of version 1: only version 0 is known"),
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


class TestCandidates:
    POLICY: ReplicationPolicy = DefaultReplicationPolicy()

    def found(
        self, committed: dict[TopicPartition, Committed], translations: dict[int, int | None]
    ) -> list[Checkpoint]:
        return candidates(
            "g",
            committed,
            lambda topic: topic != "unwanted",
            self.POLICY,
            "us",
            "eu",
            lambda place, upstream: translations[upstream] if place.partition < 5 else None,
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
        assert self.found(committed, {10: 110, 11: 0, 12: -1, 13: None}) == [
            Checkpoint("g", "us.t", 0, 10, 110, "m"),
            Checkpoint("g", "us.t", 1, 11, 0),
        ]

    def test_it_is_translated_by_its_name_on_the_source(self) -> None:
        asked = []

        def translate(place: TopicPartition, upstream: int) -> int:
            asked.append((place, upstream))
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
