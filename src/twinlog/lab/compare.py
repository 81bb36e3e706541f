"""Proves that two logs are equal, record by record: key, value, headers, timestamp, order, partition.

Counting proves nothing, and no client will do: where a header's name is no UTF-8, kafka-python and aiokafka fail,
confluent-kafka fails, and Java puts another name in its place. So raw batches are read (wire.py) and decoded by the lab
(batches.py).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple

from twinlog.errors import LabError
from twinlog.lab import batches
from twinlog.lab.batches import Header, Headers
from twinlog.lab.wire import Isolation, Wire

_SHOWN = 40  # bytes of a value in a message
_SHOWN_HEADERS = 5
_KINDS = ("missing", "unknown", "duplicates", "moved", "reordered")


class Seen(NamedTuple):
    """A record of a log; codec and time type are None where they are not compared."""

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
    """The first place where two partitions differ; None stands for a record that is not there."""

    partition: int
    position: int  # how many records from the partition's start
    left: Any
    right: Any

    def __str__(self) -> str:
        where = f"partition {self.partition}, record {self.position}"
        if self.left is None or self.right is None:
            return f"{where}: only on the {'right' if self.left is None else 'left'}: {self.right or self.left}"
        fields = " and ".join(
            name.replace("_", " ")
            for name, ours, theirs in zip(Seen._fields, self.left, self.right, strict=True)
            if ours != theirs
        )
        return f"{where}: another {fields}: {self.left} on the left, {self.right} on the right"


@dataclass(frozen=True, slots=True)
class Comparison:
    records: int  # equal ones
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """How the right log is wrong, where every record of the left one is unique."""

    records: int  # on the left
    missing: int  # on the left only
    unknown: int  # on the right only
    duplicates: int  # copies beyond the first
    moved: int  # in another partition
    reordered: int  # the fewest records one would have to take out so that the rest stands in order
    examples: tuple[str, ...]  # the first of each kind

    @property
    def clean(self) -> bool:
        return not any(getattr(self, kind) for kind in _KINDS)

    def __str__(self) -> str:
        counts = ", ".join(f"{getattr(self, kind):,} {kind}" for kind in _KINDS if getattr(self, kind))
        return f"{self.records:,} records: {counts or 'all there, once and in order'}" + "".join(
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
    """`left` and `right` are a client's properties of either cluster, as `Cluster.client_properties` gives them.

    With read_committed, records of aborted and of open transactions are not there. `right_isolation` is the left's if
    not given. `codecs` compares also how each record's batch was compressed, `time_types` what its timestamp means.
    """
    equal = 0
    differences = []
    details = _Details(codecs, time_types)
    with Wire(left) as ours, Wire(right) as theirs:
        for partition in _partitions(ours, left_topic, theirs, right_topic):
            pairs = zip_longest(
                _records(ours, left_topic, partition, isolation, details),
                _records(theirs, right_topic, partition, right_isolation or isolation, details),
            )
            for position, (a, b) in enumerate(pairs):
                if a != b:
                    differences.append(Difference(partition, position, _seen(a), _seen(b)))
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
    identity: Callable[[Seen], object] = lambda record: (record.key, record.value),
) -> Tally:
    """Says what went wrong between two logs that differ.

    `identity` tells every record of the left from all others: by default its key and value, so let those count.
    """
    with Wire(left) as ours, Wire(right) as theirs:
        partitions = _partitions(ours, left_topic, theirs, right_topic)
        places: dict[object, tuple[int, int]] = {}
        for partition in partitions:
            for position, record in enumerate(_records(ours, left_topic, partition, isolation)):
                name = identity(Seen(*record))
                if name in places:
                    raise LabError(f"{left_topic}-{partition}, record {position}, is not unique: {Seen(*record)}")
                places[name] = (partition, position)
        found: set[object] = set()
        count = _Count()
        for partition in partitions:
            order: list[int] = []
            for position, record in enumerate(_records(theirs, right_topic, partition, right_isolation or isolation)):
                seen = Seen(*record)
                name = identity(seen)
                if name in places and name not in found and places[name][0] == partition:
                    order.append(places[name][1])
                else:
                    kind = "unknown" if name not in places else "duplicates" if name in found else "moved"
                    count.add(kind, f"partition {partition}, record {position}: {seen}")
                found.add(name)
            if out_of_order := len(order) - _longest_rise(order):
                early = next(b for a, b in pairwise(order) if b < a)
                count.add("reordered", f"partition {partition}: the left's record {early} comes late", out_of_order)
        for name, (partition, position) in places.items():
            if name not in found:
                count.add("missing", f"partition {partition}, record {position}: {name}"[:300])
    return Tally(len(places), **{kind: count.of[kind] for kind in _KINDS}, examples=tuple(count.examples.values()))


def read(
    properties: Mapping[str, str], topic: str, partition: int = 0, isolation: Isolation = "read_committed"
) -> list[Seen]:
    """A partition's records, as they are compared."""
    with Wire(properties) as wire:
        return [
            Seen(*record)
            for record in _records(wire, topic, partition, isolation, _Details(codecs=True, time_types=True))
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


def _partitions(ours: Wire, left_topic: str, theirs: Wire, right_topic: str) -> list[int]:
    found = sorted({*ours.partitions(left_topic), *theirs.partitions(right_topic)})
    if not found:
        raise LabError(f"neither {left_topic} nor {right_topic} is there")
    return found


def _records(
    wire: Wire, topic: str, partition: int, isolation: Isolation, details: _Details = _PLAIN
) -> Iterator[tuple[Any, ...]]:
    if partition not in wire.partitions(topic):
        return
    start, _ = wire.offsets(topic, partition)
    for batch in wire.batches(topic, partition, isolation):
        header = Header.of(batch)
        if header.control:
            continue
        offsets, records = batches.decode(batch)
        if header.base_offset < start:  # records were deleted up to here, and brokers serve batches whole
            records = [record for offset, record in zip(offsets, records, strict=True) if offset >= start]
        if details.codecs or details.time_types:
            codec = header.codec if details.codecs else None
            time_type = ("LogAppendTime" if header.log_append_time else "CreateTime") if details.time_types else None
            for record in records:
                yield (*record, codec, time_type)
        else:
            yield from records


def _seen(record: tuple[Any, ...] | None) -> Seen | None:
    return None if record is None else Seen(*record)


def _longest_rise(numbers: list[int]) -> int:
    """The length of the longest rising subsequence: what is left in order when as few as possible are taken out."""
    tails: list[int] = []
    for number in numbers:
        place = bisect_left(tails, number)
        if place == len(tails):
            tails.append(number)
        else:
            tails[place] = number
    return len(tails)


def _short(value: bytes | None) -> str:
    if value is None:
        return "null"
    return repr(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!r}... ({len(value):,} bytes)"
