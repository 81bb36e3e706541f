"""Malformed records in internal topics must not stop a flow."""

import json
from typing import Any

import pytest

from twinlog.journal.messages import Command, Report
from twinlog.mm2 import source_offsets
from twinlog.mm2.source_offsets import PositionEntry, Producers, SourceOffset, StoredPosition
from twinlog.status.flow import FlowStatus

ID = "00000000-0000-0000-0000-000000000007"
FAR = [2**63, 2**63 - 1, 2**64, 10**300, -2, -(2**63)]


def _cursor(**lies: Any) -> bytes:
    usual = {"source": 1, "target": 2, "topic_id": ID, "leader_epoch": 3, "producer_id": 4, "producer_epoch": 5}
    return json.dumps({**usual, "sequence": 6, **lies}).encode()


def test_as_it_should_be() -> None:
    assert StoredPosition.decode(_cursor()) == StoredPosition(1, 2, ID, 3, 4, 5, 6)


@pytest.mark.parametrize("name", ["source", "target", "leader_epoch", "producer_id", "producer_epoch", "sequence"])
@pytest.mark.parametrize("number", FAR)
def test_numbers_that_no_request_has_room_for_are_not_taken(name: str, number: int) -> None:
    assert StoredPosition.decode(_cursor(**{name: number})) is None


@pytest.mark.parametrize(("name", "number"), [("leader_epoch", 2**31), ("producer_epoch", 2**15), ("sequence", 2**31)])
def test_nor_are_smaller_ones_that_are_too_large_for_their_field(name: str, number: int) -> None:
    assert StoredPosition.decode(_cursor(**{name: number})) is None
    assert StoredPosition.decode(_cursor(**{name: number - 1})) is not None


@pytest.mark.parametrize("number", FAR)
def test_nor_are_those_of_connects_records(number: int) -> None:
    key = source_offsets.key("MirrorSourceConnector", "us", "t", 3)
    assert isinstance(source_offsets.parse(key, source_offsets.value(7)), SourceOffset)
    assert source_offsets.parse(key, json.dumps({"offset": number}).encode()) is None
    for made in (
        source_offsets.key("c", "us", "t", number),
        source_offsets.position_key("us", "eu", "t", number, "us.t"),
    ):
        assert source_offsets.parse(made, None) is None
    assert isinstance(
        source_offsets.parse(source_offsets.position_key("us", "eu", "t", 3, "us.t"), None), PositionEntry
    )
    assert Producers.decode(json.dumps({"ids": [1, number]}).encode()) is None


def test_a_journal_nested_without_end() -> None:
    for content in (b"[" * 100_000, b'{"a":' * 100_000):
        assert Command.decode(content) is None
        assert Report.decode(content) is None


def _report(**lies: Any) -> bytes:
    usual = {
        "run": "r",
        "epoch": 1,
        "task": 0,
        "attempt": 0,
        "time_ms": 5,
        "partitions": {},
        "events": [],
        "final": False,
    }
    return json.dumps({**usual, **lies}).encode()


@pytest.mark.parametrize(
    "lies",
    [
        {"partitions": {"t-0": []}},
        {"partitions": {"t-0": {"position": "x"}}},
        {"partitions": {"t-0": {"position": None}}},
        {"partitions": {"t-0": {"partition": "t-0"}}},
        {"partitions": {"t-0": {"records": float("inf")}}},
        {"partitions": {"t-0": {"latency_ms": float("nan")}}},
        {"partitions": {"t-0": {"end": 10**400}}},
        {"partitions": {"": {"latency_p50_ms": "fast"}}},
        {"partitions": {"": 7}},
        {"events": ["x"]},
        {"events": [{"amount": "many"}]},
        {"time_ms": 10**400},
        {"epoch": 10**400},
    ],
)
def test_a_report_that_cannot_be_added_up_is_passed_over(lies: dict[str, Any]) -> None:
    assert Report.decode(_report(**lies)) is None


def test_whatever_is_taken_can_be_added_up() -> None:
    status = FlowStatus("r")
    content = {"t-0": {"position": 2**62, "end": 1.5, "new": ["something"], "records": -5}, "": {}}
    report = Report.decode(_report(partitions=content, events=[{"text": 7, "time": 1}]))
    assert report is not None
    status.add(report)
    assert status.lag == 0
    status.rates()
