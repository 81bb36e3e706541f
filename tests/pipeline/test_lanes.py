"""From a fetched stretch of log to pieces: what is dropped, what is opened, and which offsets each piece stands for."""

import time

import pytest
from crc32c import crc32c

from twinlog.errors import RelayError
from twinlog.kafka.connection import Buffer, Pool
from twinlog.kafka.fetch import Part
from twinlog.lab import batches
from twinlog.lab.batches import Record
from twinlog.model import TopicPartition
from twinlog.pipeline.lanes import Rules, cut
from twinlog.pipeline.loom import LARGE, Loom
from twinlog.pipeline.partition import Partition, Piece

PLACE = TopicPartition("t", 0)
LOOM = Loom(Pool(keep=1 << 20))
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


def _cut(partition: Partition, *log: bytes, aborted: list[tuple[int, int]] | None = None, **rules: bool) -> list[Piece]:
    data = bytearray(b"".join(log))
    part = Part(PLACE, 0, 0, 0, 0, aborted or [], -1, memoryview(data), None)
    return cut(partition, part, Buffer(data, len(data), None), Rules(**rules), LOOM)


def _at(position: int) -> Partition:
    return Partition(PLACE, PLACE, fetched=position, acked=position)


def _spans(pieces: list[Piece]) -> list[tuple[int, int, int]]:
    return [(piece.first, piece.last, piece.next) for piece in pieces]


def test_one_batch_and_large_ones_stay_as_they_are() -> None:
    partition = _at(5)
    alone = _batch(5)
    (piece,) = _cut(partition, alone)
    assert bytes(piece.view) == alone
    log = [_batch(10, size=LARGE // 5), _batch(15, size=LARGE // 5)]
    pieces = _cut(partition, *log)
    assert [bytes(piece.view) for piece in pieces] == log
    assert _spans(pieces) == [(10, 14, 15), (15, 19, 20)]
    assert partition.fetched == 20


def test_the_cut_off_end_of_an_answer_comes_again() -> None:
    partition = _at(10)
    assert _spans(_cut(partition, _batch(10), _batch(15)[:-1])) == [(10, 14, 15)]
    assert partition.fetched == 15


def test_a_start_in_the_middle_of_a_batch() -> None:
    partition = _at(12)
    (piece,) = _cut(partition, _batch(10))
    assert (piece.first, piece.last, piece.count, piece.rebuilt) == (12, 14, 3, True)


def test_markers_and_aborted_records_only_move_the_position() -> None:
    partition = _at(0)
    log = [
        _batch(0, producer=7, attributes=TRANSACTIONAL),
        _batch(5, producer=8, attributes=TRANSACTIONAL),
        _batch(10, 1, producer=7, attributes=TRANSACTIONAL | CONTROL),
        _batch(11, producer=7, attributes=TRANSACTIONAL),
        _batch(16, 1, producer=8, attributes=TRANSACTIONAL | CONTROL),
    ]
    pieces = _cut(partition, *log, aborted=[(7, 0)])
    assert _spans(pieces) == [(5, 9, 10), (11, 15, 17)]  # the last one stands for the marker behind it, too
    assert partition.fetched == 17
    assert partition.acked == 0

    dirty = _at(0)
    assert _spans(_cut(dirty, *log, aborted=[(7, 0)], read_committed=False)) == [(0, 15, 17)]


def test_where_nothing_is_to_be_copied_whoever_is_last_stands_for_it() -> None:
    marker = _batch(10, 1, producer=7, attributes=TRANSACTIONAL | CONTROL)
    idle = _at(10)
    assert not _cut(idle, marker)
    assert (idle.acked, idle.fetched) == (11, 11)
    for name in ("held", "queue", "flight"):
        busy = _at(10)
        busy.acked = 5
        piece = Piece(memoryview(b""), None, 5, 9, 5, 0, 0)
        getattr(busy, name).append(piece)
        assert not _cut(busy, marker)
        assert (busy.acked, piece.next) == (5, 11), name


def test_a_damaged_batch_is_not_passed_on_and_those_before_it_are() -> None:
    damaged = bytearray(_batch(15))
    damaged[100] ^= 1
    partition = _at(0)
    assert _spans(_cut(partition, _batch(0), _batch(5), _batch(10), bytes(damaged), _batch(20))) == [(0, 14, 15)]
    assert partition.fetched == 15
    with pytest.raises(RelayError, match="offset 15"):
        _cut(partition, bytes(damaged), _batch(20))


def test_what_is_woven_stays_when_what_follows_cannot_be_read() -> None:
    damaged = bytearray(_batch(15))
    damaged[22] |= 0x40 | 1  # to be opened, and compressed, it says
    damaged[17:21] = crc32c(damaged[21:]).to_bytes(4)
    partition = _at(5)
    assert _spans(_cut(partition, _batch(5), _batch(10), bytes(damaged))) == [(5, 14, 15)]
    assert (partition.fetched, partition.acked) == (15, 5)
    with pytest.raises(RelayError, match="damaged"):
        _cut(partition, bytes(damaged))


def test_epochs_are_remembered_with_where_they_began() -> None:
    partition = _at(0)
    _cut(partition, _batch(0, epoch=3), _batch(5, epoch=3), _batch(10, epoch=5))
    _cut(partition, _batch(15, epoch=5), _batch(20, epoch=6))
    assert partition.epochs == [(3, 0), (5, 10), (6, 20)]
    assert partition.last_epoch == 6


def test_what_the_target_refuses_is_split_alone_or_left_out() -> None:
    partition = _at(0)
    partition.largest = 12_000
    assert _spans(_cut(partition, _batch(0))) == [(0, 1, 2), (2, 3, 4), (4, 4, 5)]
    partition = _at(0)
    partition.alone_until = 4
    assert [piece.count for piece in _cut(partition, _batch(0))] == [1] * 5
    partition = _at(0)
    partition.skip = frozenset({0, 3})
    (piece,) = _cut(partition, _batch(0))
    assert list(piece.offsets or ()) == [1, 2, 4]
    partition = _at(0)
    partition.skip = frozenset(range(5))
    assert not _cut(partition, _batch(0))
    assert (partition.acked, partition.fetched) == (5, 5)


def test_a_last_record_that_is_left_out_is_stood_for_by_the_one_before() -> None:
    partition = _at(0)
    partition.skip = frozenset({4})
    (piece,) = _cut(partition, _batch(0))
    assert (piece.last, piece.next) == (3, 5)
