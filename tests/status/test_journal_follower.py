"""What a watcher makes of a journal that others write to, too: restarts, other flows, words that make no sense."""

import time
from dataclasses import replace
from typing import Any

import pytest

from tests.status.samples import made_flow, made_report
from twinlog.journal.messages import SupervisorReport
from twinlog.mm2.checkpoints import Checkpoint
from twinlog.model import OffsetPair, TopicPartition
from twinlog.replicate.resume_decision import Facts
from twinlog.status import snapshot_records
from twinlog.status.flow import FlowStatus
from twinlog.status.idle_flow import partition_status
from twinlog.status.journal_follower import FlowHistory
from twinlog.status.observer import merge_inspected
from twinlog.status.partition import PartitionStatus
from twinlog.sync.group_status import GroupStatus, Names, positions

NOW = time.time()


def supervisor_report(run: str, began: int, state: str = "running", *, flow: str = "us->eu", ago: float = 0.0) -> bytes:
    return SupervisorReport(flow, run, began, int((NOW - ago) * 1000), state, tasks=2).encode()


def report(run: str, step: int, lag: int = 0) -> bytes:
    return made_report(run, NOW + step, 1, 1, step=step, lag=lag).encode()


@pytest.fixture
def follower() -> FlowHistory:
    return FlowHistory("us->eu", "us", "eu")


def test_nothing_is_known_at_first(follower: FlowHistory) -> None:
    assert (follower.status.state, follower.status.partitions) == ("silent", {})


def test_reports_of_the_run_in_a_supervisor_report_are_applied(follower: FlowHistory) -> None:
    follower.on_record(supervisor_report("a", 1))
    follower.on_record(report("a", 1))
    follower.on_record(report("other", 99))
    assert follower.status.run == "a"
    assert follower.status.total("records") == 1


def test_a_younger_run_replaces_an_older_one_whose_last_words_do_not_count(follower: FlowHistory) -> None:
    follower.on_record(supervisor_report("a", 1))
    follower.on_record(report("a", 50))
    follower.on_record(supervisor_report("b", 2, "starting"))
    assert (follower.status.run, follower.status.state, follower.status.total("records")) == ("b", "starting", 0)
    follower.on_record(supervisor_report("a", 1, "stopped"))
    follower.on_record(report("a", 51))
    assert (follower.status.run, follower.status.state) == ("b", "starting")
    follower.on_record(report("b", 3))
    assert follower.status.total("records") == 3


def test_another_flow_between_the_same_clusters_is_not_ours(follower: FlowHistory) -> None:
    follower.on_record(supervisor_report("a", 1))
    follower.on_record(supervisor_report("x", 9, flow="us->eu (audit)"))
    assert follower.status.run == "a"


def test_a_snapshot_is_used_only_while_no_partition_is_known(follower: FlowHistory) -> None:
    flow = made_flow(2, 2)
    follower.on_record(supervisor_report(flow.run, 1))
    for part in snapshot_records.encode(flow, 5, 0):
        follower.on_record(part)
    assert follower.status.total("records") == 32
    assert follower.status.state == "running", "its state is the bulletin's"
    follower.on_record(report(flow.run, 20))
    for part in snapshot_records.encode(flow, 6, 0):
        follower.on_record(part)
    assert follower.status.partitions["topic-00000-0"].counters["records"] == 20


@pytest.mark.parametrize(
    "value", [None, b"", b"{}", b"[1]", b"\xff\xfe", b"\x00frame\x00", b"\x00frame\x00junk", b'{"bulletin":7}']
)
def test_what_makes_no_sense_is_passed_over(follower: FlowHistory, value: bytes | None) -> None:
    follower.on_record(supervisor_report("a", 1))
    follower.on_record(value)
    assert follower.status.run == "a"


def test_a_run_that_seems_to_be_older_counts_when_it_is_the_only_one_that_speaks(follower: FlowHistory) -> None:
    """It is on a machine whose clock is behind."""
    follower.on_record(supervisor_report("a", 1000))
    for _ in range(3):
        follower.on_record(supervisor_report("b", 900))
    follower.on_record(supervisor_report("a", 1000))
    assert follower.status.run == "a", "both speak: the younger one counts"
    for _ in range(4):
        follower.on_record(supervisor_report("b", 900))
    assert follower.status.run == "b"


def test_a_flow_without_a_supervisor_runs_if_its_tasks_report(follower: FlowHistory) -> None:
    """Nobody writes bulletins there."""
    ours = replace(made_report("a", NOW, 1, 1, step=3), flow="us->eu")
    follower.on_record(replace(ours, flow="us->eu (audit)", run="x").encode())
    assert follower.status.state == "silent"
    follower.on_record(ours.encode())
    assert (follower.status.state, follower.status.run, follower.status.total("records")) == ("running", "a", 3)
    follower.on_record(replace(ours, run="b", time_ms=ours.time_ms + 1000).encode())
    assert (follower.status.run, follower.status.total("records")) == ("b", 3)


def test_tasks_that_end_after_their_supervisor_do_not_run(follower: FlowHistory) -> None:
    follower.on_record(supervisor_report("a", 1, "stopped"))
    follower.on_record(replace(made_report("a", NOW + 1, 1, 1, step=3), flow="us->eu").encode())
    assert follower.status.state == "stopped"
    assert follower.status.total("records") == 3


# While it is not running


def facts(**known: Any) -> Facts:
    start: dict[str, Any] = {
        "offset_pairs": [], "mm2_position": None, "source_start": 0, "source_end": 100, "target_start": 0, "target_end": 0,
        "reset": "earliest",
    }  # fmt: skip
    return Facts(**{**start, **known})


def test_the_backlog_is_counted_from_the_position_to_resume_from() -> None:
    tp = TopicPartition("orders", 3)
    fresh = partition_status(tp, "us.orders", facts(source_start=10))
    assert (fresh.position, fresh.end, fresh.lag, fresh.state) == (10, 100, 90, "waiting")
    known = partition_status(tp, "us.orders", facts(offset_pairs=[OffsetPair(95, 40)], target_end=40))
    assert (known.position, known.target, known.lag) == (95, 40, 5)
    lost = partition_status(tp, "us.orders", facts(offset_pairs=[OffsetPair(5, 5)], target_end=5, source_start=20))
    assert lost.lag == 80
    assert "deleted 15 records" in lost.error


def test_counters_are_kept_while_the_flow_is_not_running() -> None:
    status = made_flow(1, 2)
    seen = [PartitionStatus("topic-00000", number, "us.topic-00000", position=1008, end=1010) for number in range(3)]
    merge_inspected(status, seen)
    assert status.lag == 6
    assert [each.counters["records"] for each in status.partitions.values()] == [8, 8, 0]
    assert status.total("records") == 16
    assert status.lag_seconds is None, "for the third it is not known since when"
    merge_inspected(status, seen[:1])
    assert status.lag == 2
    assert status.lag_seconds is not None


def test_a_stopped_partition_keeps_its_error() -> None:
    status = made_flow(1, 1, stopped="change max.message.bytes")
    merge_inspected(status, [PartitionStatus("topic-00000", 0, "us.topic-00000", position=1008, end=1010)])
    (found,) = status.partitions.values()
    assert (found.state, found.error) == ("stopped", "change max.message.bytes")


# Groups


def test_a_group_has_a_row_for_each_partition_that_anybody_knows_of() -> None:
    names = Names(lambda topic: topic != "other", lambda topic: f"us.{topic}", lambda topic: topic.removeprefix("us."))
    source = {"app": {TopicPartition("orders", 0): (40, ""), TopicPartition("other", 0): (9, "")}, "new": {}}
    known = {TopicPartition("us.orders", 0): Checkpoint("app", "us.orders", 0, 38, 30)}
    old = {TopicPartition("us.gone", 1): Checkpoint("app", "us.gone", 1, 5, 4)}
    target = {"app": {TopicPartition("us.orders", 0): (29, "")}}
    found = positions(source, {"app": known | old}, target, names)
    assert found == [
        GroupStatus("app", "us.gone", 1, "gone", checkpoint_offset=4),
        GroupStatus("app", "us.orders", 0, "orders", 40, checkpoint_offset=30, target_offset=29),
    ]


def test_lags_of_groups_are_of_what_is_known() -> None:
    row = GroupStatus("app", "us.t", 0, "t", 40, 100, 30, 5, None, 90)
    assert (row.source_lag, row.target_lag) == (60, 60), "it has not moved yet: its checkpoint is where it would begin"
    assert GroupStatus("app", "us.t", 0, "t", 40, 100, 30, 5, 85, 90).target_lag == 5
    assert GroupStatus("app", "us.t", 0, "t").source_lag is None


def test_a_flow_without_partitions() -> None:
    status = FlowStatus("run")
    merge_inspected(status, [])
    assert (status.lag, status.partitions) == (0, {})
