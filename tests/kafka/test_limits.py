"""Limits of batches: records, offsets, memory and the work of one call."""

import struct
import zlib

import pytest

from tests.kafka.conftest import batch, run
from twinlog.kafka import codecs, legacy_messages, rebuild, records
from twinlog.kafka.batch import MAX_BATCH_RECORDS, MAX_OFFSET
from twinlog.kafka.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress


def _with(made: memoryview, at: int, layout: str, value: int) -> memoryview:
    copy = bytearray(made)
    struct.pack_into(layout, copy, at, value)
    return memoryview(copy)


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_too_many_records(codec: int) -> None:
    made = _with(batch(run(5), codec), 57, ">i", MAX_BATCH_RECORDS + 1)
    with pytest.raises(ValueError, match=f"{MAX_BATCH_RECORDS + 1} records"):
        rebuild.rebuild([made], start=0, codec=None, max_bytes=1 << 20)
    with pytest.raises(ValueError, match=f"{MAX_BATCH_RECORDS + 1} records"):
        records.decode(made)


def test_too_many_legacy_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy_messages, "MAX_BATCH_RECORDS", 20)
    for count in (20, 21):
        inner = b"".join(struct.pack(">qiIbbqii", at, 22, 0, 1, 0, 0, -1, -1) for at in range(count))
        packed = bytes(compress(GZIP, inner))
        body = struct.pack(">bbqii", 1, GZIP, 0, -1, len(packed)) + packed
        entry = struct.pack(">qiI", count - 1, 4 + len(body), zlib.crc32(body)) + body
        if count == 20:
            assert len(legacy_messages.read(memoryview(entry))[1]) == count
        else:
            with pytest.raises(ValueError, match="more than 20 messages"):
                legacy_messages.read(memoryview(entry))


@pytest.mark.parametrize("base", [MAX_OFFSET + 1, (1 << 63) - 1])
def test_invalid_offsets(base: int) -> None:
    """The offset of a record would have more than 64 bits."""
    gaps = batch([*run(1), *run(1, offset=7)])
    with pytest.raises(ValueError, match=f"invalid offset {base}"):
        rebuild.rebuild([_with(gaps, 0, ">q", base)], start=0, codec=None, max_bytes=1 << 20)
    body = struct.pack(">bbqii", 1, 0, 0, -1, -1)
    entry = struct.pack(">qiI", base, 4 + len(body), zlib.crc32(body)) + body
    with pytest.raises(ValueError, match=f"offset {base}"):
        rebuild.rebuild([memoryview(entry)], start=0, codec=None, max_bytes=1 << 20)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_out_of_memory_is_an_error_of_the_batch(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = bytes(compress(codec, bytes(10_000)))

    def none_left(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(codecs, "_decompress_growing", none_left)
    monkeypatch.setattr(codecs, "_snappy_block", none_left)
    with pytest.raises(ValueError, match="not enough memory"):
        decompress(codec, packed)


def test_rebuild_stops_at_the_limit() -> None:
    log = [batch(run(10, offset=10 * number, size=1000)) for number in range(10)]
    made, left = rebuild.rebuild_some(log, start=3, codec=None, max_bytes=1 << 20, at_once=25_000)
    assert (made[0].first, made[-1].last, left) == (3, 29, 30)
    made, left = rebuild.rebuild_some(log[3:], start=30, codec=None, max_bytes=1 << 20, at_once=10**9)
    assert (made[0].first, made[-1].last, left) == (30, 99, None)
    made, left = rebuild.rebuild_some(log, start=0, codec=None, max_bytes=1500, batches_at_once=7)
    assert ([each.first for each in made], left) == ([0, 1, 2, 3, 4, 5, 6], 7)


def test_rebuild_always_makes_progress() -> None:
    """A start after the last record of a batch whose header announces more."""
    log = [batch(run(10, size=1000), last=50), batch(run(10, offset=51, size=1000))]
    made, left = rebuild.rebuild_some(log, start=20, codec=None, max_bytes=1 << 20, at_once=1)
    assert ([each.first for each in made], left) == ([51], None)
