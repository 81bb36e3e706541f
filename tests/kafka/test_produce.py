"""Produce requests and responses against kafka-python's encoders and decoders."""

from typing import Any

import pytest
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from twinlog.errors import ProtocolError
from twinlog.kafka import produce


def test_request_is_decoded_by_kafka_python() -> None:
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


def test_request_without_batches() -> None:
    frame = b"".join(produce.encode(1, "me", -1, 1, {}))
    assert ProduceRequest.decode(frame, version=produce.VERSION, header=True).topic_data == []


def _response(**parts: list[dict[str, Any]]) -> bytes:
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
    response = ProduceResponse(version=produce.VERSION, responses=topics, throttle_time_ms=12)
    response.with_header(correlation_id=3)
    return bytes(response.encode(header=True))


def test_response_of_kafka_python_is_decoded() -> None:
    frame = _response(
        t=[{"index": 0, "base": 1 << 40, "start": 9}, {"index": 1, "error": 6}],
        u=[{"index": 7, "error": 87, "bad": [(3, "no key"), (4, None)], "message": "größe"}, {"index": 8, "base": 5}],
    )
    response = produce.decode(memoryview(frame))
    assert response.throttle_ms == 12
    assert [(each.topic, each.partition, each.error, each.base_offset) for each in response.outcomes] == [
        ("t", 0, 0, 1 << 40), ("t", 1, 6, -1), ("u", 7, 87, -1), ("u", 8, 0, 5),
    ]  # fmt: skip
    assert response.outcomes[0].log_start == 9
    assert response.outcomes[2].bad_records == ((3, "no key"), (4, ""))
    assert response.outcomes[2].message == "größe"


def test_a_message_without_bad_records_and_bad_records_without_a_message() -> None:
    frame = _response(
        t=[{"index": 0, "error": 10, "message": "too large"}, {"index": 1, "error": 32, "bad": [(0, None)]}]
    )
    first, second = produce.decode(memoryview(frame)).outcomes
    assert (first.message, first.bad_records) == ("too large", ())
    assert (second.message, second.bad_records) == ("", ((0, ""),))


def test_damaged_response_is_a_protocol_error() -> None:
    frame = _response(t=[{"index": 0, "error": 87, "bad": [(3, "no key")], "message": "m"}])
    for size in range(4, len(frame)):
        with pytest.raises(ProtocolError):
            produce.decode(memoryview(frame[:size]))
