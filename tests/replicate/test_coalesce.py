"""Coalescing: many batches become few, and every record stays the same, according to the lab's own decoder."""

import random
import struct
from collections.abc import Sequence

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from lab import batches
from lab.batches import Record, read_varint
from twinlog.kafka.batch import stamp
from twinlog.kafka.connection import Buffer, Pool
from twinlog.model import TopicPartition
from twinlog.replicate.coalesce import COALESCED_BYTES, LARGE, Coalescer
from twinlog.replicate.partition import OutboundBatch, SourceSide

TP = TopicPartition("t", 0)
NOW = 1_700_000_000_000
APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
COALESCER = Coalescer(Pool(max_idle=4 << 20))

Log = list[tuple[int, Record]]


def _batch(records: Sequence[tuple[int, Record]], *, flags: int = 0, base: int | None = None, more: int = 0) -> bytes:
    """Records at their offsets, which may have gaps; the batch covers `more` offsets after the last one."""
    base = records[0][0] if base is None else base
    deltas = [offset - base for offset, _ in records]
    made = bytearray(batches.encode([record for _, record in records], deltas=deltas, attributes=flags))
    struct.pack_into(">q", made, 0, base)
    struct.pack_into(">i", made, 23, deltas[-1] + more)
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    return bytes(made)


def _offset_deltas(batch: bytes) -> list[int]:
    """The offset deltas of the records in a batch."""
    deltas, at = [], 61
    while at < len(batch):
        length, at = read_varint(batch, at)
        end = at + length
        _, at = read_varint(batch, at + 1)
        delta, _ = read_varint(batch, at)
        deltas.append(delta)
        at = end
    assert at == len(batch)
    return deltas


def _coalesce(
    log: Sequence[bytes], wanted: int = 0, *, committed: bool = True, crcs: bool = True
) -> tuple[list[OutboundBatch], int, SourceSide]:
    data = bytearray(b"".join(log))
    source = SourceSide(position=wanted)
    buffer = Buffer(data, len(data), None)
    outbound, at = COALESCER.coalesce(source, memoryview(data), buffer, committed=committed, check_crcs=crcs)
    return outbound, at, source


def _read(outbound: Sequence[OutboundBatch]) -> Log:
    """The records that a consumer of the target would read, with their source offsets."""
    log: Log = []
    sequence = 0
    for batch in outbound:
        stamp(batch.view, batch.attributes, 1, 0, sequence)
        header, fields = batches.decode(bytes(batch.view))
        assert header == list(range(batch.count))
        offsets = list(batch.offsets) if batch.offsets else list(range(batch.first, batch.last + 1))
        assert (offsets[0], offsets[-1], len(offsets)) == (batch.first, batch.last, batch.count)
        assert max(stamp for stamp, *_ in fields) == batch.max_timestamp
        log += zip(offsets, (Record(*each) for each in fields), strict=True)
        sequence += batch.count
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
# Records with the gap before each, and the number of offsets after the last one
shapes = st.tuples(
    st.lists(st.tuples(records, st.sampled_from([0, 0, 0, 1, 70])), min_size=1, max_size=80), st.integers(0, 2)
)


@pytest.mark.heavy
@settings(max_examples=150)
@given(st.lists(shapes, min_size=2, max_size=8), st.booleans())
def test_coalesced_records_are_unchanged(shape: list[tuple[list[tuple[Record, int]], int]], append_time: bool) -> None:
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
    outbound, at, source = _coalesce(log, 100)
    assert at == sum(map(len, log))
    assert _read(outbound) == expected
    assert source.position == outbound[-1].next_offset == offset


def test_coalesced_batches_have_a_size_limit_and_source_batches_are_not_split() -> None:
    log = [_batch(_run(15, 15 * number, 1000)) for number in range(100)]
    outbound, at, source = _coalesce(log)
    assert at == sum(map(len, log))
    assert [batch.next_offset for batch in outbound][-1] == source.position == 1500
    assert all(len(batch.view) <= COALESCED_BYTES for batch in outbound)
    assert len(outbound) == 3
    assert all(batch.first % 15 == 0 for batch in outbound)
    assert _read(outbound) == [each for number in range(100) for each in _run(15, 15 * number, 1000)]


def test_more_batches_than_a_table_holds() -> None:
    log = [_batch(_run(1, number, 1)) for number in range(10_000)]
    outbound, at, _ = _coalesce(log)
    assert at == sum(map(len, log))
    assert [offset for offset, _ in _read(outbound)] == list(range(10_000))


def test_a_reused_buffer_is_not_written_past_its_end() -> None:
    """A buffer of the pool may have more memory than was requested."""
    coalescer = Coalescer(pool := Pool(max_idle=8 << 20))
    pool.take(4 << 20).release()
    data = bytearray(b"".join(_batch(_run(15, 15 * number, 1000)) for number in range(60)))
    source = SourceSide(position=0)
    buffer = Buffer(data, len(data), None)
    outbound, _ = coalescer.coalesce(source, memoryview(data), buffer, committed=True, check_crcs=True)
    assert [offset for offset, _ in _read(outbound)] == list(range(900))


def test_large_batches_are_forwarded_between_coalesced_ones() -> None:
    large = _batch(_run(2, 30, LARGE))
    log = [_batch(_run(15)), _batch(_run(15, 15)), large, _batch(_run(5, 32)), _batch(_run(5, 37))]
    outbound, at, _ = _coalesce(log)
    assert at == sum(map(len, log))
    assert [(batch.first, batch.last, batch.rebuilt) for batch in outbound] == [
        (0, 29, True),
        (30, 31, False),
        (32, 41, True),
    ]
    assert bytes(outbound[1].view) == large
    assert len(_read(outbound)) == 42


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
    outbound, at, source = _coalesce(log, 20)
    assert at == sum(map(len, log))
    assert source.position == 44
    (batch,) = outbound
    assert list(batch.offsets or ()) == [*range(21, 26), *range(27, 31)]
    assert (batch.next_offset, batch.attributes) == (44, 0)
    assert _read(outbound) == [*_run(5, 21), *_run(4, 27)]

    outbound, at, source = _coalesce(log, 20, committed=False)  # some may be aborted: not handled by the coalescer
    assert (outbound, at, source.position) == ([], 0, 20)


@pytest.mark.parametrize("odd", ["gzip", "horizon", "old", "truncated", "an offset again", "a start in the middle"])
def test_unsupported_batches_are_not_coalesced(odd: str) -> None:
    third = bytearray(_batch(_run(5, 10)))
    if odd == "gzip":
        third[22] |= 1
    elif odd == "horizon":
        third[22] |= DELETE_HORIZON
    elif odd == "old":
        third[16] = 1
    elif odd == "truncated":
        third = third[:-1]
    elif odd == "an offset again":
        third = bytearray(_batch(_run(5, 9)))
    wanted = 2 if odd == "a start in the middle" else 0
    log = [_batch(_run(5)), _batch(_run(5, 5)), bytes(third)]
    if odd != "truncated":
        log.append(_batch(_run(5, 15)))
    outbound, at, source = _coalesce(log, wanted, crcs=False)
    if wanted:
        assert (outbound, at, source.position) == ([], 0, 2)
    else:
        assert at == len(log[0]) + len(log[1])
        assert [(batch.first, batch.last) for batch in outbound] == [(0, 9)]
        assert source.position == 10


def test_batches_before_a_damaged_one_are_coalesced() -> None:
    damaged = bytearray(_batch(_run(5, 10)))
    damaged[80] ^= 1
    outbound, _, source = _coalesce([_batch(_run(5)), _batch(_run(5, 5)), bytes(damaged), _batch(_run(5, 15))])
    assert _read(outbound) == [*_run(5), *_run(5, 5)]
    assert source.position == 10


def test_leader_epochs_are_kept_with_their_start_offsets() -> None:
    log = []
    for number, epoch in enumerate((3, 3, 5, 5, 6, 6)):
        made = bytearray(_batch(_run(5, 5 * number)))
        made[12:16] = epoch.to_bytes(4)
        log.append(bytes(made))
    *_, source = _coalesce(log)
    assert source.epoch_starts == [(3, 0), (5, 10), (6, 20)]
    assert source.last_fetched_epoch == 6


def test_damaged_batches_never_cause_access_out_of_bounds() -> None:
    """Checksums are not verified, so that damaged records reach the compiled code. Coalesced batches must be valid."""
    chance = random.Random(7)
    whole = [_batch(_run(8, 8 * number)) for number in range(6)]
    for _ in range(3000):
        log = bytearray(b"".join(whole))
        for _ in range(chance.choice((1, 1, 2, 8))):
            log[chance.randrange(len(log))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        outbound, at, source = _coalesce([bytes(log)], crcs=False)
        assert 0 <= at <= len(log)
        for batch in outbound:
            if batch.rebuilt:
                assert batch.next_offset <= source.position
                assert _offset_deltas(bytes(batch.view)) == list(range(batch.count))
