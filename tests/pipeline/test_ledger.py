"""What a task tells of its partitions: each thing once, and in few words."""

from typing import Any, cast

from twinlog.model import TopicPartition
from twinlog.pipeline.ledger import Ledger, told
from twinlog.pipeline.partition import Partition, Piece
from twinlog.pipeline.recovery import Finding
from twinlog.pipeline.resuming import lost_offsets
from twinlog.tracking.positions import Trouble


def partition() -> Partition:
    return Partition(TopicPartition("orders", 3), TopicPartition("us.orders", 3))


def piece(first: int, timestamp: int, *, rebuilt: bool = False) -> Piece:
    return Piece(memoryview(b""), None, first, first, 1, timestamp, 0, rebuilt=rebuilt)


def ledger() -> Ledger:
    """One that keeps its books and writes nothing."""
    return Ledger(cast("Any", None), cast("Any", None))


def carried(book: Ledger, p: Partition, *pieces: Piece) -> dict[str, Any]:
    book.fetched(p, pieces)
    for each in pieces:
        p.counters.batches += 1
        p.counters.rebuilt += each.rebuilt
        book.acked(p, each, each.first)
    return told(p)


def test_times_are_told_once_and_belong_to_what_came_since() -> None:
    book, p = ledger(), partition()
    first = carried(book, p, piece(0, 1000), piece(1, 1_000_000))
    count, total, least, most = first["latency"]
    assert count == 2
    assert least < most
    assert 2 * least - 1 <= total <= 2 * most + 1
    assert first["latency_ms"] == least, "of the newest batch, which is the younger one"
    assert first["age"][0] == 2
    again = told(p)
    assert not {"latency", "latency_ms", "age", "age_ms"} & set(again)
    assert carried(book, p, piece(2, 3000))["latency"][0] == 1


def test_records_without_a_time_have_no_latency() -> None:
    book, p = ledger(), partition()
    assert "latency" not in carried(book, p, piece(0, -1))
    assert p.latency_ms == 0


def test_the_lane_is_that_of_the_newest_batches() -> None:
    book, p = ledger(), partition()
    assert told(p)["lane"] == ""
    assert carried(book, p, piece(0, 1))["lane"] == "fast"
    assert carried(book, p, piece(1, 1), piece(2, 1, rebuilt=True), piece(3, 1))["lane"] == "rebuild"
    assert told(p)["lane"] == "rebuild", "nothing came since"
    assert carried(book, p, piece(4, 1))["lane"] == "fast"


def test_an_open_transaction_is_told() -> None:
    p = partition()
    p.high_watermark = p.last_stable = 9
    assert "stable" not in told(p)
    p.last_stable = 4
    assert told(p)["stable"] == 4


def test_offsets_of_what_is_lost_are_told_in_numbers() -> None:
    def found(trouble: Trouble | None, position: int, amount: int) -> Finding:
        finding = Finding(cast("Any", None))
        finding.trouble, finding.position, finding.amount = trouble, position, amount
        return finding

    assert lost_offsets(found(Trouble.LOST, 50, 10)) == (40, 49)
    assert lost_offsets(found(Trouble.TRUNCATED, 50, 10)) == (50, 59)
    assert lost_offsets(found(Trouble.RECREATED, 0, 0)) is None
    assert lost_offsets(found(None, 5, 5)) is None
