"""Task reports: each change once, in limited space."""

from typing import Any, cast

from twinlog.journal.messages import Report
from twinlog.model import TopicPartition
from twinlog.replicate.partition import OutboundBatch, Partition
from twinlog.replicate.progress import ProgressTracker, report_of, split
from twinlog.replicate.recovery import RecoveryResult
from twinlog.replicate.resume import lost_offsets
from twinlog.replicate.resume_decision import LogProblem


def partition() -> Partition:
    return Partition(TopicPartition("orders", 3), TopicPartition("us.orders", 3))


def batch(first: int, timestamp: int, *, rebuilt: bool = False) -> OutboundBatch:
    return OutboundBatch(memoryview(b""), None, first, first, 1, timestamp, 0, rebuilt=rebuilt)


def progress() -> ProgressTracker:
    """A tracker that writes nothing."""
    return ProgressTracker(cast("Any", None), cast("Any", None))


def copied(tracker: ProgressTracker, p: Partition, *outbound: OutboundBatch) -> dict[str, Any]:
    tracker.fetched(p, outbound)
    for each in outbound:
        p.report.counters.batches += 1
        p.report.counters.rebuilt += each.rebuilt
        tracker.acked(p, each, each.first)
    return report_of(p)


def test_samples_are_reported_once() -> None:
    tracker, p = progress(), partition()
    first = copied(tracker, p, batch(0, 1000), batch(1, 1_000_000))
    count, total, least, most = first["latency"]
    assert count == 2
    assert least < most
    assert 2 * least - 1 <= total <= 2 * most + 1
    assert first["latency_ms"] == least, "of the newest batch"
    assert first["age"][0] == 2
    again = report_of(p)
    assert not {"latency", "latency_ms", "age", "age_ms"} & set(again)
    assert copied(tracker, p, batch(2, 3000))["latency"][0] == 1


def test_records_without_a_time_have_no_latency() -> None:
    tracker, p = progress(), partition()
    assert "latency" not in copied(tracker, p, batch(0, -1))
    assert p.report.latency_ms == 0


def test_the_path_is_that_of_the_newest_batches() -> None:
    tracker, p = progress(), partition()
    assert report_of(p)["lane"] == ""
    assert copied(tracker, p, batch(0, 1))["lane"] == "fast"
    assert copied(tracker, p, batch(1, 1), batch(2, 1, rebuilt=True), batch(3, 1))["lane"] == "rebuild"
    assert report_of(p)["lane"] == "rebuild", "no batches since"
    assert copied(tracker, p, batch(4, 1))["lane"] == "fast"


def test_a_report_of_many_partitions_is_split_into_records_that_a_broker_takes() -> None:
    content = {
        f"{'t' * 200}-{n}": report_of(Partition(TopicPartition("t" * 200, n), TopicPartition("r" * 200, n)))
        for n in range(5000)
    }
    for one in content.values():
        one["error"] = "e" * 300
    events = [{"time": 1, "kind": "lost", "amount": 1, "text": "x" * 500} for _ in range(2000)]
    parts = split(content, events)
    assert {name: one for some, _ in parts for name, one in some.items()} == content
    assert [event for _, some in parts for event in some] == events
    for some, about in parts:
        report = Report("run", 1, 0, 0, 1, some, about)
        assert len(report.encode()) < 900_000
    assert split({}, []) == [({}, [])]


def test_an_open_transaction_is_reported() -> None:
    p = partition()
    p.source.high_watermark = p.source.last_stable = 9
    assert "stable" not in report_of(p)
    p.source.last_stable = 4
    assert report_of(p)["stable"] == 4


def test_lost_offsets_are_reported() -> None:
    def found(problem: LogProblem | None, position: int, amount: int) -> RecoveryResult:
        result = RecoveryResult(cast("Any", None))
        result.problem, result.position, result.amount = problem, position, amount
        return result

    assert lost_offsets(found(LogProblem.LOST, 50, 10)) == (40, 49)
    assert lost_offsets(found(LogProblem.TRUNCATED, 50, 10)) == (50, 59)
    assert lost_offsets(found(LogProblem.RECREATED, 0, 0)) is None
    assert lost_offsets(found(None, 5, 5)) is None


def test_the_latency_of_late_read_acknowledgements_is_not_measured() -> None:
    tracker, p = progress(), partition()
    tracker.measures_latency = False
    assert "latency" not in copied(tracker, p, batch(0, 1000))
    assert p.report.measure_latency_at == 0, "the next one is awaited"
    tracker.measures_latency = True
    assert copied(tracker, p, batch(1, 1000))["latency"][0] == 1
    assert p.report.measure_latency_at > 0
