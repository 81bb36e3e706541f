"""The background writer retries until every record is written."""

import time
from typing import Any

from twinlog.errors import RefusedError, UnreachableError
from twinlog.kafka.topic_reader import records_from
from twinlog.model import TopicPartition
from twinlog.replicate.background_writer import BackgroundWriter, PendingRecord, newest

TP = TopicPartition("t", 0)


class _Cluster:
    """Refuses every write while `refusal` is set."""

    def __init__(self) -> None:
        self.refusal: Exception | None = UnreachableError("unreachable")
        self.attempts = 0
        self.values: list[bytes | None] = []

    def append(self, _: TopicPartition, batch: Any) -> int:
        self.attempts += 1
        if self.refusal is not None:
            raise self.refusal
        self.values += [record.value for record in records_from(bytes(batch), 0)]
        return 0

    def close(self) -> None:
        pass


def _writer() -> tuple[BackgroundWriter, _Cluster]:
    cluster = _Cluster()
    return BackgroundWriter({"target": cluster}), cluster  # type: ignore[dict-item]


def _record(value: bytes, key: bytes | None = b"k", *, replaces: bool = True) -> PendingRecord:
    return PendingRecord("target", TP, key, value, replaces=replaces)


def test_of_pending_records_only_the_newest_of_a_key_is_written_and_all_without_a_key() -> None:
    writer, cluster = _writer()
    for number in range(3):
        writer.put([_record(b"position %d" % number), _record(b"event %d" % number, None, replaces=False)])
    while cluster.attempts < 2:
        time.sleep(0.01)
    assert writer.error == "unreachable"
    cluster.refusal = None
    assert writer.flush(5)
    assert cluster.values == [b"event 0", b"event 1", b"position 2", b"event 2"]
    writer.close()


def test_flush_does_not_wait_for_the_backoff() -> None:
    """After many failures retries are rare, but the end of an epoch does not wait for the next one."""
    writer, cluster = _writer()
    writer.put([_record(b"last")])
    while cluster.attempts < 5:
        time.sleep(0.01)
    cluster.refusal = None
    began = time.monotonic()
    assert writer.flush(5)
    assert time.monotonic() - began < 1.0, "the next retry would be in 1.6 s"
    writer.close()


def test_an_invalid_record_does_not_block_the_next() -> None:
    writer, cluster = _writer()
    cluster.refusal = RefusedError("too large", 10)
    writer.put([_record(b"large")])
    assert writer.flush(5)
    cluster.refusal = None
    writer.put([_record(b"next")])
    assert writer.flush(5)
    assert cluster.values == [b"next"]
    writer.close()


def test_records_without_a_key_have_a_byte_limit_and_positions_have_none() -> None:
    """4,096 records may be 4 GB."""
    entries = [_record(b"%04d" % at, None, replaces=False) for at in range(100)]
    syncs = [_record(b"%04d" % at, b"%d" % (at % 3), replaces=False) for at in range(30)]
    stored_positions = [_record(b"c" * 1000, b"position %d" % at) for at in range(9)]
    kept = newest([*entries, *syncs, *stored_positions], max_bytes=10_000)
    assert [record for record in kept if record in stored_positions] == stored_positions
    assert [record for record in kept if record in syncs][-3:] == syncs[-3:], "the newest of each key"
    assert sum(record.size for record in kept) < 10_000
    assert entries[-1] in kept
    assert entries[0] not in kept


def test_pending_records_are_compacted_while_nothing_can_be_written() -> None:
    writer, cluster = _writer()
    for _ in range(30):
        writer.put([_record(b"c", b"%d" % at) for at in range(1000)])
    assert sum(map(len, writer._writers["target"]._pending.values())) <= 20_000 + 1000
    assert writer.is_waiting(TP)
    cluster.refusal = None
    assert writer.flush(5)
    assert len(cluster.values) == 1000
    assert not writer.is_waiting(TP)
    writer.close()
