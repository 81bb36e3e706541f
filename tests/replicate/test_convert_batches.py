"""Conversion of fetched records: what is dropped, what is rebuilt, and which offsets each batch covers."""

import time

import pytest
from crc32c import crc32c

from lab import batches
from lab.batches import Record
from twinlog.errors import ReplicationError
from twinlog.kafka.connection import Buffer, Pool
from twinlog.kafka.fetch import FetchedPartition
from twinlog.model import TopicPartition
from twinlog.replicate.coalesce import LARGE, Coalescer
from twinlog.replicate.convert_batches import ConversionRules, convert_batches
from twinlog.replicate.partition import OutboundBatch, Partition, SourceSide, TargetSide

TP = TopicPartition("t", 0)
COALESCER = Coalescer(Pool(max_idle=1 << 20))
TRANSACTIONAL, CONTROL = 0x10, 0x20


def _batch(
    base: int, count: int = 5, *, epoch: int = 0, producer: int = -1, attributes: int = 0, size: int = 5000
) -> bytes:
    now = int(time.time() * 1000)
    records = [Record(now, b"%d" % (base + each), bytes(size)) for each in range(count)]
    made = batches.encode(
        records, producer=(producer, 0, 0) if producer >= 0 else batches.NO_PRODUCER, attributes=attributes
    )
    return base.to_bytes(8) + made[8:12] + epoch.to_bytes(4) + made[16:]


def _convert(
    partition: Partition, *log: bytes, aborted: list[tuple[int, int]] | None = None, **rules: bool
) -> list[OutboundBatch]:
    data = bytearray(b"".join(log))
    part = FetchedPartition(TP, 0, 0, 0, 0, aborted or [], -1, memoryview(data), None)
    batches = convert_batches(
        partition.source,
        partition.target.limits,
        part,
        Buffer(data, len(data), None),
        ConversionRules(**rules),
        COALESCER,
    )
    if not batches:
        partition.nothing_to_copy_before(partition.source.position)
    return batches


def _at(position: int) -> Partition:
    return Partition(TP, TP, source=SourceSide(position=position), target=TargetSide(acked_position=position))


def _spans(outbound: list[OutboundBatch]) -> list[tuple[int, int, int]]:
    return [(batch.first, batch.last, batch.next_offset) for batch in outbound]


def test_single_and_large_batches_are_forwarded_unchanged() -> None:
    partition = _at(5)
    single = _batch(5)
    (batch,) = _convert(partition, single)
    assert bytes(batch.view) == single
    log = [_batch(10, size=LARGE // 5), _batch(15, size=LARGE // 5)]
    outbound = _convert(partition, *log)
    assert [bytes(batch.view) for batch in outbound] == log
    assert _spans(outbound) == [(10, 14, 15), (15, 19, 20)]
    assert partition.source.position == 20


def test_a_truncated_last_batch_is_fetched_again() -> None:
    partition = _at(10)
    assert _spans(_convert(partition, _batch(10), _batch(15)[:-1])) == [(10, 14, 15)]
    assert partition.source.position == 15


def test_a_start_in_the_middle_of_a_batch() -> None:
    partition = _at(12)
    (batch,) = _convert(partition, _batch(10))
    assert (batch.first, batch.last, batch.count, batch.rebuilt) == (12, 14, 3, True)


def test_markers_and_aborted_records_only_move_the_position() -> None:
    partition = _at(0)
    log = [
        _batch(0, producer=7, attributes=TRANSACTIONAL),
        _batch(5, producer=8, attributes=TRANSACTIONAL),
        _batch(10, 1, producer=7, attributes=TRANSACTIONAL | CONTROL),
        _batch(11, producer=7, attributes=TRANSACTIONAL),
        _batch(16, 1, producer=8, attributes=TRANSACTIONAL | CONTROL),
    ]
    outbound = _convert(partition, *log, aborted=[(7, 0)])
    assert _spans(outbound) == [(5, 9, 10), (11, 15, 17)]  # the last one covers the marker after it
    assert partition.source.position == 17
    assert partition.target.acked_position == 0

    uncommitted = _at(0)
    assert _spans(_convert(uncommitted, *log, aborted=[(7, 0)], read_committed=False)) == [(0, 15, 17)]


def test_offsets_that_are_not_copied_are_covered_by_the_last_pending_batch() -> None:
    marker = _batch(10, 1, producer=7, attributes=TRANSACTIONAL | CONTROL)
    idle = _at(10)
    assert not _convert(idle, marker)
    assert (idle.target.acked_position, idle.source.position) == (11, 11)
    for name in ("held", "queue", "in_flight"):
        busy = _at(10)
        busy.target.acked_position = 5
        batch = OutboundBatch(memoryview(b""), None, 5, 9, 5, 0, 0)
        getattr(busy.target, name).append(batch)
        assert not _convert(busy, marker)
        assert (busy.target.acked_position, batch.next_offset) == (5, 11), name


def test_a_damaged_batch_is_not_forwarded_and_those_before_it_are() -> None:
    damaged = bytearray(_batch(15))
    damaged[100] ^= 1
    partition = _at(0)
    assert _spans(_convert(partition, _batch(0), _batch(5), _batch(10), bytes(damaged), _batch(20))) == [(0, 14, 15)]
    assert partition.source.position == 15
    with pytest.raises(ReplicationError, match="offset 15"):
        _convert(partition, bytes(damaged), _batch(20))


def test_coalesced_batches_are_kept_if_the_next_one_cannot_be_read() -> None:
    damaged = bytearray(_batch(15))
    damaged[22] |= 0x40 | 1  # must be rebuilt, and claims to be compressed
    damaged[17:21] = crc32c(damaged[21:]).to_bytes(4)
    partition = _at(5)
    assert _spans(_convert(partition, _batch(5), _batch(10), bytes(damaged))) == [(5, 14, 15)]
    assert (partition.source.position, partition.target.acked_position) == (15, 5)
    with pytest.raises(ReplicationError, match="damaged"):
        _convert(partition, bytes(damaged))


def test_leader_epochs_are_kept_with_their_start_offsets() -> None:
    partition = _at(0)
    _convert(partition, _batch(0, epoch=3), _batch(5, epoch=3), _batch(10, epoch=5))
    _convert(partition, _batch(15, epoch=5), _batch(20, epoch=6))
    assert partition.source.epoch_starts == [(3, 0), (5, 10), (6, 20)]
    assert partition.source.last_fetched_epoch == 6


def test_refused_batches_are_split_sent_record_by_record_or_skipped() -> None:
    partition = _at(0)
    partition.target.limits.max_batch_bytes = 12_000
    assert _spans(_convert(partition, _batch(0))) == [(0, 1, 2), (2, 3, 4), (4, 4, 5)]
    partition = _at(0)
    partition.target.limits.single_records_until = 4
    assert [batch.count for batch in _convert(partition, _batch(0))] == [1] * 5
    partition = _at(0)
    partition.target.limits.skip_offsets = frozenset({0, 3})
    (batch,) = _convert(partition, _batch(0))
    assert list(batch.offsets or ()) == [1, 2, 4]
    partition = _at(0)
    partition.target.limits.skip_offsets = frozenset(range(5))
    assert not _convert(partition, _batch(0))
    assert (partition.target.acked_position, partition.source.position) == (5, 5)


def test_a_skipped_last_record_is_covered_by_the_one_before() -> None:
    partition = _at(0)
    partition.target.limits.skip_offsets = frozenset({4})
    (batch,) = _convert(partition, _batch(0))
    assert (batch.last, batch.next_offset) == (3, 5)
