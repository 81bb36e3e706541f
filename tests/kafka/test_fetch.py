"""Fetch requests and responses against kafka-python's encoders and decoders."""

import uuid
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.consumer import FetchResponse as KafkaResponse

from twinlog.errors import ProtocolError
from twinlog.kafka.fetch import BY_ID, BY_NAME, FetchResponse, Session, WantedPartition
from twinlog.model import TopicPartition

IDS = {"t": uuid.UUID(int=7), "größe": uuid.UUID(int=8)}
HOW: dict[str, Any] = {"wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, "isolation": 1, "rack": "r1"}


def _want(topic: str, partition: int, offset: int, topic_id: uuid.UUID | None = None) -> WantedPartition:
    return WantedPartition(TopicPartition(topic, partition), topic_id or IDS[topic], offset, 5, 4, 1 << 16)


def _read(frame: bytes, version: int) -> Any:
    return FetchRequest.decode(frame, version=version, header=True)


def _name(topic: Any, version: int) -> str:
    return topic.topic if version == BY_NAME else next(name for name, one in IDS.items() if one == topic.topic_id)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_request_is_decoded_by_kafka_python(version: int) -> None:
    session = Session(version)
    wants = [_want("t", 0, 10), _want("größe", 300, 1 << 40), _want("t", 2, 0)]
    request = _read(session.request(9, "me", wants, [], **HOW), version)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level) == (500, 1, 1 << 20, 1)
    assert (request.session_id, request.session_epoch, request.rack_id) == (0, 0, "r1")
    found = {
        (_name(topic, version), part.partition): (
            part.fetch_offset, part.current_leader_epoch, part.last_fetched_epoch, part.partition_max_bytes,
        )
        for topic in request.topics
        for part in topic.partitions
    }  # fmt: skip
    assert found == {want.tp: (want.offset, 5, 4, 1 << 16) for want in wants}


def test_session_sends_changes_and_removes_by_the_old_id() -> None:
    session = Session(BY_ID)
    session.request(1, "me", [_want("t", 0, 0), _want("t", 1, 0)], [], **HOW)
    session.answered(FetchResponse(0, 0, 77, []))
    assert not session.fresh
    request = _read(session.request(2, "me", [_want("t", 0, 5)], [TopicPartition("t", 1)], **HOW), BY_ID)
    assert (request.session_id, request.session_epoch) == (77, 1)
    assert [part.partition for topic in request.topics for part in topic.partitions] == [0]
    assert [list(topic.partitions) for topic in request.forgotten_topics_data] == [[1]]
    session.answered(FetchResponse(0, 0, 77, []))

    # The topic was made again: the broker knows the old one by another id, and that is the one to forget.
    remade = uuid.UUID(int=99)
    request = _read(session.request(3, "me", [_want("t", 0, 0, remade)], [], **HOW), BY_ID)
    assert [topic.topic_id for topic in request.topics] == [remade]
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [IDS["t"]]


def test_unsent_partition_is_not_removed() -> None:
    session = Session(BY_ID)
    request = _read(session.request(1, "me", [], [TopicPartition("t", 1)], **HOW), BY_ID)
    assert not request.forgotten_topics_data


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_partition_both_changed_and_forgotten_is_not_removed(version: int) -> None:
    """Brokers add before they remove: the partition would never be sent again."""
    session = Session(version)
    session.request(1, "me", [_want("t", 0, 0), _want("t", 1, 0)], [], **HOW)
    session.answered(FetchResponse(0, 0, 7, []))
    both = [TopicPartition("t", 0), TopicPartition("t", 1)]
    request = _read(session.request(2, "me", [_want("t", 1, 9)], both, **HOW), version)
    assert [part.partition for topic in request.topics for part in topic.partitions] == [1]
    assert [index for topic in request.forgotten_topics_data for index in topic.partitions] == [0]
    assert list(session.partitions) == [TopicPartition("t", 1)]


def test_recreated_topic_by_name() -> None:
    session = Session(BY_NAME)
    session.request(1, "me", [_want("t", 0, 0)], [], **HOW)
    session.answered(FetchResponse(0, 0, 7, []))
    remade = _want("t", 0, 0)._replace(topic_id=uuid.uuid4())
    request = _read(session.request(2, "me", [remade], [], **HOW), BY_NAME)
    assert request.topics
    assert not request.forgotten_topics_data


def test_session_epochs_wrap() -> None:
    session = Session(BY_ID, id=7, epoch=0x7FFFFFFF)
    session.answered(FetchResponse(0, 0, 7, []))
    assert session.epoch == 1  # 0 would begin a new one


def test_full_requests_without_a_session() -> None:
    session = Session(BY_ID)
    session.request(1, "me", [_want("t", 0, 0)], [], **HOW)
    session.answered(FetchResponse(0, 0, 0, []))
    assert session.fresh


def _answer(version: int, *parts: dict[str, Any], **top: Any) -> bytes:
    kind = KafkaResponse.FetchableTopicResponse
    usual: dict[str, Any] = {
        "partition_index": 0, "error_code": 0, "high_watermark": 20, "last_stable_offset": 19, "log_start_offset": 3,
        "aborted_transactions": None, "preferred_read_replica": -1, "records": b"",
    }  # fmt: skip
    partitions = []
    for part in parts:
        given = {**usual, **part}
        diverging = given.pop("diverging", None)
        made = kind.PartitionData(**given)
        if diverging:
            made.diverging_epoch = kind.PartitionData.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
        partitions.append(made)
    topic = kind(topic="t", topic_id=IDS["t"], partitions=partitions)
    wanted = {"throttle_time_ms": 0, "error_code": 0, "session_id": 5, **top}
    response = KafkaResponse(version=version, responses=[topic] if parts else [], **wanted)
    response.with_header(correlation_id=3)
    return bytes(response.encode(header=True))


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_response_of_kafka_python_is_decoded(version: int) -> None:
    session = Session(version)
    session.request(3, "me", [_want("t", 0, 0), _want("t", 1, 0)], [], **HOW)
    aborted = KafkaResponse.FetchableTopicResponse.PartitionData.AbortedTransaction
    frame = _answer(
        version,
        {"records": b"r" * 300, "aborted_transactions": [aborted(producer_id=4, first_offset=11)]},
        {"partition_index": 1, "error_code": 6, "preferred_read_replica": 2, "records": None},
        throttle_time_ms=70,
    )
    response = session.decode(memoryview(frame))
    assert (response.throttle_ms, response.error, response.session) == (70, 0, 5)
    first, second = response.parts
    assert first.tp == ("t", 0)
    assert (first.high_watermark, first.last_stable, first.log_start) == (20, 19, 3)
    assert bytes(first.records) == b"r" * 300
    assert first.aborted == [(4, 11)]
    assert first.diverging is None
    assert (second.tp, second.error, second.replica, bytes(second.records)) == (("t", 1), 6, 2, b"")


def test_diverging_logs() -> None:
    session = Session(BY_ID)
    session.request(3, "me", [_want("t", 0, 0)], [], **HOW)
    (part,) = session.decode(memoryview(_answer(BY_ID, {"diverging": (4, 17)}))).parts
    assert part.diverging == (4, 17)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_damaged_response_is_a_protocol_error(version: int) -> None:
    session = Session(version)
    session.request(3, "me", [_want("t", 0, 0)], [], **HOW)
    frame = _answer(version, {"records": b"r" * 40})
    for size in range(4, len(frame) - 1):
        with pytest.raises(ProtocolError):
            session.decode(memoryview(frame[:size]))


def test_response_with_an_unknown_topic_is_an_error() -> None:
    with pytest.raises(ProtocolError):
        Session(BY_ID).decode(memoryview(_answer(BY_ID, {})))
