"""Reads small topics (internal ones) as a consumer would: records, in order, to the end."""

from collections.abc import Iterator

from twinlog.errors import RefusedError
from twinlog.kafka import batch as b
from twinlog.kafka import codes
from twinlog.kafka.client import EARLIEST, LATEST, READ_COMMITTED, Client
from twinlog.kafka.records import Record, decode
from twinlog.model import TopicPartition


def records_from(records: bytes | memoryview | None, start: int) -> Iterator[Record]:
    """The records from offset `start` on in an answer to Fetch; control batches are left out.

    So are batches that make no sense: whoever may write to a topic must not be able to keep us from what follows.
    """
    for batch, _, magic in _batches(records):
        if magic >= 2 and b.HEADER.unpack_from(batch)[5] & b.CONTROL:
            continue
        try:
            decoded = decode(batch)
        except ValueError:
            continue
        for record in decoded:
            if record.offset >= start:
                yield record


def batch_end(records: bytes | memoryview | None, start: int = -1) -> int | None:
    """The offset after the last whole batch, whatever is in it; None where that is not behind `start`."""
    found = start
    for batch, base, magic in _batches(records):
        found = max(found, base + (b.HEADER.unpack_from(batch)[6] if magic >= 2 else 0) + 1)
    return found if start < found <= b.FARTHEST else None


def _batches(records: bytes | memoryview | None) -> Iterator[tuple[memoryview, int, int]]:
    """The whole batches, with their base offset and magic. One of magic 2 has at least a header."""
    view = memoryview(records or b"")
    at = 0
    while len(view) - at >= b.SMALLEST:
        base, length, _, magic = b.PREFIX.unpack_from(view, at)
        end = at + b.LOG_OVERHEAD + length
        smallest = b.HEADER.size if magic >= 2 else b.SMALLEST
        if end > len(view) or end - at < smallest:
            return
        yield view[at:end], base, magic
        at = end


class TopicReader:
    """All of a topic, then what is new in it. Aborted transactions are not told apart: none of ours has any."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self.next: dict[int, int] = {}

    def read(self) -> Iterator[Record]:
        """Up to the end that the topic has now; nothing when there is no such topic."""
        info = self._client.metadata([self._topic]).topics.get(self._topic)
        if info is None or info.error == codes.UNKNOWN_TOPIC_OR_PARTITION:
            return
        if info.error:
            raise RefusedError(
                f"cluster {self._client.alias}: topic {self._topic}: {codes.name(info.error)}", info.error
            )
        places = [TopicPartition(self._topic, index) for index in sorted(info.leaders)]
        starts, _ = self._client.list_offsets(places, EARLIEST)
        ends, failed = self._client.list_offsets(places, LATEST, READ_COMMITTED)
        for place, code in failed.items():
            raise RefusedError(f"cluster {self._client.alias}: {place}: {codes.name(code)}", code)
        for place in places:
            at = max(self.next.get(place.partition, 0), starts.get(place, 0))
            while at < ends[place]:
                answer = self._client.read(place, at, isolation=READ_COMMITTED)
                if answer.error_code:
                    raise RefusedError(
                        f"cluster {self._client.alias}: {place}: {codes.name(answer.error_code)}", answer.error_code
                    )
                yield from records_from(answer.records, at)
                at = batch_end(answer.records, at) or ends[place]
            self.next[place.partition] = at
