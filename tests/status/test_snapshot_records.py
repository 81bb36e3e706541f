"""Snapshots of a flow, encoded and assembled."""

import json
import random
import time
from dataclasses import replace

import pytest

from tests.status.samples import made_flow, made_report
from twinlog.journal.messages import Report, SnapshotPart
from twinlog.status import snapshot_records
from twinlog.status.flow import FlowStatus
from twinlog.status.partition import PartitionStatus
from twinlog.status.topic import TopicStatus, topics_of


def frames(flow: FlowStatus, now_ms: int = 5, after: int = 77) -> list[SnapshotPart]:
    found = [SnapshotPart.decode(part) for part in snapshot_records.encode(flow, now_ms, after)]
    assert None not in found
    return [each for each in found if each is not None]


def rebuilt(parts: list[SnapshotPart]) -> FlowStatus:
    assembler = snapshot_records.SnapshotAssembler()
    results = [assembler.add(each) for each in parts]
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
        and [each.topic for each in one.failing] == [each.topic for each in other.failing]
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
    assembler = snapshot_records.SnapshotAssembler()
    assert [assembler.add(each) for each in parts[:-1]] == [None] * (len(parts) - 1)
    newer = frames(flow, now_ms=6)
    assert assembler.add(newer[-1]) is None, "it is of another keyframe"
    assert assembler.add(parts[-1]) is None, "its snapshot was dropped"
    assert [assembler.add(each) for each in newer[:-1]][-1] is not None


def test_every_part_fits_into_a_record() -> None:
    flow = FlowStatus("run", "us->eu", "us", "eu")
    noise = random.Random(7)
    content = {}
    for number in range(3000):
        name = "".join(noise.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=200))
        content[f"{name}-{number}"] = {
            "topic": name, "partition": number, "remote": f"us.{name}", "error": name[::-1] * 3, "state": "stopped",
        }  # fmt: skip
    flow.add(Report("run", 1, 0, 0, 1000, content, []))
    parts = snapshot_records.encode(flow, 5, 77)
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
def test_forged_snapshots_are_ignored(head: dict[str, object]) -> None:
    (part,) = frames(made_flow(1, 1))
    wrong = {**part.head, **head} if head else {}
    assembler = snapshot_records.SnapshotAssembler()
    assert assembler.add(SnapshotPart("us->eu", "r", 5, 0, 1, wrong, part.rows)) is None


@pytest.mark.parametrize("row", [[], [1, 2], None, "x", [*range(30)], {"a": 1}])
def test_rows_that_are_none_are_not_used(row: object) -> None:
    (part,) = frames(made_flow(1, 1))
    assert snapshot_records.SnapshotAssembler().add(SnapshotPart("us->eu", "r", 5, 0, 1, part.head, [row])) is None


def test_the_row_of_a_partition_has_the_same_order_in_every_version() -> None:
    """Observers may be older or newer than the process that runs the flow."""
    counters = [5, 500, 2, 1, 3, 4, 6, 7, 1, 1, 40, 50]
    row = [
        "orders", 3, "us.orders", "stopped", "fast", 10, 12, 11, 1, 8, 20, "refused", 1001.0, 4.5, 2.5, 2, 1, 1000.5,
        counters, [2, 1, 0], counters, [[1000.0, 12]], [1000.0, 5, 500], [1001.0, 5, 500], [[100, 4, 18.0, 4.0, 5.0]],
        [[100, 4, 10.0, 2.0, 3.0]], [["source", 1000.0]], [10, 5],
    ]  # fmt: skip
    status = PartitionStatus.of_row(row)
    assert (status.topic, status.partition, status.remote, status.state) == ("orders", 3, "us.orders", "stopped")
    assert (status.position, status.end, status.stable, status.start, status.target) == (10, 12, 11, 1, 8)
    assert (status.until, status.error, status.error_since) == (20, "refused", 1001.0)
    assert (status.latency_ms, status.age_ms, status.newest_copied) == (4.5, 2.5, 1000.5)
    assert (status.lane, status.epoch, status.task) == ("fast", 2, 1)
    assert status.counters == {
        "records": 5, "bytes": 500, "batches": 2, "rebuilt": 1, "lost": 3, "foreign": 4, "duplicates": 6, "skipped": 7,
        "recoveries": 1, "stalls": 1, "source_throttled_ms": 40, "target_throttled_ms": 50,
    }  # fmt: skip
    assert json.loads(json.dumps(status.row(1001.0))) == row
    row[10] = row[14] = row[17] = None
    status = PartitionStatus.of_row(row)
    assert (status.until, status.age_ms, status.newest_copied) == (None, None, None)
    assert json.loads(json.dumps(status.row(1001.0))) == row
