"""Rebuilt batches hold the same records, byte for byte, and are valid for brokers."""

import pytest

from tests.kafka.conftest import (
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
    NOW,
    PLENTY,
    TRANSACTIONAL,
    batch,
    checked,
    ones,
    run,
    section,
)
from twinlog.kafka.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from twinlog.kafka.rebuild import rebuild, recompress, split
from twinlog.kafka.records import Record, decode

# Contents


def test_tiny_batches_become_one() -> None:
    records = run(1000)
    rebuilt = rebuild(ones(records), start=0, codec=None, max_bytes=PLENTY)
    assert checked(rebuilt) == records
    assert [each.offsets for each in rebuilt] == [None]


@pytest.mark.parametrize("size", [*range(130), 440, 441, 442, 443, 450, 460, 8170, 8180, 8190, 8200, 2_100_000])
def test_records_of_all_sizes_pass(size: int) -> None:
    records = [Record(n, NOW, None, bytes([n]) * size) for n in range(3)]
    for log in (ones(records), [batch(records)], [*ones(records[:1]), batch(records[1:])]):
        assert checked(rebuild(log, start=0, codec=None, max_bytes=1 << 24), 1 << 24) == records


@pytest.mark.parametrize("count", [64, 65, 8192, 8193, 20_000])
def test_many_records_pass(count: int) -> None:
    records = run(count, size=1)
    for log in (ones(records), [batch(records)]):
        (rebuilt,) = rebuild(log, start=0, codec=None, max_bytes=PLENTY)
        assert checked([rebuilt]) == records


def test_gaps_are_closed_and_reported() -> None:
    records = [record for record in run(300, offset=1000) if record.offset % 7 not in {0, 3}]
    (rebuilt,) = rebuild([batch(records, base=995, last=1400)], start=0, codec=None, max_bytes=PLENTY)
    assert checked([rebuilt]) == records
    assert rebuilt.offsets is not None


def test_gap_between_batches() -> None:
    records = [*run(3), *run(3, offset=10)]
    for log in (ones(records), [batch(records[:3]), batch(records[3:])]):
        (rebuilt,) = rebuild(log, start=0, codec=None, max_bytes=PLENTY)
        assert list(rebuilt.offsets or ()) == [0, 1, 2, 10, 11, 12]


@pytest.mark.parametrize("codec", range(5))
def test_append_time_becomes_create_time(codec: int) -> None:
    records = run(100, step=3)
    log = [
        batch(records[:99], codec, LOG_APPEND_TIME, max_timestamp=NOW + 500),
        batch(records[99:], codec, LOG_APPEND_TIME, max_timestamp=NOW + 400),
    ]
    (rebuilt,) = rebuild(log, start=0, codec=None, max_bytes=PLENTY)
    assert [record.timestamp for record in checked([rebuilt])] == [NOW + 500] * 99 + [NOW + 400]


def test_flags_of_the_source_are_removed() -> None:
    records = run(3)
    log = [
        batch(records[:1], flags=TRANSACTIONAL | DELETE_HORIZON),
        batch(records[1:], flags=TRANSACTIONAL | DELETE_HORIZON),
    ]
    assert checked(rebuild(log, start=0, codec=None, max_bytes=PLENTY)) == records


def test_a_delete_horizon_in_the_base_timestamp_does_not_move_records() -> None:
    """With bit 6 the base timestamp is the horizon, far from the records' own times; the deltas count from it."""
    records = run(3)
    log = [batch(records, flags=DELETE_HORIZON, base_timestamp=NOW + 86_400_000)]
    assert checked(rebuild(log, start=0, codec=None, max_bytes=PLENTY)) == records


def test_times_may_run_backwards_and_far() -> None:
    times = [
        NOW,
        NOW - 1,
        NOW - 64,
        NOW - 65,
        NOW + 63,
        NOW + 64,
        NOW - 8192,
        NOW - 8193,
        NOW + 8191,
        NOW + 8192,
        0,
        -1,
        1 << 50,
    ]
    records = [Record(n, time, b"k", b"v") for n, time in enumerate(times)]
    for log in (ones(records), [batch(records)], [batch(records, base_timestamp=0)]):
        (rebuilt,) = rebuild(log, start=0, codec=None, max_bytes=PLENTY)
        assert checked([rebuilt]) == records


def test_times_too_far_apart_for_one_batch_get_two() -> None:
    far = [Record(0, -(1 << 62), None, None), Record(1, (1 << 63) - 1, None, None), Record(2, 5, None, None)]
    rebuilt = rebuild(ones(far), start=0, codec=None, max_bytes=PLENTY)
    assert checked(rebuilt) == far
    assert [each.count for each in rebuilt] == [1, 2]


def test_headers_are_bytes() -> None:
    headers = ((b"\xff\xfe", b"\x00"), (b"", None), (b"same", b"1"), (b"same", b"1"), (b"\xc3\x28", b""))
    records = [Record(n, NOW, None, None, headers) for n in range(3)]
    assert checked(rebuild([*ones(records[:1]), batch(records[1:])], start=0, codec=None, max_bytes=PLENTY)) == records


def test_a_records_own_attributes_are_kept() -> None:
    """No client uses them yet; one that does needs them copied."""
    records = run(5)
    log = [batch(records[:1], record_attributes=0x7F), batch(records[1:], record_attributes=0x81)]
    (rebuilt,) = rebuild(log, start=1, codec=None, max_bytes=PLENTY)
    assert rebuilt.data[61:] == section([r._replace(offset=r.offset - 1) for r in records[1:]], 0, NOW + 1, 0x81)


def test_empty_batches_of_a_compacted_log_are_skipped() -> None:
    empty = memoryview(HEADER.pack(5, 49, 7, 2, 0, 0, 9, NOW, NOW, 1, 1, 1, 0))
    records = [*run(2), *run(2, offset=20)]
    assert (
        checked(rebuild([*ones(records[:2]), empty, batch(records[2:])], start=0, codec=None, max_bytes=PLENTY))
        == records
    )
    assert rebuild([empty], start=0, codec=None, max_bytes=PLENTY) == []
    assert rebuild([], start=0, codec=None, max_bytes=PLENTY) == []


# What is left out, and where batches end


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("start", [0, 1, 5, 9, 10, 11, 50])
def test_records_before_the_start_are_left_out(codec: int, start: int) -> None:
    records = run(12)
    rebuilt = rebuild([batch(records[:10], codec), *ones(records[10:])], start=start, codec=NONE, max_bytes=PLENTY)
    assert checked(rebuilt) == records[start:]


def test_records_to_skip_leave_a_gap() -> None:
    records = run(6)
    log = [*ones(records[:2]), batch(records[2:4], GZIP), batch(records[4:], record_attributes=3)]
    rebuilt = rebuild(log, start=0, codec=NONE, max_bytes=PLENTY, skip={0, 2, 4, 99})
    assert checked(rebuilt) == [records[1], records[3], records[5]]
    assert rebuilt[0].data[-len(section(records[5:], 3, records[1].timestamp, 3)) :][1] == 3
    assert rebuild(log, start=0, codec=None, max_bytes=PLENTY, skip=set(range(6))) == []


def test_a_batch_ends_before_it_is_too_large() -> None:
    records = run(10, size=100)
    exact = len(rebuild([batch(records)], start=0, codec=None, max_bytes=PLENTY)[0].data)
    for max_bytes, counts in ((exact, [10]), (exact - 1, [9, 1]), (exact // 2, [4, 4, 2]), (10, [1] * 10)):
        for log in (ones(records), [batch(records)]):
            rebuilt = rebuild(log, start=0, codec=None, max_bytes=max_bytes)
            assert checked(rebuilt, max_bytes) == records
            assert [each.count for each in rebuilt] == counts


def test_a_batch_ends_when_it_has_enough_records() -> None:
    rebuilt = rebuild(ones(run(10)), start=0, codec=None, max_bytes=PLENTY, max_records=4)
    assert [(each.first, each.last) for each in rebuilt] == [(0, 3), (4, 7), (8, 9)]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_batch_too_large_after_compression_is_halved(codec: int) -> None:
    """Noise grows when it is compressed: what fits in the clear does not fit any more."""
    records = run(8, size=1000)
    plain = len(rebuild([batch(records)], start=0, codec=NONE, max_bytes=PLENTY)[0].data)
    rebuilt = rebuild([batch(records, codec)], start=0, codec=None, max_bytes=plain)
    assert checked(rebuilt, plain) == records
    assert [each.count for each in rebuilt] == [4, 4]


def test_a_large_batch_is_split() -> None:
    records = run(100, size=100)
    rebuilt = split(batch(records, ZSTD), 2000)
    assert checked(rebuilt, 2000) == records
    assert len(rebuilt) > 5
    assert {each.data[22] for each in rebuilt} == {ZSTD}


def test_codecs_are_kept_and_not_mixed() -> None:
    records = run(8)
    codecs = [NONE, NONE, GZIP, GZIP, NONE, ZSTD, LZ4, LZ4]
    log = [batch([record], codec) for record, codec in zip(records, codecs, strict=True)]
    rebuilt = rebuild(log, start=0, codec=None, max_bytes=PLENTY)
    assert checked(rebuilt) == records
    assert [(each.data[22], each.count) for each in rebuilt] == [(NONE, 2), (GZIP, 2), (NONE, 1), (ZSTD, 1), (LZ4, 2)]


@pytest.mark.parametrize("codec", range(5))
def test_codecs_are_mixed_when_the_target_has_its_own(codec: int) -> None:
    records = run(50)
    log = [batch(records[n * 10 : n * 10 + 10], n) for n in range(5)]
    (rebuilt,) = rebuild(log, start=0, codec=codec, max_bytes=PLENTY)
    assert checked([rebuilt]) == records
    assert rebuilt.data[22] == codec


# Recompression


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("other", range(5))
def test_recompression_changes_nothing_else(codec: int, other: int) -> None:
    whole = batch(run(30), codec, LOG_APPEND_TIME | TRANSACTIONAL, base=0, last=77)
    again = recompress(whole, other)[0]
    before, after = list(HEADER.unpack_from(whole)), list(HEADER.unpack_from(again))
    assert after[1] + 12 == len(again)
    assert after[5] == LOG_APPEND_TIME | TRANSACTIONAL | other
    before[1] = before[5] = after[1] = after[5] = 0
    assert before == after
    assert decode(memoryview(again)) == decode(whole)


def test_recompression_leaves_an_empty_batch_alone() -> None:
    empty = memoryview(HEADER.pack(5, 49, 7, 2, 0, 0, 9, NOW, NOW, 1, 1, 1, 0))
    assert recompress(empty, ZSTD)[0] == empty
