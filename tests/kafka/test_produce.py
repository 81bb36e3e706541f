"""Produce requests and answers, read and written by kafka-python's own encoders."""

from typing import Any

import pytest
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from twinlog.errors import ProtocolError
from twinlog.kafka import produce


def test_a_request_reads_as_it_was_meant() -> None:
    topics: dict[str, list[tuple[int, produce.Bytes]]] = {
        "t": [(0, b"batch 0"), (3, memoryview(b"batch 3"))],
        "größe": [(1, bytearray(b"x" * 70_000))],
    }
    frame = b"".join(produce.encode(17, "me", -1, 3000, topics))
    request = ProduceRequest.decode(frame, version=produce.VERSION, header=True)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (None, -1, 3000)
    found = {
        topic.name: [(part.index, bytes(part.records)) for part in topic.partition_data] for topic in request.topic_data
    }
    assert found == {topic: [(at, bytes(batch)) for at, batch in listed] for topic, listed in topics.items()}


def test_batches_are_not_copied() -> None:
    memory = bytearray(b"batch")
    parts = produce.encode(1, "me", -1, 1, {"t": [(0, memoryview(memory))]})
    assert any(isinstance(part, memoryview) and part.obj is memory for part in parts)


def test_a_request_without_batches_is_whole() -> None:
    frame = b"".join(produce.encode(1, "me", -1, 1, {}))
    assert ProduceRequest.decode(frame, version=produce.VERSION, header=True).topic_data == []


def _answer(**parts: list[dict[str, Any]]) -> bytes:
    kind = ProduceResponse.TopicProduceResponse
    bad = kind.PartitionProduceResponse.BatchIndexAndErrorMessage
    topics = [
        kind(
            name=topic,
            partition_responses=[
                kind.PartitionProduceResponse(
                    index=part["index"],
                    error_code=part.get("error", 0),
                    base_offset=part.get("base", -1),
                    log_append_time_ms=-1,
                    log_start_offset=part.get("start", 0),
                    record_errors=[
                        bad(batch_index=at, batch_index_error_message=text) for at, text in part.get("bad", [])
                    ],
                    error_message=part.get("message"),
                )
                for part in listed
            ],
        )
        for topic, listed in parts.items()
    ]
    answer = ProduceResponse(version=produce.VERSION, responses=topics, throttle_time_ms=12)
    answer.with_header(correlation_id=3)
    return bytes(answer.encode(header=True))


def test_an_answer_reads_as_it_was_meant() -> None:
    frame = _answer(
        t=[{"index": 0, "base": 1 << 40, "start": 9}, {"index": 1, "error": 6}],
        u=[{"index": 7, "error": 87, "bad": [(3, "no key"), (4, None)], "message": "größe"}, {"index": 8, "base": 5}],
    )
    answer = produce.decode(memoryview(frame))
    assert answer.throttle_ms == 12
    assert [(each.topic, each.partition, each.error, each.base_offset) for each in answer.outcomes] == [
        ("t", 0, 0, 1 << 40), ("t", 1, 6, -1), ("u", 7, 87, -1), ("u", 8, 0, 5),
    ]  # fmt: skip
    assert answer.outcomes[0].log_start == 9
    assert answer.outcomes[2].bad_records == ((3, "no key"), (4, ""))
    assert answer.outcomes[2].message == "größe"


def test_a_message_without_bad_records_and_bad_records_without_a_message() -> None:
    frame = _answer(
        t=[{"index": 0, "error": 10, "message": "too large"}, {"index": 1, "error": 32, "bad": [(0, None)]}]
    )
    first, second = produce.decode(memoryview(frame)).outcomes
    assert (first.message, first.bad_records) == ("too large", ())
    assert (second.message, second.bad_records) == ("", ((0, ""),))


def test_a_broken_answer_is_an_error_and_nothing_else() -> None:
    frame = _answer(t=[{"index": 0, "error": 87, "bad": [(3, "no key")], "message": "m"}])
    for size in range(4, len(frame)):
        with pytest.raises(ProtocolError):
            produce.decode(memoryview(frame[:size]))
