"""MM2's offset-syncs topic: pairs of offsets, (source, target), of one and the same record; and when to write one.

In an ordinary stretch of a partition T - S stays the same. It changes where the source has a gap (compaction,
transaction markers, a lost range: T - S falls) and where somebody else writes to the remote topic (it grows).
A pair says where one record is. `since` says more: **from `since` to `upstream` there is no gap, every source offset S
of that run is at target offset S + (T - S)**. So one sync translates a whole run exactly, also when compaction has
removed all the others.

Why T - S of two neighbouring syncs is not enough to know that nothing lies between them: a gap of five records and
five records of somebody else cancel out. SyncGate writes in between wherever a pair with another T - S exists. None
does if gap and foreign records fall on the same place; and a sync that a crash or an error kept from being written is
missing for ever. `since` holds in all these cases, because it speaks only of what one lifetime has seen itself.

`since` travels in a header, which MM2 neither writes nor reads; key and value are MM2's, byte by byte.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

_LENGTH = struct.Struct(">h")
_PARTITION = struct.Struct(">i")
_OFFSETS = struct.Struct(">qq")
_SINCE = struct.Struct(">q")

SINCE_HEADER = "twinlog.since"
Headers = Iterable[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """`topic` is its name on the source. MM2's own syncs have no `since`: they promise one record, no run."""

    topic: str
    partition: int
    upstream: int
    downstream: int
    since: int | None = None

    @property
    def difference(self) -> int:
        return self.downstream - self.upstream

    def turned(self, topic: str) -> "OffsetSync":
        """The same pair, seen from the target: by it positions in the remote topic are translated back."""
        since = None if self.since is None else self.since + self.difference
        return OffsetSync(topic, self.partition, self.downstream, self.upstream, since)


def encode_key(sync: OffsetSync) -> bytes:
    topic = sync.topic.encode()
    return _LENGTH.pack(len(topic)) + topic + _PARTITION.pack(sync.partition)


def encode_value(sync: OffsetSync) -> bytes:
    return _OFFSETS.pack(sync.upstream, sync.downstream)


def encode_headers(sync: OffsetSync) -> list[tuple[str, bytes]]:
    return [] if sync.since is None else [(SINCE_HEADER, _SINCE.pack(sync.since))]


def decode(key: bytes | None, value: bytes | None, headers: Headers = ()) -> OffsetSync:
    """ValueError says what is wrong. Bytes behind the last field are no mistake: to MM2 they are not there."""
    if key is None or value is None:
        raise ValueError(f"an offset sync has no {'key' if key is None else 'value'}")
    if len(key) < _LENGTH.size:
        raise ValueError(f"an offset sync's key has {len(key)} bytes: too short for a topic's length")
    (length,) = _LENGTH.unpack_from(key)
    end = _LENGTH.size + length
    if length < 0:
        raise ValueError(f"an offset sync's key says that its topic has {length} bytes")
    if len(key) < end + _PARTITION.size:
        raise ValueError(
            f"an offset sync's key has {len(key)} bytes: too short for a topic of {length} and a partition"
        )
    if len(value) < _OFFSETS.size:
        raise ValueError(f"an offset sync's value has {len(value)} bytes: too short for two offsets")
    try:
        topic = key[_LENGTH.size : end].decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"an offset sync's topic is not UTF-8: {error.reason}") from error
    (partition,) = _PARTITION.unpack_from(key, end)
    upstream, downstream = _OFFSETS.unpack_from(value)
    return OffsetSync(topic, partition, upstream, downstream, _since(headers, upstream))


def _since(headers: Headers, upstream: int) -> int | None:
    """None also for a header that makes no sense: the pair itself still holds."""
    for name, content in headers:
        if name == SINCE_HEADER and content is not None and len(content) == _SINCE.size:
            since: int = _SINCE.unpack(content)[0]
            return since if 0 <= since <= upstream else None
    return None


class SyncGate:
    """When the acknowledged batches of one partition are worth a sync.

    At once: the first batch of this lifetime, and every batch where a run begins (it does not follow the last one on
    both sides, or has gaps inside). With it goes the end of the run before, if that was not written yet. Otherwise at
    most one sync per `interval` seconds; until then it is pending, and `due` hands it out.

    Invariants, for the syncs of one gate in the order in which they are handed out:

    * each is the pair of a batch's last record; only where that alone would hide a change, of its first one, too;
    * all records of one lifetime from `since` to `upstream` have the same T - S, and none is missing;
    * between two neighbours with the same T - S there is no gap, unless the later one's `since` lies behind the
      earlier one: then a gap and foreign records of the same number fell on one place;
    * upstream offsets never decrease, except where the source itself was rewound (a decrease makes MM2 forget).
    """

    def __init__(self, topic: str, partition: int, *, resumed: OffsetSync | None = None, interval: float = 1.0) -> None:
        """`resumed`: the last record before this lifetime, if it is proven where it lies; its run may go on."""
        self._topic = topic
        self._partition = partition
        self._interval = interval
        self._last = resumed  # acknowledged
        self._written = resumed  # handed out; if it is another, the last one is pending
        self._written_at = float("-inf")

    def acked(self, *, first_up: int, last_up: int, count: int, first_down: int, now: float) -> tuple[OffsetSync, ...]:
        """The syncs to be written now, in this order.

        `first_up` and `last_up` are records' own offsets: a batch's header may claim more, if compaction took its end.
        """
        if not 1 <= count <= last_up - first_up + 1:
            raise ValueError(f"no batch has {count} records from offset {first_up} to {last_up}")
        last = self._last
        whole = count == last_up - first_up + 1
        follows, begin = False, first_up
        if last is not None and (first_up, first_down) == (last.upstream + 1, last.downstream + 1):
            follows, begin = True, last.upstream if last.since is None else last.since
        # Where in the batch the gaps are is not known here, so a batch with gaps promises its last record only.
        sync = self._sync(last_up, first_down + count - 1, begin if whole else last_up)
        self._last = sync
        if follows and whole:
            return self._hand_out(now, sync) if now >= self._written_at + self._interval else ()
        # What a source that was rewound no longer has is not worth a sync.
        syncs = [last] if last is not None and last is not self._written and last.upstream < first_up else []
        if not whole and last is not None and last.difference == sync.difference:
            # Foreign records before the batch and gaps inside it cancel out: only its first record shows that.
            syncs.append(self._sync(first_up, first_down, first_up))
        return self._hand_out(now, *syncs, sync)

    def due(self, now: float, *, at_once: bool = False) -> OffsetSync | None:
        """The pending sync, once its time has come; `at_once` before a stop."""
        early = now < self._written_at + self._interval and not at_once
        if self._last is None or self._last is self._written or early:
            return None
        return self._hand_out(now, self._last)[0]

    def _hand_out(self, now: float, *syncs: OffsetSync) -> tuple[OffsetSync, ...]:
        self._written = syncs[-1]
        self._written_at = now
        return syncs

    def _sync(self, upstream: int, downstream: int, since: int) -> OffsetSync:
        return OffsetSync(self._topic, self._partition, upstream, downstream, since)
