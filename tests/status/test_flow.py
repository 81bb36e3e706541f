"""A flow's snapshot, put together from what its tasks report, in whatever order and however often they begin anew."""

import random
import time
from typing import Any

import pytest

from twinlog.status.board import Board
from twinlog.status.flow import FlowStatus, LostRange
from twinlog.tracking.journal import Bulletin, Report


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


def test_what_a_partition_tells_of_itself() -> None:
    now = time.time()
    status = FlowStatus("run", "us->eu", "us", "eu")
    place = {"state": "running", "lane": "fast", "position": 5, "end": 5, "start": 1, "target": 4, "records": 5}
    status.add(report(now - 2, orders_0={**place, "latency_ms": 8.0, "latency": [2, 20.0, 8.0, 12.0]}))
    status.add(
        report(now - 1, orders_0={**place, "age_ms": 3.0, "age": [1, 3.0, 3.0, 3.0], "lane": "rebuild", "records": 9})
    )
    (found,) = status.partitions.values()
    assert (found.lane, found.start, found.task) == ("rebuild", 1, 0)
    assert (found.latency_ms, found.latency_min_ms, found.latency_avg_ms, found.latency_max_ms) == (8, 8, 10, 12)
    assert (found.age_ms, found.age_min_ms, found.age_avg_ms, found.age_max_ms) == (3, 3, 3, 3)
    assert found.records_per_s == pytest.approx(4, rel=0.01)
    assert found.newest_copied == pytest.approx(now - 2.008, abs=0.01)


def test_a_partition_that_rests_has_no_speed() -> None:
    now = time.time()
    status = FlowStatus("run")
    for ago, records in ((20, 0), (19, 100)):
        status.add(report(now - ago, orders_0={"records": records}))
    (found,) = status.partitions.values()
    assert found.rates_at(now - 19)[0] == pytest.approx(100)
    assert found.records_per_s == 0
    status.add(report(now, orders_0={"records": 107}))
    assert found.records_per_s == pytest.approx(7), "what comes after a rest came in the last second"


def test_topics_are_the_sums_of_their_partitions() -> None:
    now = time.time()
    status = FlowStatus("run")
    status.add(report(now - 60, a_0={"position": 5, "end": 5}))
    status.add(
        report(
            now - 30,
            a_0={"state": "running", "position": 5, "end": 7, "records": 2, "bytes": 20},
            a_1={"state": "stopped", "position": 3, "end": 3, "records": 3, "bytes": 30, "lost": 4, "error": "refused"},
            b_0={"state": "running", "position": 0, "end": 1},
        )
    )
    first, second = status.topics()
    assert (first.topic, first.remote, first.partitions, first.lag) == ("a", "us.a", 2, 2)
    assert (first.records, first.bytes, first.lost, first.state, first.error) == (5, 50, 4, "stopped", "refused")
    assert first.lag_seconds == pytest.approx(30, abs=1)
    assert (second.topic, second.lag, second.lag_seconds, second.state) == ("b", 1, None, "running")
    assert status.lag == 3
    assert status.lag_seconds is None


def test_lost_ranges_are_told_in_numbers() -> None:
    status = FlowStatus("run")
    status.add(
        report(
            1,
            events=[
                {"time": 5, "kind": "lost", "partition": "a-b-3", "amount": 10, "first": 7, "last": 16, "text": "gone"},
                {"time": 6, "kind": "foreign", "partition": "a-b-3", "amount": 1, "text": "not ours"},
                {
                    "time": 7,
                    "kind": "skipped",
                    "partition": "odd",
                    "amount": 1,
                    "first": 1,
                    "last": 1,
                    "text": "left out",
                },
            ],
        )
    )
    assert list(status.lost_ranges) == [LostRange(5, "a-b", 3, 7, 16, "gone"), LostRange(7, "", -1, 1, 1, "left out")]
    assert len(status.events) == 3


def test_executors_are_those_of_the_epoch() -> None:
    status = FlowStatus("run")
    for epoch, task, host in ((1, 0, "a:1"), (1, 1, "b:2"), (2, 0, "c:3"), (1, 1, "b:2")):
        status.add(Report("run", epoch, task, 0, 1000, {}, [], host=host))
    assert status.executors == {0: "c:3"}


def test_latency_of_several_tasks_is_that_of_the_middle_and_of_the_slowest() -> None:
    status = FlowStatus("run")
    for task, (second, middle) in enumerate(((100, 900.0), (119, 1.0), (120, 3.0), (120, 2.0))):
        told = {"": {"latency_p50_ms": middle, "latency_p99_ms": 10 * middle}}
        status.add(Report("run", 1, task, 0, second * 1000, told, []))
    assert (status.latency_p50_ms, status.latency_p99_ms) == (2.0, 30.0), "the first was heard of long ago"


def test_history_has_a_point_about_every_five_seconds() -> None:
    status = FlowStatus("run")
    for second in range(1000, 1061):
        status.add(report(second, orders_0={"position": 0, "end": second - 1000, "records": 10 * second}))
    points = status.history.points()
    assert [point[0] for point in points] == [*range(1000, 1061, 5)]
    assert [point[1] for point in points] == [*range(0, 61, 5)]
    assert points[-1][3] == pytest.approx(10)


def test_readers_in_other_threads_are_not_disturbed() -> None:
    """Whoever goes through the partitions sees those that there were when he began."""
    status = FlowStatus("run")
    status.add(report(1, orders_0={"records": 1}))
    seen = iter(status.partitions.values())
    status.add(report(2, orders_1={"records": 1}))
    assert [each.partition for each in seen] == [0]
    assert len(status.partitions) == 2


def test_a_board_finds_flows_by_their_names() -> None:
    one, two = FlowStatus("a", "us->eu"), FlowStatus("b", "us->eu (audit)")
    board = Board([one])
    before = board.flows
    board.show([one, two])
    assert board.flow("us->eu (audit)") is two
    assert board.flow("eu->us") is None
    assert before == [one], "whoever reads it goes on with what he has"


def test_running_sums_are_right_after_many_reports() -> None:
    """They are kept, not added up anew: held against the long way."""
    noise = random.Random(3)
    status = FlowStatus("run")
    for second in range(300):
        epoch = 1 + second // 40
        told: dict[str, Any] = {
            f"t_{noise.randrange(20)}": {
                "position": noise.randrange(-1, 50), "end": noise.randrange(-1, 60), "records": second % 40,
                "error": noise.choice(["", "x"]), "state": noise.choice(["running", "stopped"]),
            }
            for _ in range(5)
        }  # fmt: skip
        status.add(report(second, epoch, **told))
        there = status.partitions.values()
        assert status.lag == sum(each.lag for each in there)
        assert {id(each) for each in status.behind} == {id(each) for each in there if each.position < each.end}
        assert {id(each) for each in status.troubled} == {id(each) for each in there if each.error}


def test_what_becomes_of_a_flow_is_an_event_for_those_who_look_later() -> None:
    flow = FlowStatus("run")
    for at, (state, starts, error) in enumerate(
        [
            ("starting", 1, ""), ("running", 1, ""), ("running", 1, ""), ("retrying", 1, "no route"),
            ("retrying", 2, "no route"), ("running", 3, ""), ("paused", 3, ""), ("running", 4, ""),
        ],
        start=1,
    ):  # fmt: skip
        flow.bulletin(Bulletin("us->eu", "run", 1, at, state, error, 2, starts, None, None))
    assert [(each["kind"], each["text"], each["time"]) for each in flow.events] == [
        ("running", "it runs", 2),
        ("retrying", "it has ended and starts again: no route", 4),
        ("retrying", "it has ended and starts again: no route", 5),
        ("running", "it runs", 6),
        ("paused", "it is paused", 7),
        ("running", "it runs", 8),
    ]
    assert flow.news() == []
