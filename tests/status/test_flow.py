"""The status of a flow, from reports in any order and after any number of task restarts."""

import random
import time
from typing import Any

import pytest

from twinlog.journal.messages import Report, SupervisorReport
from twinlog.status.flow import FlowStatus, LostRange
from twinlog.status.flow_board import FlowBoard
from twinlog.status.topic import topics_of


def report(second: float, epoch: int = 1, task: int = 0, attempt: int = 0, *, run: str = "run", events: Any = (), **partitions: Any) -> Report:  # fmt: skip
    """`partitions`: `orders_3={...}` is the report of partition 3 of orders."""
    content = {}
    for name, values in partitions.items():
        topic, _, partition = name.rpartition("_")
        content[f"{topic}-{partition}"] = {
            "topic": topic,
            "partition": int(partition),
            "remote": f"us.{topic}",
            **values,
        }
    return Report(run, epoch, task, attempt, int(second * 1000), content, list(events))


def test_the_newest_word_counts() -> None:
    status = FlowStatus("run")
    status.add(report(1, orders_3={"state": "recovering", "error": "us: no leader", "position": 5, "end": 12}))
    assert [each.error for each in status.failing] == ["us: no leader"]
    assert status.lag == 7
    status.add(report(2, orders_3={"state": "running", "position": 12, "end": 12, "target": 12, "latency_ms": 2.5}))
    (found,) = status.partitions.values()
    assert (found.topic, found.partition, found.remote, found.state) == ("orders", 3, "us.orders", "running")
    assert (found.target, found.latency_ms, found.lag) == (12, 2.5, 0)
    assert not status.failing


def test_retries_of_a_stopped_partition_are_not_seen() -> None:
    """Its task retries it, and a new epoch's task begins without a position."""
    status = FlowStatus("run")
    refused = {"state": "stopped", "error": "too large", "position": 5, "end": 12, "records": 5, "recoveries": 1}
    status.add(report(1, orders_3=refused))
    (found,) = status.partitions.values()
    for second, epoch, content in (
        (2, 1, {"state": "recovering", "error": "too large", "position": 5, "end": 12, "records": 5, "recoveries": 1}),
        (3, 1, {"state": "running", "position": 5, "end": 12, "records": 5, "recoveries": 1}),
        (4, 1, {**refused, "recoveries": 3}),
        (5, 2, {"state": "recovering", "position": -1, "end": -1}),
        (6, 2, {"state": "running", "position": 5, "end": 14}),
        (7, 2, {"state": "stopped", "error": "too large", "position": 5, "end": 14, "recoveries": 2}),
        (8, 2, {"state": "recovering", "error": "no leader", "position": 5, "end": 14, "recoveries": 2}),
    ):
        status.add(report(second, epoch, orders_3=content))
        assert (found.state, found.error, found.position) == ("stopped", "too large", 5), second
        assert found.lag == status.lag == max(12, found.end) - 5
        assert status.total("recoveries") == found.counters["recoveries"] == 1
        assert [each.error for each in status.failing] == ["too large"]
    status.add(report(9, 2, orders_3={"state": "running", "position": 6, "end": 14, "records": 1, "recoveries": 3}))
    assert (found.state, found.error, found.lag) == ("running", "", 8)
    assert status.total("recoveries") == 2
    assert not status.failing


@pytest.mark.parametrize(
    "content",
    [
        {"state": "running", "position": 0, "end": 50, "records": 7},  # a new topic of that name
        {"state": "running", "position": 12, "end": 12, "records": 5},  # its records were deleted
        {"state": "running", "position": 5, "end": 5, "records": 5},  # there is nothing to copy any more
        {"state": "done", "position": 5, "end": 5, "records": 5},
    ],
)
def test_a_partition_that_has_passed_the_cause_resumes(content: dict[str, Any]) -> None:
    status = FlowStatus("run")
    status.add(report(1, orders_3={"state": "stopped", "error": "stuck", "position": 5, "end": 12, "records": 5}))
    status.add(report(2, orders_3=content))
    (found,) = status.partitions.values()
    assert (found.state, found.error, found.position) == (content["state"], "", content["position"])


def test_a_partition_that_waits_for_a_transaction_for_long_is_blocked() -> None:
    status = FlowStatus("run")
    status.add(report(100, orders_3={"state": "running", "position": 5, "end": 5}, orders_4={"state": "done"}))
    status.add(report(101, orders_3={"state": "running", "position": 5, "end": 12, "stable": 5}))
    found = status.partitions["orders-3"]
    assert (found.state, found.state_at(110), found.state_at(120)) == ("running", "running", "blocked")
    assert [each.state for each in topics_of(status.partitions.values(), 120)] == ["blocked"]
    status.add(report(121, orders_3={"state": "recovering", "error": "no", "position": 5, "end": 12, "stable": 5}))
    assert found.state_at(130) == "recovering", "an error is the better reason"


def test_an_unknown_lag_is_none() -> None:
    status = FlowStatus("run")
    status.add(report(1, orders_0={"position": -1, "end": 100}, orders_1={"position": 3, "end": -1}))
    status.add(report(2, orders_2={"position": 9, "end": 8}))  # the end is reported later than the position
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
    assert not status.failing
    assert status.total("records") == 17


def test_the_planner_has_no_partitions_and_is_in_no_epoch() -> None:
    status = FlowStatus("run")
    status.add(report(1, 5, orders_0={"records": 1}))
    status.add(report(100, -1, -1, events=[{"kind": "left out", "text": "topic x is left out"}]))
    assert status.epoch == 5
    assert list(status.partitions) == ["orders-0"]
    assert [event["text"] for event in status.take_events()] == ["topic x is left out"]
    assert status.take_events() == [], "each event is returned once"
    assert len(status.events) == 1


def test_other_runs_are_not_ours() -> None:
    status = FlowStatus("run")
    status.add(report(1, run="another", orders_0={"records": 1}, events=[{"text": "x"}]))
    assert not status.partitions
    assert not status.take_events()


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


def test_the_fields_of_a_partition() -> None:
    now = time.time()
    status = FlowStatus("run", "us->eu", "us", "eu")
    tp = {"state": "running", "lane": "fast", "position": 5, "end": 5, "start": 1, "target": 4, "records": 5}
    status.add(report(now - 2, orders_0={**tp, "latency_ms": 8.0, "latency": [2, 20.0, 8.0, 12.0]}))
    status.add(
        report(now - 1, orders_0={**tp, "age_ms": 3.0, "age": [1, 3.0, 3.0, 3.0], "lane": "rebuild", "records": 9})
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


def test_lost_ranges_have_offsets() -> None:
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
        content = {"": {"latency_p50_ms": middle, "latency_p99_ms": 10 * middle}}
        status.add(Report("run", 1, task, 0, second * 1000, content, []))
    assert (status.latency_p50_ms, status.latency_p99_ms) == (2.0, 30.0), "the first report is too old"


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


def test_a_board_finds_flows_by_name() -> None:
    one, two = FlowStatus("a", "us->eu"), FlowStatus("b", "us->eu (audit)")
    board = FlowBoard([one])
    before = board.flows
    board.show([one, two])
    assert board.flow("us->eu (audit)") is two
    assert board.flow("eu->us") is None
    assert before == [one], "a reader keeps the list that it has"


def test_running_sums_are_right_after_many_reports() -> None:
    """They are updated incrementally; compared with a full sum."""
    noise = random.Random(3)
    status = FlowStatus("run")
    for second in range(300):
        epoch = 1 + second // 40
        content: dict[str, Any] = {
            f"t_{noise.randrange(20)}": {
                "position": noise.randrange(-1, 50), "end": noise.randrange(-1, 60), "records": second % 40,
                "error": noise.choice(["", "x"]), "state": noise.choice(["running", "stopped"]),
            }
            for _ in range(5)
        }  # fmt: skip
        status.add(report(second, epoch, **content))
        there = status.partitions.values()
        assert status.lag == sum(each.lag for each in there)
        assert {id(each) for each in status.behind} == {id(each) for each in there if each.position < each.end}
        assert {id(each) for each in status.failing} == {id(each) for each in there if each.error}


def test_state_changes_are_events_for_observers() -> None:
    flow = FlowStatus("run")
    for at, (state, starts, error) in enumerate(
        [
            ("starting", 1, ""), ("running", 1, ""), ("running", 1, ""), ("retrying", 1, "no route"),
            ("retrying", 2, "no route"), ("running", 3, ""), ("paused", 3, ""), ("running", 4, ""),
        ],
        start=1,
    ):  # fmt: skip
        flow.supervisor_report(SupervisorReport("us->eu", "run", 1, at, state, error, 2, starts, None, None))
    assert [(each["kind"], each["text"], each["time"]) for each in flow.events] == [
        ("running", "running", 2),
        ("retrying", "failed, restarting: no route", 4),
        ("retrying", "failed, restarting: no route", 5),
        ("running", "running", 6),
        ("paused", "paused", 7),
        ("running", "running", 8),
    ]
    assert flow.take_events() == []


def test_topics_that_are_left_out_stay_known() -> None:
    """By what they are about: a longer list replaces the shorter one, and a keyframe carries them on."""
    status = FlowStatus("run", "us->eu")
    events = [
        {"kind": "cycle", "about": "eu", "amount": 1, "text": "1 topic is not replicated"},
        {"kind": "left out", "text": "topic x is left out"},
        {"kind": "cycle", "about": "eu", "amount": 2, "text": "2 topics are not replicated"},
    ]
    status.add(report(100, -1, -1, events=events))
    known = {"eu": "2 topics are not replicated", "topic x is left out": "topic x is left out"}
    assert status.left_out == known
    assert FlowStatus.of_head("run", "us->eu", status.head(), ()).left_out == known
