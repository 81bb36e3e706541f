"""Compares two logs record by record: key, value, headers, timestamp, order, partition.

No client can be used: if a header's name is not valid UTF-8, kafka-python, aiokafka and confluent-kafka fail, and Java
replaces the name. So raw batches are fetched (raw_protocol.py) and decoded by the lab (batches.py).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple

from lab import batches
from lab.batches import Header, Headers
from lab.errors import LabError
from lab.raw_protocol import Isolation, RawProtocol

_SHOWN = 40  # bytes of a value in a message
_SHOWN_HEADERS = 5
_KINDS = ("missing", "unknown", "duplicates", "moved", "reordered")


class StoredRecord(NamedTuple):
    """A record of a log; codec and time type are None if they are not compared."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    codec: str | None = None
    time_type: str | None = None

    def __str__(self) -> str:
        headers = [f"{_short(name)}: {_short(value)}" for name, value in self.headers[:_SHOWN_HEADERS]]
        if len(self.headers) > _SHOWN_HEADERS:
            headers.append(f"... {len(self.headers) - _SHOWN_HEADERS} more")
        parts = [f"time {self.timestamp}", f"key {_short(self.key)}", f"value {_short(self.value)}"]
        parts += [f"headers {{{', '.join(headers)}}}"] if headers else []
        parts += [extra for extra in (self.codec, self.time_type) if extra]
        return f"({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first record in which two partitions differ; None if it is missing on that side."""

    partition: int
    position: int  # index of the record, from the partition's start
    left: Any
    right: Any

    def __str__(self) -> str:
        where = f"partition {self.partition}, record {self.position}"
        if self.left is None or self.right is None:
            return f"{where}: only on the {'right' if self.left is None else 'left'}: {self.right or self.left}"
        fields = " and ".join(
            name.replace("_", " ")
            for name, ours, theirs in zip(StoredRecord._fields, self.left, self.right, strict=True)
            if ours != theirs
        )
        return f"{where}: different {fields}: {self.left} on the left, {self.right} on the right"


@dataclass(frozen=True, slots=True)
class Comparison:
    records: int  # equal ones
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """How the right log differs from the left one, whose records are unique."""

    records: int  # on the left
    missing: int  # on the left only
    unknown: int  # on the right only
    duplicates: int  # copies beyond the first
    moved: int  # in another partition
    reordered: int  # the fewest records whose removal leaves the others in order
    examples: tuple[str, ...]  # the first of each kind

    @property
    def clean(self) -> bool:
        return not any(getattr(self, kind) for kind in _KINDS)

    def __str__(self) -> str:
        counts = ", ".join(f"{getattr(self, kind):,} {kind}" for kind in _KINDS if getattr(self, kind))
        return f"{self.records:,} records: {counts or 'complete, no duplicates, in order'}" + "".join(
            f"\n  {example}" for example in self.examples
        )


def compare(
    left: Mapping[str, str],
    left_topic: str,
    right: Mapping[str, str],
    right_topic: str,
    *,
    isolation: Isolation = "read_committed",
    right_isolation: Isolation | None = None,
    codecs: bool = False,
    time_types: bool = False,
) -> Comparison:
    """`left` and `right` are the clusters' `Cluster.client_properties`.

    With read_committed, records of aborted and open transactions are omitted. `right_isolation` defaults to the left's.
    `codecs` also compares how each record's batch was compressed, `time_types` the timestamp type.
    """
    equal = 0
    differences = []
    details = _Details(codecs, time_types)
    with RawProtocol(left) as ours, RawProtocol(right) as theirs:
        for partition in _partitions(ours, left_topic, theirs, right_topic):
            pairs = zip_longest(
                _records(ours, left_topic, partition, isolation, details),
                _records(theirs, right_topic, partition, right_isolation or isolation, details),
            )
            for position, (a, b) in enumerate(pairs):
                if a != b:
                    differences.append(Difference(partition, position, _stored(a), _stored(b)))
                    break
                equal += 1
    return Comparison(equal, tuple(differences))


def tally(
    left: Mapping[str, str],
    left_topic: str,
    right: Mapping[str, str],
    right_topic: str,
    *,
    isolation: Isolation = "read_committed",
    right_isolation: Isolation | None = None,
    identity: Callable[[StoredRecord], object] = lambda record: (record.key, record.value),
) -> Tally:
    """Counts the kinds of differences between two logs.

    `identity` must be unique for every record on the left (default: key and value).
    """
    with RawProtocol(left) as ours, RawProtocol(right) as theirs:
        partitions = _partitions(ours, left_topic, theirs, right_topic)
        positions: dict[object, tuple[int, int]] = {}
        for partition in partitions:
            for position, record in enumerate(_records(ours, left_topic, partition, isolation)):
                name = identity(StoredRecord(*record))
                if name in positions:
                    raise LabError(f"{left_topic}-{partition}, record {position}: not unique: {StoredRecord(*record)}")
                positions[name] = (partition, position)
        found: set[object] = set()
        count = _Count()
        for partition in partitions:
            order: list[int] = []
            for position, record in enumerate(_records(theirs, right_topic, partition, right_isolation or isolation)):
                stored = StoredRecord(*record)
                name = identity(stored)
                if name in positions and name not in found and positions[name][0] == partition:
                    order.append(positions[name][1])
                else:
                    kind = "unknown" if name not in positions else "duplicates" if name in found else "moved"
                    count.add(kind, f"partition {partition}, record {position}: {stored}")
                found.add(name)
            if out_of_order := len(order) - _longest_increasing(order):
                early = next(b for a, b in pairwise(order) if b < a)
                count.add("reordered", f"partition {partition}: record {early} of the left is late", out_of_order)
        for name, (partition, position) in positions.items():
            if name not in found:
                count.add("missing", f"partition {partition}, record {position}: {name}"[:300])
    return Tally(len(positions), **{kind: count.of[kind] for kind in _KINDS}, examples=tuple(count.examples.values()))


def read(
    properties: Mapping[str, str], topic: str, partition: int = 0, isolation: Isolation = "read_committed"
) -> list[StoredRecord]:
    """A partition's records, with codecs and time types."""
    with RawProtocol(properties) as raw:
        return [
            StoredRecord(*record)
            for record in _records(raw, topic, partition, isolation, _Details(codecs=True, time_types=True))
        ]


@dataclass(frozen=True, slots=True)
class _Details:
    codecs: bool = False
    time_types: bool = False


_PLAIN = _Details()


class _Count:
    def __init__(self) -> None:
        self.of = dict.fromkeys(_KINDS, 0)
        self.examples: dict[str, str] = {}

    def add(self, kind: str, example: str, count: int = 1) -> None:
        self.of[kind] += count
        self.examples.setdefault(kind, f"{kind}: {example}")


def _partitions(ours: RawProtocol, left_topic: str, theirs: RawProtocol, right_topic: str) -> list[int]:
    found = sorted({*ours.partitions(left_topic), *theirs.partitions(right_topic)})
    if not found:
        raise LabError(f"topics to compare do not exist: {left_topic}, {right_topic}")
    return found


def _records(
    raw: RawProtocol, topic: str, partition: int, isolation: Isolation, details: _Details = _PLAIN
) -> Iterator[tuple[Any, ...]]:
    if partition not in raw.partitions(topic):
        return
    start, _ = raw.offsets(topic, partition)
    for batch in raw.batches(topic, partition, isolation):
        header = Header.of(batch)
        if header.control:
            continue
        offsets, records = batches.decode(batch)
        if header.base_offset < start:  # the log starts inside this batch, and brokers return complete batches
            records = [record for offset, record in zip(offsets, records, strict=True) if offset >= start]
        if details.codecs or details.time_types:
            codec = header.codec if details.codecs else None
            time_type = ("LogAppendTime" if header.log_append_time else "CreateTime") if details.time_types else None
            for record in records:
                yield (*record, codec, time_type)
        else:
            yield from records


def _stored(record: tuple[Any, ...] | None) -> StoredRecord | None:
    return None if record is None else StoredRecord(*record)


def _longest_increasing(numbers: list[int]) -> int:
    """The length of the longest increasing subsequence."""
    tails: list[int] = []
    for number in numbers:
        index = bisect_left(tails, number)
        if index == len(tails):
            tails.append(number)
        else:
            tails[index] = number
    return len(tails)


def _short(value: bytes | None) -> str:
    if value is None:
        return "null"
    return repr(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!r}... ({len(value):,} bytes)"
