"""A flow's snapshot, put together from what its tasks report, in whatever order and however often they begin anew."""

import time
from typing import Any

import pytest

from twinlog.status.flow import FlowStatus
from twinlog.tracking.journal import Report


def report(second: float, epoch: int = 1, task: int = 0, attempt: int = 0, *, run: str = "run", events: Any = (), **partitions: Any) -> Report:  # fmt: skip
    """`partitions`: `orders_3={...}` is what is told of partition 3 of orders."""
    content = {}
    for name, told in partitions.items():
        topic, _, partition = name.rpartition("_")
        content[f"{topic}-{partition}"] = {"topic": topic, "partition": int(partition), "remote": f"us.{topic}", **told}
    return Report(run, epoch, task, attempt, int(second * 1000), content, list(events))


def test_the_newest_word_counts() -> None:
    status = FlowStatus("run")
    status.add(report(1, orders_3={"state": "recovering", "error": "us: no leader", "position": 5, "end": 12}))
    assert [each.error for each in status.troubled] == ["us: no leader"]
    assert status.lag == 7
    status.add(report(2, orders_3={"state": "running", "position": 12, "end": 12, "target": 12, "latency_ms": 2.5}))
    (found,) = status.partitions.values()
    assert (found.topic, found.partition, found.remote, found.state) == ("orders", 3, "us.orders", "running")
    assert (found.target, found.latency_ms, found.lag) == (12, 2.5, 0)
    assert not status.troubled


def test_a_lag_that_nobody_knows_is_none() -> None:
    status = FlowStatus("run")
    status.add(report(1, orders_0={"position": -1, "end": 100}, orders_1={"position": 3, "end": -1}))
    status.add(report(2, orders_2={"position": 9, "end": 8}))  # the end is told later than the position
    assert status.lag == 0


def test_counters_add_up_over_epochs_and_attempts() -> None:
    """Each task counts from zero."""
    status = FlowStatus("run")
    for epoch, attempt, records in ((1, 0, 10), (1, 0, 25), (1, 1, 5), (2, 0, 0), (2, 0, 7)):
        status.add(report(epoch, epoch, attempt=attempt, orders_0={"records": records, "bytes": 100 * records}))
    assert status.total("records") == 25 + 5 + 7
    assert status.total("bytes") == 3700
    assert status.total("lost") == 0


def test_a_partition_that_moves_to_another_task_is_counted_there() -> None:
    status = FlowStatus("run")
    status.add(report(1, 1, task=0, orders_0={"records": 10}))
    status.add(report(2, 2, task=1, orders_0={"records": 3}))
    assert status.total("records") == 13
    assert len(status.partitions) == 1


def test_what_no_task_has_any_more_is_forgotten_but_not_what_it_carried() -> None:
    status = FlowStatus("run")
    status.add(report(1, 1, orders_0={"records": 10}, gone_0={"records": 5, "error": "topic gone is not there"}))
    status.add(report(2, 2, orders_0={"records": 1}))
    assert len(status.partitions) == 2, "its task may just be slower than the others"
    status.add(report(9, 2, orders_0={"records": 2}))
    assert list(status.partitions) == ["orders-0"]
    assert not status.troubled
    assert status.total("records") == 17


def test_the_planner_has_no_partitions_and_is_in_no_epoch() -> None:
    status = FlowStatus("run")
    status.add(report(1, 5, orders_0={"records": 1}))
    status.add(report(100, -1, -1, events=[{"kind": "left out", "text": "topic x is left out"}]))
    assert status.epoch == 5
    assert list(status.partitions) == ["orders-0"]
    assert [event["text"] for event in status.news()] == ["topic x is left out"]
    assert status.news() == [], "news are told once"
    assert len(status.events) == 1


def test_other_runs_are_not_ours() -> None:
    status = FlowStatus("run")
    status.add(report(1, run="another", orders_0={"records": 1}, events=[{"text": "x"}]))
    assert not status.partitions
    assert not status.news()


def test_latency_is_of_the_newest_report() -> None:
    status = FlowStatus("run")
    status.add(Report("run", 1, 0, 0, 1, {"": {"latency_p50_ms": 1.5, "latency_p99_ms": 9.0}}, []))
    assert (status.latency_p50_ms, status.latency_p99_ms) == (1.5, 9.0)
    assert not status.partitions


def test_rates_are_of_late() -> None:
    now = time.time()
    status = FlowStatus("run")
    assert status.rates() == (0.0, 0.0)
    for ago in range(20, -1, -1):  # it was slow, then 1000 a second
        records = 1000 * (10 - ago) if ago < 10 else 0
        status.add(report(now - ago, orders_0={"records": records, "bytes": 100 * records}))
    assert list(status.rates()) == pytest.approx([1000, 100_000], rel=0.01)


def test_rates_end_with_the_reports() -> None:
    past = time.time() - 60
    status = FlowStatus("run")
    for second in range(5):
        status.add(report(past + second, orders_0={"records": 1000 * second}))
    assert status.rates() == (0.0, 0.0)
