"""MM2's offset-syncs topic: pairs (source, target) of offsets of the same record; and when to write one.

Normally T - S is constant within a partition. It changes where the source has a gap (compaction, transaction markers, a
lost range: T - S falls) and where another producer writes to the remote topic (it grows). A pair locates one record.
`since` adds more: **from `since` to `upstream` there is no gap: every source offset S of that run is at target offset
S + (T - S)**. So one sync translates a whole run exactly, even when compaction has removed all the others.

Equal T - S of two neighbouring syncs does not prove that there is nothing between them: a gap of five records and five
foreign records cancel out. SyncGate writes a sync in between wherever a pair with another T - S exists. There is none
if gap and foreign records are at the same place; and a sync that a crash or an error prevented is missing permanently.
`since` holds in all these cases, because it only covers what a single process has observed itself.

`since` is a header that MM2 neither writes nor reads; key and value are MM2's, byte by byte. So is the name of the
remote topic: two flows between the same clusters share this topic, and may copy under different names.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

_LENGTH = struct.Struct(">h")
_PARTITION = struct.Struct(">i")
_OFFSETS = struct.Struct(">qq")
_SINCE = struct.Struct(">q")

SINCE_HEADER = "twinlog.since"
REMOTE_HEADER = "twinlog.remote"
Headers = Iterable[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """`topic` is the name on the source. MM2's own syncs have no `since`: they cover one record, not a run."""

    topic: str
    partition: int
    upstream: int
    downstream: int
    since: int | None = None
    remote: str | None = None  # the remote topic; None: written by MM2 or an older Twinlog

    @property
    def difference(self) -> int:
        return self.downstream - self.upstream

    def turned(self, topic: str) -> "OffsetSync":
        """The inverse pair, which translates offsets of the remote topic back."""
        since = None if self.since is None else self.since + self.difference
        return OffsetSync(topic, self.partition, self.downstream, self.upstream, since)


def encode_key(sync: OffsetSync) -> bytes:
    topic = sync.topic.encode()
    return _LENGTH.pack(len(topic)) + topic + _PARTITION.pack(sync.partition)


def encode_value(sync: OffsetSync) -> bytes:
    return _OFFSETS.pack(sync.upstream, sync.downstream)


def encode_headers(sync: OffsetSync) -> list[tuple[str, bytes]]:
    headers = [] if sync.since is None else [(SINCE_HEADER, _SINCE.pack(sync.since))]
    return headers if sync.remote is None else [*headers, (REMOTE_HEADER, sync.remote.encode())]


def decode(key: bytes | None, value: bytes | None, headers: Headers = ()) -> OffsetSync:
    """Raises ValueError if the record is malformed. Bytes after the last field are ignored, as by MM2."""
    if key is None or value is None:
        raise ValueError(f"offset sync without a {'key' if key is None else 'value'}")
    if len(key) < _LENGTH.size:
        raise ValueError(f"offset sync: key of {len(key)} bytes is too short for a topic's length")
    (length,) = _LENGTH.unpack_from(key)
    end = _LENGTH.size + length
    if length < 0:
        raise ValueError(f"offset sync: invalid topic length {length}")
    if len(key) < end + _PARTITION.size:
        raise ValueError(f"offset sync: key of {len(key)} bytes is too short for a topic of {length} and a partition")
    if len(value) < _OFFSETS.size:
        raise ValueError(f"offset sync: value of {len(value)} bytes is too short for two offsets")
    try:
        topic = key[_LENGTH.size : end].decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"offset sync: topic is not UTF-8: {error.reason}") from error
    (partition,) = _PARTITION.unpack_from(key, end)
    upstream, downstream = _OFFSETS.unpack_from(value)
    headers = list(headers)
    remote = next((content for name, content in headers if name == REMOTE_HEADER and content is not None), None)
    return OffsetSync(
        topic,
        partition,
        upstream,
        downstream,
        _since(headers, upstream),
        None if remote is None else remote.decode(errors="replace"),
    )


def _since(headers: Headers, upstream: int) -> int | None:
    """None for an invalid header, too: the pair itself is still valid."""
    for name, content in headers:
        if name == SINCE_HEADER and content is not None and len(content) == _SINCE.size:
            since: int = _SINCE.unpack(content)[0]
            return since if 0 <= since <= upstream else None
    return None


class SyncGate:
    """Decides which acknowledged batches of a partition are worth a sync.

    At once: the first batch, and every batch that starts a run (it does not follow the last one on both sides, or has
    gaps inside), preceded by the end of the previous run if that was not written yet. Otherwise at most one sync per
    `interval` seconds; until then it is pending, and `due` returns it.

    Invariants of the syncs of one gate, in the order in which they are returned:

    * each is the pair of a batch's last record; where that alone would hide a change, also of its first one;
    * all records from `since` to `upstream` that this gate has seen have the same T - S, and none is missing;
    * between two neighbours with the same T - S there is no gap, unless `since` of the later one is after the earlier
      one: then a gap and the same number of foreign records are at one place;
    * upstream offsets never decrease, except where the source itself was rewound (a decrease makes MM2 forget).
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        remote: str | None = None,
        *,
        resumed: OffsetSync | None = None,
        interval: float = 1.0,
    ) -> None:
        """`resumed`: the last record before a restart, if its position is proven; its run may continue."""
        self._topic = topic
        self._remote = remote
        self._partition = partition
        self._interval = interval
        self._last = resumed  # acknowledged
        self._written = resumed  # returned; if it is another one, the last is pending
        self._written_at = float("-inf")

    def acked(self, *, first_up: int, last_up: int, count: int, first_down: int, now: float) -> tuple[OffsetSync, ...]:
        """The syncs to be written now, in this order.

        `first_up` and `last_up` are offsets of records: a batch's header may cover more, if compaction removed its end.
        """
        if not 1 <= count <= last_up - first_up + 1:
            raise ValueError(f"invalid batch: {count} records from offset {first_up} to {last_up}")
        last = self._last
        gapless = count == last_up - first_up + 1
        follows, begin = False, first_up
        if last is not None and (first_up, first_down) == (last.upstream + 1, last.downstream + 1):
            follows, begin = True, last.upstream if last.since is None else last.since
        # Where the gaps are is not known here, so a batch with gaps covers its last record only.
        sync = self._sync(last_up, first_down + count - 1, begin if gapless else last_up)
        self._last = sync
        if follows and gapless:
            return self._emit(now, sync) if now >= self._written_at + self._interval else ()
        # Records that a rewound source no longer has are not worth a sync.
        syncs = [last] if last is not None and last is not self._written and last.upstream < first_up else []
        if not gapless and last is not None and last.difference == sync.difference:
            # Foreign records before the batch and gaps inside it cancel out: only its first record shows that.
            syncs.append(self._sync(first_up, first_down, first_up))
        return self._emit(now, *syncs, sync)

    def due(self, now: float, *, at_once: bool = False) -> OffsetSync | None:
        """The pending sync, once the interval is over; `at_once`: before a stop."""
        early = now < self._written_at + self._interval and not at_once
        if self._last is None or self._last is self._written or early:
            return None
        return self._emit(now, self._last)[0]

    def _emit(self, now: float, *syncs: OffsetSync) -> tuple[OffsetSync, ...]:
        self._written = syncs[-1]
        self._written_at = now
        return syncs

    def _sync(self, upstream: int, downstream: int, since: int) -> OffsetSync:
        return OffsetSync(self._topic, self._partition, upstream, downstream, since, self._remote)
