"""The loom: many batches become few, and every record stays what it was. The lab's own reader is the judge."""

import random
import struct
from collections.abc import Sequence

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlog.kafka.batch import stamp
from twinlog.kafka.connection import Buffer, Pool
from twinlog.lab import batches
from twinlog.lab.batches import Record, read_varint
from twinlog.model import TopicPartition
from twinlog.pipeline.loom import LARGE, WOVEN_BYTES, Loom
from twinlog.pipeline.partition import Partition, Piece

PLACE = TopicPartition("t", 0)
NOW = 1_700_000_000_000
APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
LOOM = Loom(Pool(keep=4 << 20))

Log = list[tuple[int, Record]]


def _batch(records: Sequence[tuple[int, Record]], *, flags: int = 0, base: int | None = None, more: int = 0) -> bytes:
    """Records at their offsets, gaps and all; `more` offsets behind the last one belong to the batch, too."""
    base = records[0][0] if base is None else base
    deltas = [offset - base for offset, _ in records]
    made = bytearray(batches.encode([record for _, record in records], deltas=deltas, attributes=flags))
    struct.pack_into(">q", made, 0, base)
    struct.pack_into(">i", made, 23, deltas[-1] + more)
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    return bytes(made)


def _places(batch: bytes) -> list[int]:
    """The offsets in a batch whose records lie end to end; what stands in them is not looked at."""
    places, at = [], 61
    while at < len(batch):
        length, at = read_varint(batch, at)
        end = at + length
        _, at = read_varint(batch, at + 1)
        place, _ = read_varint(batch, at)
        places.append(place)
        at = end
    assert at == len(batch)
    return places


def _weave(
    log: Sequence[bytes], wanted: int = 0, *, committed: bool = True, crcs: bool = True
) -> tuple[list[Piece], int, Partition]:
    data = bytearray(b"".join(log))
    partition = Partition(PLACE, PLACE, fetched=wanted)
    buffer = Buffer(data, len(data), None)
    pieces, at = LOOM.weave(partition, memoryview(data), buffer, committed=committed, check_crcs=crcs)
    return pieces, at, partition


def _read(pieces: Sequence[Piece]) -> Log:
    """What a consumer of the target would see, with the offsets on the source that we keep beside it."""
    log: Log = []
    sequence = 0
    for piece in pieces:
        stamp(piece.view, piece.attributes, 1, 0, sequence)
        header, fields = batches.decode(bytes(piece.view))
        assert header == list(range(piece.count))
        offsets = list(piece.offsets) if piece.offsets else list(range(piece.first, piece.last + 1))
        assert (offsets[0], offsets[-1], len(offsets)) == (piece.first, piece.last, piece.count)
        assert max(stamp for stamp, *_ in fields) == piece.max_timestamp
        log += zip(offsets, (Record(*each) for each in fields), strict=True)
        sequence += piece.count
    return log


def _run(count: int, first: int = 0, size: int = 20) -> Log:
    return [(first + n, Record(NOW + n, b"k%d" % n, bytes(size))) for n in range(count)]


records = st.builds(
    Record,
    st.integers(NOW - 10_000, NOW + 10_000) | st.integers(0, 1 << 62),
    st.none() | st.binary(max_size=80),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=70)), max_size=3).map(tuple),
)
# The number of records, gaps before each, and offsets behind the last one
shapes = st.tuples(
    st.lists(st.tuples(records, st.sampled_from([0, 0, 0, 1, 70])), min_size=1, max_size=80), st.integers(0, 2)
)


@settings(max_examples=150, deadline=None)
@given(st.lists(shapes, min_size=2, max_size=8), st.booleans())
def test_any_records_arrive_as_they_were(shape: list[tuple[list[tuple[Record, int]], int]], append_time: bool) -> None:
    log: list[bytes] = []
    expected: Log = []
    offset = 100
    for content, more in shape:
        placed: Log = []
        for record, gap in content:
            offset += gap
            placed.append((offset, record))
            offset += 1
        log.append(_batch(placed, flags=APPEND_TIME if append_time else 0, more=more))
        offset += more
        latest = max(record.timestamp for _, record in placed)
        expected += [(at, record._replace(timestamp=latest) if append_time else record) for at, record in placed]
    pieces, at, partition = _weave(log, 100)
    assert at == sum(map(len, log))
    assert _read(pieces) == expected
    assert partition.fetched == pieces[-1].next == offset


def test_a_piece_is_as_large_as_brokers_like_and_batches_stay_whole() -> None:
    log = [_batch(_run(15, 15 * number, 1000)) for number in range(100)]
    pieces, at, partition = _weave(log)
    assert at == sum(map(len, log))
    assert [piece.next for piece in pieces][-1] == partition.fetched == 1500
    assert all(len(piece.view) <= WOVEN_BYTES for piece in pieces)
    assert len(pieces) == 3
    assert all(piece.first % 15 == 0 for piece in pieces)
    assert _read(pieces) == [each for number in range(100) for each in _run(15, 15 * number, 1000)]


def test_more_batches_than_a_table_holds() -> None:
    log = [_batch(_run(1, number, 1)) for number in range(10_000)]
    pieces, at, _ = _weave(log)
    assert at == sum(map(len, log))
    assert [offset for offset, _ in _read(pieces)] == list(range(10_000))


def test_memory_that_is_used_again_is_no_larger_than_it_says() -> None:
    """A buffer of the pool may have more memory than was asked for; what lies behind its end is not ours."""
    loom = Loom(pool := Pool(keep=8 << 20))
    pool.take(4 << 20).release()
    data = bytearray(b"".join(_batch(_run(15, 15 * number, 1000)) for number in range(60)))
    partition = Partition(PLACE, PLACE, fetched=0)
    buffer = Buffer(data, len(data), None)
    pieces, _ = loom.weave(partition, memoryview(data), buffer, committed=True, check_crcs=True)
    assert [offset for offset, _ in _read(pieces)] == list(range(900))


def test_large_ones_travel_as_they_are_between_those_that_are_woven() -> None:
    large = _batch(_run(2, 30, LARGE))
    log = [_batch(_run(15)), _batch(_run(15, 15)), large, _batch(_run(5, 32)), _batch(_run(5, 37))]
    pieces, at, _ = _weave(log)
    assert at == sum(map(len, log))
    assert [(piece.first, piece.last, piece.rebuilt) for piece in pieces] == [
        (0, 29, True),
        (30, 31, False),
        (32, 41, True),
    ]
    assert bytes(pieces[1].view) == large
    assert len(_read(pieces)) == 42


def test_markers_and_empty_batches_move_the_position_and_are_not_copied() -> None:
    marker = _batch([(20, Record(NOW, b"\0\0\0\1", b""))], flags=TRANSACTIONAL | CONTROL)
    empty = bytearray(_batch(_run(3, 41)))[:61]
    struct.pack_into(">i", empty, 8, 49)
    struct.pack_into(">i", empty, 57, 0)
    struct.pack_into(">I", empty, 17, crc32c(empty[21:]))
    log = [
        marker,
        _batch(_run(5, 21), flags=TRANSACTIONAL),
        marker.replace((20).to_bytes(8), (26).to_bytes(8), 1),
        _batch(_run(4, 27), flags=TRANSACTIONAL),
        bytes(empty),
    ]
    pieces, at, partition = _weave(log, 20)
    assert at == sum(map(len, log))
    assert partition.fetched == 44
    (piece,) = pieces
    assert list(piece.offsets or ()) == [*range(21, 26), *range(27, 31)]
    assert (piece.next, piece.attributes) == (44, 0)
    assert _read(pieces) == [*_run(5, 21), *_run(4, 27)]

    pieces, at, partition = _weave(log, 20, committed=False)  # some may be aborted: not ours to say which
    assert (pieces, at, partition.fetched) == ([], 0, 20)


@pytest.mark.parametrize("odd", ["gzip", "horizon", "old", "cut off", "an offset again", "a start in the middle"])
def test_oddities_are_left_to_others(odd: str) -> None:
    third = bytearray(_batch(_run(5, 10)))
    if odd == "gzip":
        third[22] |= 1
    elif odd == "horizon":
        third[22] |= DELETE_HORIZON
    elif odd == "old":
        third[16] = 1
    elif odd == "cut off":
        third = third[:-1]
    elif odd == "an offset again":
        third = bytearray(_batch(_run(5, 9)))
    wanted = 2 if odd == "a start in the middle" else 0
    log = [_batch(_run(5)), _batch(_run(5, 5)), bytes(third)]
    if odd != "cut off":
        log.append(_batch(_run(5, 15)))
    pieces, at, partition = _weave(log, wanted, crcs=False)
    if wanted:
        assert (pieces, at, partition.fetched) == ([], 0, 2)
    else:
        assert at == len(log[0]) + len(log[1])
        assert [(piece.first, piece.last) for piece in pieces] == [(0, 9)]
        assert partition.fetched == 10


def test_those_before_a_damaged_one_are_taken() -> None:
    damaged = bytearray(_batch(_run(5, 10)))
    damaged[80] ^= 1
    pieces, _, partition = _weave([_batch(_run(5)), _batch(_run(5, 5)), bytes(damaged), _batch(_run(5, 15))])
    assert _read(pieces) == [*_run(5), *_run(5, 5)]
    assert partition.fetched == 10


def test_epochs_are_remembered_with_where_they_began() -> None:
    log = []
    for number, epoch in enumerate((3, 3, 5, 5, 6, 6)):
        made = bytearray(_batch(_run(5, 5 * number)))
        made[12:16] = epoch.to_bytes(4)
        log.append(bytes(made))
    *_, partition = _weave(log)
    assert partition.epochs == [(3, 0), (5, 10), (6, 20)]
    assert partition.last_epoch == 6


def test_nonsense_never_reads_or_writes_elsewhere() -> None:
    """Checksums are not looked at, so that damaged records reach the compiled code. What it weaves must be whole."""
    chance = random.Random(7)
    whole = [_batch(_run(8, 8 * number)) for number in range(6)]
    for _ in range(3000):
        log = bytearray(b"".join(whole))
        for _ in range(chance.choice((1, 1, 2, 8))):
            log[chance.randrange(len(log))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        pieces, at, partition = _weave([bytes(log)], crcs=False)
        assert 0 <= at <= len(log)
        for piece in pieces:
            if piece.rebuilt:
                assert piece.next <= partition.fetched
                assert _places(bytes(piece.view)) == list(range(piece.count))
