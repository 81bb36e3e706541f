"""Batches that lie, with a checksum that fits: they stop their own partition with a reason, and nothing else happens.

Whoever answers may be broken, or an attacker. Each case is given to the loom, and to the lanes without it.
"""

import struct

import pytest
from crc32c import crc32c

from twinlog.errors import RelayError
from twinlog.kafka import rebuild
from twinlog.kafka.batch import FARTHEST
from twinlog.kafka.codecs import ZSTD, compress
from twinlog.kafka.connection import Buffer, Pool
from twinlog.kafka.fetch import Part, Session, Want
from twinlog.lab import batches
from twinlog.lab.batches import Record, write_varint
from twinlog.model import TopicPartition
from twinlog.pipeline.lanes import Rules, cut
from twinlog.pipeline.loom import Loom
from twinlog.pipeline.partition import Partition, Piece

PLACE = TopicPartition("t", 0)
LOOM = Loom(Pool(keep=1 << 20))
NOW = 1_700_000_000_000
CONTROL, TRANSACTIONAL, APPEND_TIME = 0x20, 0x10, 0x08
LARGEST = (1 << 63) - 1
_FIELDS = {"base": (0, ">q"), "length": (8, ">i"), "epoch": (12, ">i"), "magic": (16, ">b"), "attributes": (21, ">h"),
           "delta": (23, ">i"), "time": (27, ">q"), "producer": (43, ">q"), "count": (57, ">i")}  # fmt: skip


def _batch(base: int, records: int = 5, *, size: int = 20, **lies: int) -> bytes:
    """As a broker keeps it, but for the lies; the checksum is that of the lies."""
    made = bytearray(batches.encode([Record(NOW, b"%d" % each, bytes(size)) for each in range(records)]))
    for name, value in {"base": base, **lies}.items():
        at, layout = _FIELDS[name]
        struct.pack_into(layout, made, at, value)
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    return bytes(made)


def _cut(partition: Partition, log: bytes, *, loom: Loom | None = LOOM, rules: Rules | None = None) -> list[Piece]:
    data = bytearray(log)
    part = Part(PLACE, 0, 0, 0, 0, [], -1, memoryview(data), None)
    return cut(partition, part, Buffer(data, len(data), None), rules or Rules(), loom)


def _at(position: int) -> Partition:
    return Partition(PLACE, PLACE, fetched=position, acked=position)


def _next_wish(partition: Partition) -> bytes:
    """The next request of its session must have room for its position."""
    want = Want(PLACE, partition.topic_id, partition.fetched, -1, partition.last_epoch, 1 << 20)
    how = {"wait_ms": 1, "min_bytes": 1, "max_bytes": 1 << 20, "isolation": 0}
    return Session(12).request(1, "me", [want], [], rack="", **how)


LIES = {
    "no length": {"length": 0},
    "a negative length": {"length": -(1 << 31)},
    "a length that no answer can have": {"length": (1 << 31) - 1},
    "a header only in part": {"length": 30},
    "magic 3": {"magic": 3},
    "magic 127": {"magic": 127},
    "an offset at the end of all numbers": {"base": LARGEST},
    "an offset that overflows with its records": {"base": LARGEST - 3},
    "fewer than no records": {"count": -5, "delta": -6},
    "no records, and it ends before it begins": {"count": 0, "delta": -1},
    "a marker that ends before it begins": {"attributes": CONTROL | TRANSACTIONAL, "delta": -100},
    "records, and it ends before it begins": {"delta": -5},
    "more records than there are": {"count": 6, "delta": 6},
    "fewer records than there are": {"count": 4},
    "a record behind the last": {"count": 5, "delta": 3},
    "2^31 records, opened": {"count": (1 << 31) - 1, "attributes": APPEND_TIME},
    "a codec that there is not": {"attributes": 7, "delta": 9},
}


@pytest.mark.parametrize("loom", [LOOM, None], ids=["loom", "alone"])
@pytest.mark.parametrize("lies", LIES.values(), ids=LIES.keys())
def test_a_lie_at_the_position_is_told(lies: dict[str, int], loom: Loom | None) -> None:
    partition = _at(50)
    before = partition.fetched
    with pytest.raises(RelayError, match="the source's log is damaged"):
        _cut(partition, _batch(**{"base": 50, **lies}) + _batch(55), loom=loom)
    assert partition.fetched == before


@pytest.mark.parametrize("loom", [LOOM, None], ids=["loom", "alone"])
@pytest.mark.parametrize("lies", LIES.values(), ids=LIES.keys())
def test_what_stands_before_a_lie_arrives(lies: dict[str, int], loom: Loom | None) -> None:
    partition = _at(40)
    good = _batch(40) + _batch(45)
    pieces = _cut(partition, good + _batch(**{"base": 50, **lies}) + _batch(55), loom=loom)
    assert [offset for piece in pieces for offset in range(piece.first, piece.last + 1)] == list(range(40, 50))
    assert partition.fetched == pieces[-1].next == 50
    _next_wish(partition)


@pytest.mark.parametrize("loom", [LOOM, None], ids=["loom", "alone"])
def test_offsets_never_go_back(loom: Loom | None) -> None:
    partition = _at(10)
    pieces = _cut(partition, _batch(20) + _batch(12) + _batch(25), loom=loom)
    assert partition.fetched in {25, 30}  # the one that is before all is passed over, or ends what is taken
    firsts = [piece.first for piece in pieces]
    assert firsts == sorted(firsts)
    assert 12 not in firsts
    partition = _at(10)
    _cut(partition, _batch(20) + _batch(22), loom=loom)
    assert partition.fetched in {25, 27}


@pytest.mark.parametrize("loom", [LOOM, None], ids=["loom", "alone"])
def test_an_answer_that_never_gets_further_is_told(loom: Loom | None) -> None:
    """Else the same would be asked and answered for ever, as fast as both sides can."""
    partition = _at(100)
    with pytest.raises(RelayError, match="asked for offset 100, it gives only what is before"):
        _cut(partition, _batch(90) + _batch(95), loom=loom)


@pytest.mark.parametrize("delta", [(1 << 63) - 1, (1 << 63) - 50, 1 << 62, 1 << 32])
def test_an_offset_in_a_record_that_overflows_is_not_woven(delta: int) -> None:
    """base + delta has more than 64 bits, and would be a small number again."""
    fields = b"\0" + write_varint(0) + write_varint(delta) + write_varint(-1) + write_varint(-1) + write_varint(0)
    record = write_varint(len(fields)) + fields
    header = bytearray(_batch(200, 1)[:61])
    struct.pack_into(">i", header, 8, 49 + len(record))
    odd = bytes(header) + record
    odd = odd[:17] + struct.pack(">I", crc32c(odd[21:])) + odd[21:]
    partition = _at(190)
    pieces = _cut(partition, _batch(190) + _batch(195) + odd)
    for piece in pieces:
        for offset in piece.offsets or (piece.first, piece.last):
            assert 190 <= offset <= 200


def test_epochs_that_change_with_each_batch_are_not_all_remembered() -> None:
    partition = _at(0)
    for turn in range(50):
        _cut(partition, b"".join(_batch(at, 1, epoch=at % 7) for at in range(100 * turn, 100 * turn + 100)))
    assert partition.fetched == 5000
    assert len(partition.epochs) <= 2000
    assert partition.epochs[-1] == (4999 % 7, 4999)


def test_very_many_aborted_transactions_are_no_work_for_hours() -> None:
    aborted = [(number, number) for number in range(1_000_000)]
    data = bytearray(_batch(2_000_000, attributes=TRANSACTIONAL, producer=7))
    part = Part(PLACE, 0, 0, 0, 0, aborted, -1, memoryview(data), None)
    partition = _at(2_000_000)
    assert cut(partition, part, Buffer(data, len(data), None), Rules(), LOOM) == []
    assert partition.fetched == 2_000_005


def test_very_many_refused_records_are_no_work_for_hours() -> None:
    """A target may refuse each record of a large batch; what follows is looked at in the light of all of them."""
    partition = _at(0)
    partition.skip = frozenset(range(10_000_000, 10_500_000))
    log = b"".join(_batch(at, 1, size=1) for at in range(20_000))
    pieces = _cut(partition, log)
    assert sum(piece.count for piece in pieces) == partition.fetched == 20_000


def _bomb(base: int, records: int, size: int) -> bytes:
    """A batch with a hole in its offsets, so that it must be opened."""
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
def test_what_expands_beyond_measure_is_taken_in_parts(codec: int | None) -> None:
    """40 batches of 3 KB, each of 10 MB when it is opened: a part of them at a time, and in the end all."""
    bomb = _bomb(0, 100, 100_000)
    log = [struct.pack(">q", 101 * number) + bomb[8:] for number in range(40)]
    assert len(b"".join(log)) < 200_000
    partition = _at(0)
    rules = Rules(codec=codec)
    found: list[int] = []
    rounds = 0
    while partition.fetched < 101 * 40:
        pieces = _cut(partition, b"".join(log[partition.fetched // 101 :]), rules=rules)
        if codec == 0:
            assert sum(len(piece.view) for piece in pieces) < rebuild.AT_ONCE + (12 << 20)
        for piece in pieces:
            found += piece.offsets or range(piece.first, piece.last + 1)
        rounds += 1
    assert found == [101 * number + each for number in range(40) for each in range(100)]
    assert 5 < rounds < 15


def test_one_batch_that_becomes_very_many_is_taken_in_parts() -> None:
    partition = _at(0)
    partition.alone_until = 30_000
    log = _batch(0, 25_000, size=1)
    assert len(_cut(partition, log)) == rebuild.BATCHES_AT_ONCE
    assert partition.fetched == rebuild.BATCHES_AT_ONCE
    assert len(_cut(partition, log)) == rebuild.BATCHES_AT_ONCE
    assert [piece.first for piece in _cut(partition, log)] == list(range(20_000, 25_000))
    assert partition.fetched == 25_000


def test_offsets_up_to_the_farthest_are_copied() -> None:
    partition = _at(FARTHEST - 10)
    pieces = _cut(partition, _batch(FARTHEST - 10) + _batch(FARTHEST - 5))
    assert sum(piece.count for piece in pieces) == 10
    assert partition.fetched == FARTHEST
    _next_wish(partition)


def test_times_at_both_ends_of_all_numbers() -> None:
    """Whatever becomes of them, it is one partition's affair: no error but the one that says so."""
    for first in (-(1 << 63), -1, 0, NOW, LARGEST):
        for second in (-(1 << 63), -1, 0, NOW, LARGEST):
            for attributes in (0, APPEND_TIME):
                partition = _at(0)
                log = _batch(0, time=first) + _batch(5, time=second, attributes=attributes)
                pieces = _cut(partition, log)
                assert sum(piece.count for piece in pieces) == partition.fetched
