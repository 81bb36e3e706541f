"""What a watcher makes of a journal that others write to, too: restarts, other flows, words that make no sense."""

import time
from dataclasses import replace
from typing import Any

import pytest
from tests.status.made import made_flow, made_report

from twinlog.model import Anchor, TopicPartition
from twinlog.status import keyframe
from twinlog.status.flow import FlowStatus
from twinlog.status.observer import stand
from twinlog.status.partition import PartitionStatus
from twinlog.status.standing import stand as stand_by_facts
from twinlog.status.watch import Follower
from twinlog.tracking.checkpoints import Checkpoint
from twinlog.tracking.journal import Bulletin
from twinlog.tracking.positions import Facts
from twinlog.upkeep.group_look import GroupStatus, Names, positions

NOW = time.time()


def bulletin(run: str, began: int, state: str = "running", *, flow: str = "us->eu", ago: float = 0.0) -> bytes:
    return Bulletin(flow, run, began, int((NOW - ago) * 1000), state, tasks=2).encode()


def report(run: str, step: int, lag: int = 0) -> bytes:
    return made_report(run, NOW + step, 1, 1, step=step, lag=lag).encode()


@pytest.fixture
def follower() -> Follower:
    return Follower("us->eu", "us", "eu")


def test_nothing_is_known_at_first(follower: Follower) -> None:
    assert (follower.status.state, follower.status.partitions) == ("silent", {})


def test_reports_of_the_run_that_a_bulletin_names_are_heard(follower: Follower) -> None:
    follower.hear(bulletin("a", 1))
    follower.hear(report("a", 1))
    follower.hear(report("other", 99))
    assert follower.status.run == "a"
    assert follower.status.total("records") == 1


def test_a_younger_run_replaces_an_older_one_whose_last_words_do_not_count(follower: Follower) -> None:
    follower.hear(bulletin("a", 1))
    follower.hear(report("a", 50))
    follower.hear(bulletin("b", 2, "starting"))
    assert (follower.status.run, follower.status.state, follower.status.total("records")) == ("b", "starting", 0)
    follower.hear(bulletin("a", 1, "stopped"))
    follower.hear(report("a", 51))
    assert (follower.status.run, follower.status.state) == ("b", "starting")
    follower.hear(report("b", 3))
    assert follower.status.total("records") == 3


def test_another_flow_between_the_same_clusters_is_not_ours(follower: Follower) -> None:
    follower.hear(bulletin("a", 1))
    follower.hear(bulletin("x", 9, flow="us->eu (audit)"))
    assert follower.status.run == "a"


def test_a_keyframe_helps_who_knows_nothing_and_disturbs_nobody_else(follower: Follower) -> None:
    flow = made_flow(2, 2)
    follower.hear(bulletin(flow.run, 1))
    for part in keyframe.encode(flow, 5, 0):
        follower.hear(part)
    assert follower.status.total("records") == 32
    assert follower.status.state == "running", "its state is the bulletin's"
    follower.hear(report(flow.run, 20))
    for part in keyframe.encode(flow, 6, 0):
        follower.hear(part)
    assert follower.status.partitions["topic-00000-0"].counters["records"] == 20


@pytest.mark.parametrize(
    "value", [None, b"", b"{}", b"[1]", b"\xff\xfe", b"\x00frame\x00", b"\x00frame\x00junk", b'{"bulletin":7}']
)
def test_what_makes_no_sense_is_passed_over(follower: Follower, value: bytes | None) -> None:
    follower.hear(bulletin("a", 1))
    follower.hear(value)
    assert follower.status.run == "a"


def test_a_run_that_seems_to_be_older_counts_when_it_is_the_only_one_that_speaks(follower: Follower) -> None:
    """It is on a machine whose clock is behind."""
    follower.hear(bulletin("a", 1000))
    for _ in range(3):
        follower.hear(bulletin("b", 900))
    follower.hear(bulletin("a", 1000))
    assert follower.status.run == "a", "both speak: the younger one counts"
    for _ in range(4):
        follower.hear(bulletin("b", 900))
    assert follower.status.run == "b"


def test_a_flow_in_somebodys_own_spark_is_told_by_its_tasks(follower: Follower) -> None:
    """Nobody writes bulletins there."""
    ours = replace(made_report("a", NOW, 1, 1, step=3), flow="us->eu")
    follower.hear(replace(ours, flow="us->eu (audit)", run="x").encode())
    assert follower.status.state == "silent"
    follower.hear(ours.encode())
    assert (follower.status.state, follower.status.run, follower.status.total("records")) == ("running", "a", 3)
    follower.hear(replace(ours, run="b", time_ms=ours.time_ms + 1000).encode())
    assert (follower.status.run, follower.status.total("records")) == ("b", 3)


def test_tasks_that_end_after_their_supervisor_said_goodbye_do_not_run(follower: Follower) -> None:
    follower.hear(bulletin("a", 1, "stopped"))
    follower.hear(replace(made_report("a", NOW + 1, 1, 1, step=3), flow="us->eu").encode())
    assert follower.status.state == "stopped"
    assert follower.status.total("records") == 3


# When nobody runs it


def facts(**known: Any) -> Facts:
    start: dict[str, Any] = {
        "anchors": [], "mm2_offset": None, "source_start": 0, "source_end": 100, "target_start": 0, "target_end": 0,
        "reset": "earliest",
    }  # fmt: skip
    return Facts(**{**start, **known})


def test_what_waits_is_counted_from_where_it_would_go_on() -> None:
    place = TopicPartition("orders", 3)
    fresh = stand_by_facts(place, "us.orders", facts(source_start=10))
    assert (fresh.position, fresh.end, fresh.lag, fresh.state) == (10, 100, 90, "waiting")
    known = stand_by_facts(place, "us.orders", facts(anchors=[Anchor(95, 40)], target_end=40))
    assert (known.position, known.target, known.lag) == (95, 40, 5)
    lost = stand_by_facts(place, "us.orders", facts(anchors=[Anchor(5, 5)], target_end=5, source_start=20))
    assert lost.lag == 80
    assert "has deleted 15 records" in lost.error


def test_what_was_counted_is_still_so_when_nobody_runs_it() -> None:
    status = made_flow(1, 2)
    seen = [PartitionStatus("topic-00000", number, "us.topic-00000", position=1008, end=1010) for number in range(3)]
    stand(status, seen)
    assert status.lag == 6
    assert [each.counters["records"] for each in status.partitions.values()] == [8, 8, 0]
    assert status.total("records") == 16
    assert status.lag_seconds is None, "of the third nobody knows since when it waits"
    stand(status, seen[:1])
    assert status.lag == 2
    assert status.lag_seconds is not None


def test_a_partition_that_was_stopped_still_says_why() -> None:
    status = made_flow(1, 1, stopped="change max.message.bytes")
    stand(status, [PartitionStatus("topic-00000", 0, "us.topic-00000", position=1008, end=1010)])
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


def test_an_empty_flow_stands_still() -> None:
    status = FlowStatus("run")
    stand(status, [])
    assert (status.lag, status.partitions) == (0, {})
