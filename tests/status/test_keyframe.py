"""A flow that is taken apart and put together again, by somebody who was not there."""

import random
import time
from dataclasses import replace

import pytest
from tests.status.made import made_flow, made_report

from twinlog.status import keyframe
from twinlog.status.flow import FlowStatus
from twinlog.status.topic import TopicStatus, topics_of
from twinlog.tracking.journal import Frame, Report


def frames(flow: FlowStatus, now_ms: int = 5, after: int = 77) -> list[Frame]:
    found = [Frame.decode(part) for part in keyframe.encode(flow, now_ms, after)]
    assert None not in found
    return [each for each in found if each is not None]


def rebuilt(parts: list[Frame]) -> FlowStatus:
    gathering = keyframe.Gathering()
    results = [gathering.add(each) for each in parts]
    assert results[:-1] == [None] * (len(parts) - 1)
    assert results[-1] is not None
    status, after = results[-1]
    assert after == 77
    return status


def alike(one: FlowStatus, other: FlowStatus) -> bool:
    now = one.reported_at
    return (
        one.head() == other.head()
        and {name: each.row(now) for name, each in one.partitions.items()}
        == {name: each.row(now) for name, each in other.partitions.items()}
        and (one.lag, one.lag_seconds_at(now), one.latency_p50_ms, one.latency_p99_ms, one.rates_at(now))
        == (other.lag, other.lag_seconds_at(now), other.latency_p50_ms, other.latency_p99_ms, other.rates_at(now))
        and _topics(one, now) == _topics(other, now)
        and [each.topic for each in one.troubled] == [each.topic for each in other.troubled]
    )


def _topics(flow: FlowStatus, now: float) -> list[TopicStatus]:
    """When one changed is the watcher's own business."""
    return [replace(each, changed_at=0.0) for each in topics_of(flow.partitions.values(), now)]


@pytest.mark.parametrize("partitions", [0, 1, 3, 2500])
def test_what_is_put_together_again_is_the_same(partitions: int) -> None:
    flow = made_flow(min(partitions, 50), max(partitions // 50, 1), lag=7, stopped="refused", lost=9)
    parts = frames(flow)
    random.Random(1).shuffle(parts)
    assert alike(flow, rebuilt(parts))


def test_reports_after_it_mean_the_same_to_both() -> None:
    flow = made_flow(4, 3)
    other = rebuilt(frames(flow))
    now = time.time()
    for step in range(9, 15):
        report = made_report(flow.run, now + step, 4, 3, step=step, lag=step, epoch=1 if step < 12 else 2)
        for status in (flow, other):
            status.add(report)
    assert alike(flow, other)
    assert flow.total("records") == other.total("records") == 4 * 3 * (11 + 14)


def test_a_partition_that_is_gone_is_still_counted() -> None:
    flow = made_flow(2, 1)
    flow.add(made_report(flow.run, time.time() + 1, 1, 1, step=1, epoch=2))
    flow.add(made_report(flow.run, time.time() + 9, 1, 1, step=2, epoch=2))
    assert len(flow.partitions) == 1
    other = rebuilt(frames(flow))
    assert other.total("records") == flow.total("records") == 8 + 8 + 2


def test_one_with_a_part_missing_is_not_used() -> None:
    flow = made_flow(1500, 2)
    parts = frames(flow)
    assert len(parts) > 2
    gathering = keyframe.Gathering()
    assert [gathering.add(each) for each in parts[:-1]] == [None] * (len(parts) - 1)
    newer = frames(flow, now_ms=6)
    assert gathering.add(newer[-1]) is None, "it is of another keyframe"
    assert gathering.add(parts[-1]) is None, "by then nobody waits for it"
    assert [gathering.add(each) for each in newer[:-1]][-1] is not None


def test_every_part_fits_into_a_record() -> None:
    flow = FlowStatus("run", "us->eu", "us", "eu")
    noise = random.Random(7)
    told = {}
    for number in range(3000):
        name = "".join(noise.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=200))
        told[f"{name}-{number}"] = {
            "topic": name, "partition": number, "remote": f"us.{name}", "error": name[::-1] * 3, "state": "stopped",
        }  # fmt: skip
    flow.add(Report("run", 1, 0, 0, 1000, told, []))
    parts = keyframe.encode(flow, 5, 77)
    assert max(map(len, parts)) < 256 * 1024
    assert alike(flow, rebuilt(frames(flow)))


@pytest.mark.parametrize(
    "head",
    [
        {},
        {"after": "x"},
        {"totals": {}},
        {"totals": None},
        {"epoch": float("inf")},
        {"executors": [[1]]},
        {"lost": [[1, 2]]},
        {"history": [["a", 1, 1, 1, 1]]},
    ],
)
def test_what_somebody_else_wrote_is_not_used(head: dict[str, object]) -> None:
    (part,) = frames(made_flow(1, 1))
    wrong = {**part.head, **head} if head else {}
    gathering = keyframe.Gathering()
    assert gathering.add(Frame("us->eu", "r", 5, 0, 1, wrong, part.rows)) is None


@pytest.mark.parametrize("row", [[], [1, 2], None, "x", [*range(30)], {"a": 1}])
def test_rows_that_are_none_are_not_used(row: object) -> None:
    (part,) = frames(made_flow(1, 1))
    assert keyframe.Gathering().add(Frame("us->eu", "r", 5, 0, 1, part.head, [row])) is None
