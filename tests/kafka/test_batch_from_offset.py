"""The part of a fetch response from an offset on."""

from lab import batches
from lab.batches import Record
from twinlog.kafka.batch import from_offset


def _log() -> tuple[memoryview, list[int]]:
    """Batches with the offsets 0-4, 5-9 and 10-14, and where each starts."""
    data, starts = bytearray(), []
    for base in (0, 5, 10):
        starts.append(len(data))
        batch = bytearray(batches.encode([Record(1, b"k", b"v")] * 5))
        batch[:8] = base.to_bytes(8, "big")
        data += batch
    return memoryview(data), starts


def test_batches_that_end_before_it_are_left_out() -> None:
    log, starts = _log()
    for offset, batch in ((0, 0), (4, 0), (5, 1), (9, 1), (14, 2)):
        assert from_offset(log, offset) == log[starts[batch] :]
    assert not from_offset(log, 15)


def test_a_truncated_batch_at_the_end_is_kept() -> None:
    log, starts = _log()
    assert from_offset(log[:-1], 10) == log[starts[2] : -1]


def test_nonsense_is_kept_for_the_conversion_to_report() -> None:
    assert from_offset(memoryview(bytes(40)), 7) == bytes(40)
    assert not from_offset(memoryview(b"abc"), 7)
