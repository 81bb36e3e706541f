"""The bytes of a heartbeat."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.kafka_classes import KafkaJvm
from twinlog.mm2.heartbeats import Heartbeat

Invoke = Callable[..., Any]

KEY = bytes.fromhex("0001 41 0001 42")
VALUE = bytes.fromhex("0000 0000018bcfe56800")
HEARTBEAT = Heartbeat("A", "B", 1_700_000_000_000)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def test_the_specifications_example() -> None:
    assert (HEARTBEAT.key(), HEARTBEAT.value()) == (KEY, VALUE)
    assert Heartbeat.decode(KEY, VALUE) == HEARTBEAT


@given(NAMES, NAMES, st.integers(-(2**63), 2**63 - 1))
def test_there_and_back(source: str, target: str, timestamp: int) -> None:
    heartbeat = Heartbeat(source, target, timestamp)
    assert Heartbeat.decode(heartbeat.key(), heartbeat.value()) == heartbeat


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        (None, VALUE, "heartbeat without a key"),
        (KEY, None, "heartbeat without a value"),
        (b"\x00", VALUE, "heartbeat: key of 1 bytes is too short for the length of source"),
        (KEY[:3], VALUE, "heartbeat: key of 3 bytes is too short for the length of target"),
        (KEY[:-1], VALUE, "heartbeat: key of 5 bytes is too short for target of 1"),
        (b"\xff\xfe" + KEY, VALUE, "heartbeat: key has an invalid length of source: -2"),
        (KEY.replace(b"B", b"\xff"), VALUE, "heartbeat: key has a target that is not UTF-8"),
        (KEY, b"", "heartbeat: value of 0 bytes is too short for version"),
        (KEY, VALUE[:-1], "heartbeat: value of 9 bytes is too short for timestamp"),
        (KEY, b"\x00\x01" + VALUE[2:], "heartbeat: value has unsupported version 1"),
    ],
)
def test_malformed(key: bytes | None, value: bytes | None, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Heartbeat.decode(key, value)


@given(
    st.binary(max_size=20), st.one_of(st.binary(max_size=20), st.binary(max_size=12).map(lambda rest: b"\0\0" + rest))
)
def test_any_bytes_are_a_heartbeat_or_a_value_error(key: bytes, value: bytes) -> None:
    try:
        heartbeat = Heartbeat.decode(key, value)
    except ValueError:
        return
    assert key.startswith(heartbeat.key())
    assert value.startswith(heartbeat.value())


@pytest.mark.java
def test_mm2_writes_and_reads_the_same(kafka_jvm: KafkaJvm, invoke: Invoke) -> None:
    java = kafka_jvm.jvm.org.apache.kafka
    ours = Heartbeat("amérique", "eu", 2**62)
    theirs = java.connect.mirror.Heartbeat("amérique", "eu", 2**62)
    assert bytes(invoke(theirs, "recordKey")) == ours.key()
    assert bytes(invoke(theirs, "recordValue")) == ours.value()
    for extra in (b"", b"bytes behind the last field"):
        key, value = ours.key() + extra, ours.value() + extra
        read = java.connect.mirror.Heartbeat.deserializeRecord(
            java.clients.consumer.ConsumerRecord("heartbeats", 0, 0, key, value)
        )
        assert (read.sourceClusterAlias(), read.targetClusterAlias(), read.timestamp()) == ("amérique", "eu", 2**62)
        assert Heartbeat.decode(key, value) == ours
