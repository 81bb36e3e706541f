"""What is written beside the records is written in the end, however often it is refused before."""

import time
from typing import Any

from twinlog.errors import RefusedError, UnreachableError
from twinlog.kafka.reading import records_from
from twinlog.model import TopicPartition
from twinlog.pipeline.clerk import Clerk, Note, newest

PLACE = TopicPartition("t", 0)


class _Cluster:
    """Takes nothing until it is told to."""

    def __init__(self) -> None:
        self.refusal: Exception | None = UnreachableError("away")
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


def _clerk() -> tuple[Clerk, _Cluster]:
    cluster = _Cluster()
    return Clerk({"target": cluster}), cluster  # type: ignore[dict-item]


def _note(value: bytes, key: bytes | None = b"k", *, replaces: bool = True) -> Note:
    return Note("target", PLACE, key, value, replaces=replaces)


def test_of_what_could_not_be_written_only_the_newest_is_and_entries_all_are() -> None:
    clerk, cluster = _clerk()
    for number in range(3):
        clerk.put([_note(b"cursor %d" % number), _note(b"event %d" % number, None, replaces=False)])
    while cluster.attempts < 2:
        time.sleep(0.01)
    assert clerk.error == "away"
    cluster.refusal = None
    assert clerk.flush(5)
    assert cluster.values == [b"event 0", b"event 1", b"cursor 2", b"event 2"]
    clerk.close()


def test_the_last_writes_are_not_put_off() -> None:
    """After many refusals it tries once in a while only; but the end of an epoch does not wait for that."""
    clerk, cluster = _clerk()
    clerk.put([_note(b"last")])
    while cluster.attempts < 5:
        time.sleep(0.01)
    cluster.refusal = None
    began = time.monotonic()
    assert clerk.flush(5)
    assert time.monotonic() - began < 0.5
    clerk.close()


def test_a_record_that_is_refused_for_itself_holds_up_no_other() -> None:
    clerk, cluster = _clerk()
    cluster.refusal = RefusedError("too large", 10)
    clerk.put([_note(b"large")])
    assert clerk.flush(5)
    cluster.refusal = None
    clerk.put([_note(b"next")])
    assert clerk.flush(5)
    assert cluster.values == [b"next"]
    clerk.close()


def test_entries_have_a_limit_and_cursors_have_none() -> None:
    notes = [_note(b"%d" % at, None, replaces=False) for at in range(6000)] + [
        _note(b"c", b"%d" % at) for at in range(9)
    ]
    kept = newest(notes)
    assert len(kept) == 4096 + 9
    assert kept[0].value == b"1904"
