"""Damaged batches with a valid checksum stop their own partition with a reason, and have no other effect.

The broker may be broken or malicious. Each case is converted with and without the coalescer.
"""

import struct

import pytest
from crc32c import crc32c

from lab import batches
from lab.batches import Record, write_varint
from twinlog.errors import ReplicationError
from twinlog.kafka import rebuild
from twinlog.kafka.batch import MAX_OFFSET
from twinlog.kafka.codecs import ZSTD, compress
from twinlog.kafka.connection import Buffer, Pool
from twinlog.kafka.fetch import FetchedPartition, Session, WantedPartition
from twinlog.model import TopicPartition
from twinlog.replicate.coalesce import Coalescer
from twinlog.replicate.convert_batches import ConversionRules, convert_batches
from twinlog.replicate.partition import OutboundBatch, Partition, SourceSide, TargetSide

TP = TopicPartition("t", 0)
COALESCER = Coalescer(Pool(max_idle=1 << 20))
NOW = 1_700_000_000_000
CONTROL, TRANSACTIONAL, APPEND_TIME = 0x20, 0x10, 0x08
LARGEST = (1 << 63) - 1
_FIELDS = {"base": (0, ">q"), "length": (8, ">i"), "epoch": (12, ">i"), "magic": (16, ">b"), "attributes": (21, ">h"),
           "delta": (23, ">i"), "time": (27, ">q"), "producer": (43, ">q"), "count": (57, ">i")}  # fmt: skip


def _batch(base: int, records: int = 5, *, size: int = 20, **damage: int) -> bytes:
    """A valid batch except for `damage`; the checksum is valid."""
    made = bytearray(batches.encode([Record(NOW, b"%d" % each, bytes(size)) for each in range(records)]))
    for name, value in {"base": base, **damage}.items():
        at, layout = _FIELDS[name]
        struct.pack_into(layout, made, at, value)
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    return bytes(made)


def _convert(
    partition: Partition, log: bytes, *, coalescer: Coalescer | None = COALESCER, rules: ConversionRules | None = None
) -> list[OutboundBatch]:
    data = bytearray(log)
    part = FetchedPartition(TP, 0, 0, 0, 0, [], -1, memoryview(data), None)
    return convert_batches(
        partition.source,
        partition.target.limits,
        part,
        Buffer(data, len(data), None),
        rules or ConversionRules(),
        coalescer,
    )


def _at(position: int) -> Partition:
    return Partition(TP, TP, source=SourceSide(position=position), target=TargetSide(acked_position=position))


def _next_request(partition: Partition) -> bytes:
    """The position must fit into the next fetch request."""
    want = WantedPartition(
        TP, partition.source.topic_id, partition.source.position, -1, partition.source.last_fetched_epoch, 1 << 20
    )
    how = {"wait_ms": 1, "min_bytes": 1, "max_bytes": 1 << 20, "isolation": 0}
    return Session(12).request(1, "me", [want], [], rack="", **how)


DAMAGES = {
    "no length": {"length": 0},
    "a negative length": {"length": -(1 << 31)},
    "a length above the maximum": {"length": (1 << 31) - 1},
    "a truncated header": {"length": 30},
    "magic 3": {"magic": 3},
    "magic 127": {"magic": 127},
    "the largest offset": {"base": LARGEST},
    "an offset that overflows with its records": {"base": LARGEST - 3},
    "a negative count": {"count": -5, "delta": -6},
    "no records, and it ends before it begins": {"count": 0, "delta": -1},
    "a marker that ends before it begins": {"attributes": CONTROL | TRANSACTIONAL, "delta": -100},
    "records, and it ends before it begins": {"delta": -5},
    "more records than there are": {"count": 6, "delta": 6},
    "fewer records than there are": {"count": 4},
    "a record behind the last": {"count": 5, "delta": 3},
    "2^31 records, rebuilt": {"count": (1 << 31) - 1, "attributes": APPEND_TIME},
    "an unknown codec": {"attributes": 7, "delta": 9},
}


@pytest.mark.parametrize("coalescer", [COALESCER, None], ids=["coalescer", "without"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_batch_at_the_position_raises(damage: dict[str, int], coalescer: Coalescer | None) -> None:
    partition = _at(50)
    before = partition.source.position
    with pytest.raises(ReplicationError, match="source log damaged"):
        _convert(partition, _batch(**{"base": 50, **damage}) + _batch(55), coalescer=coalescer)
    assert partition.source.position == before


@pytest.mark.parametrize("coalescer", [COALESCER, None], ids=["coalescer", "without"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_batches_before_a_damaged_one_are_converted(damage: dict[str, int], coalescer: Coalescer | None) -> None:
    partition = _at(40)
    good = _batch(40) + _batch(45)
    outbound = _convert(partition, good + _batch(**{"base": 50, **damage}) + _batch(55), coalescer=coalescer)
    assert [offset for batch in outbound for offset in range(batch.first, batch.last + 1)] == list(range(40, 50))
    assert partition.source.position == outbound[-1].next_offset == 50
    _next_request(partition)


@pytest.mark.parametrize("coalescer", [COALESCER, None], ids=["coalescer", "without"])
def test_offsets_never_go_back(coalescer: Coalescer | None) -> None:
    partition = _at(10)
    outbound = _convert(partition, _batch(20) + _batch(12) + _batch(25), coalescer=coalescer)
    assert partition.source.position in {25, 30}  # the batch with the lower offset is skipped, or ends the conversion
    firsts = [batch.first for batch in outbound]
    assert firsts == sorted(firsts)
    assert 12 not in firsts
    partition = _at(10)
    _convert(partition, _batch(20) + _batch(22), coalescer=coalescer)
    assert partition.source.position in {25, 27}


@pytest.mark.parametrize("coalescer", [COALESCER, None], ids=["coalescer", "without"])
def test_a_response_with_only_earlier_records_raises(coalescer: Coalescer | None) -> None:
    """Else the same request would be repeated in a busy loop."""
    partition = _at(100)
    with pytest.raises(ReplicationError, match="response for offset 100 has only earlier records"):
        _convert(partition, _batch(90) + _batch(95), coalescer=coalescer)


@pytest.mark.parametrize("delta", [(1 << 63) - 1, (1 << 63) - 50, 1 << 62, 1 << 32])
def test_a_record_offset_that_overflows_is_not_coalesced(delta: int) -> None:
    """base + delta exceeds 64 bits."""
    fields = b"\0" + write_varint(0) + write_varint(delta) + write_varint(-1) + write_varint(-1) + write_varint(0)
    record = write_varint(len(fields)) + fields
    header = bytearray(_batch(200, 1)[:61])
    struct.pack_into(">i", header, 8, 49 + len(record))
    odd = bytes(header) + record
    odd = odd[:17] + struct.pack(">I", crc32c(odd[21:])) + odd[21:]
    partition = _at(190)
    outbound = _convert(partition, _batch(190) + _batch(195) + odd)
    for batch in outbound:
        for offset in batch.offsets or (batch.first, batch.last):
            assert 190 <= offset <= 200


def test_the_number_of_leader_epochs_kept_is_limited() -> None:
    partition = _at(0)
    for turn in range(50):
        _convert(partition, b"".join(_batch(at, 1, epoch=at % 7) for at in range(100 * turn, 100 * turn + 100)))
    assert partition.source.position == 5000
    assert len(partition.source.epoch_starts) <= 2000
    assert partition.source.epoch_starts[-1] == (4999 % 7, 4999)


def test_many_aborted_transactions_are_fast() -> None:
    aborted = [(number, number) for number in range(1_000_000)]
    data = bytearray(_batch(2_000_000, attributes=TRANSACTIONAL, producer=7))
    part = FetchedPartition(TP, 0, 0, 0, 0, aborted, -1, memoryview(data), None)
    partition = _at(2_000_000)
    assert (
        convert_batches(
            partition.source, partition.target.limits, part, Buffer(data, len(data), None), ConversionRules(), COALESCER
        )
        == []
    )
    assert partition.source.position == 2_000_005


def test_many_skipped_offsets_are_fast() -> None:
    """A target may refuse each record of a large batch."""
    partition = _at(0)
    partition.target.limits.skip_offsets = frozenset(range(10_000_000, 10_500_000))
    log = b"".join(_batch(at, 1, size=1) for at in range(20_000))
    outbound = _convert(partition, log)
    assert sum(batch.count for batch in outbound) == partition.source.position == 20_000


def _bomb(base: int, records: int, size: int) -> bytes:
    """A batch with a gap in its offsets, so that it must be rebuilt."""
    section = bytearray()
    for number in range(records):
        fields = b"\0" + write_varint(0) + write_varint(number) + write_varint(-1) + write_varint(size) + bytes(size)
        fields += write_varint(0)
        section += write_varint(len(fields)) + fields
    made = bytearray(_batch(base, 1)[:61]) + bytes(compress(ZSTD, section))
    for at, layout, value in ((8, ">i", len(made) - 12), (21, ">h", ZSTD), (23, ">i", records), (57, ">i", records)):
        struct.pack_into(layout, made, at, value)
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    return bytes(made)


@pytest.mark.parametrize("codec", [None, 0])
def test_decompression_bombs_are_converted_in_parts(codec: int | None) -> None:
    """40 batches of 3 KB, each of 10 MB when decompressed, are converted a few at a time."""
    bomb = _bomb(0, 100, 100_000)
    log = [struct.pack(">q", 101 * number) + bomb[8:] for number in range(40)]
    assert len(b"".join(log)) < 200_000
    partition = _at(0)
    rules = ConversionRules(codec=codec)
    found: list[int] = []
    rounds = 0
    while partition.source.position < 101 * 40:
        outbound = _convert(partition, b"".join(log[partition.source.position // 101 :]), rules=rules)
        if codec == 0:
            assert sum(len(batch.view) for batch in outbound) < rebuild.AT_ONCE + (12 << 20)
        for batch in outbound:
            found += batch.offsets or range(batch.first, batch.last + 1)
        rounds += 1
    assert found == [101 * number + each for number in range(40) for each in range(100)]
    assert 5 < rounds < 15


def test_a_batch_that_is_split_into_many_is_converted_in_parts() -> None:
    partition = _at(0)
    partition.target.limits.single_records_until = 30_000
    log = _batch(0, 25_000, size=1)
    assert len(_convert(partition, log)) == rebuild.BATCHES_AT_ONCE
    assert partition.source.position == rebuild.BATCHES_AT_ONCE
    assert len(_convert(partition, log)) == rebuild.BATCHES_AT_ONCE
    assert [batch.first for batch in _convert(partition, log)] == list(range(20_000, 25_000))
    assert partition.source.position == 25_000


def test_offsets_up_to_the_farthest_are_copied() -> None:
    partition = _at(MAX_OFFSET - 10)
    outbound = _convert(partition, _batch(MAX_OFFSET - 10) + _batch(MAX_OFFSET - 5))
    assert sum(batch.count for batch in outbound) == 10
    assert partition.source.position == MAX_OFFSET
    _next_request(partition)


def test_extreme_timestamps() -> None:
    """No exception, and no record is lost."""
    for first in (-(1 << 63), -1, 0, NOW, LARGEST):
        for second in (-(1 << 63), -1, 0, NOW, LARGEST):
            for attributes in (0, APPEND_TIME):
                partition = _at(0)
                log = _batch(0, time=first) + _batch(5, time=second, attributes=attributes)
                outbound = _convert(partition, log)
                assert sum(batch.count for batch in outbound) == partition.source.position
