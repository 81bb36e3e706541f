"""Snapshots of a flow's status, split into journal records, from which observers start. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from twinlog.journal.messages import SnapshotPart
from twinlog.status.flow import FlowStatus

_ROWS: Final = 1000  # partitions per part
_MAX_BYTES: Final = 240 * 1024  # of a part


def encode(flow: FlowStatus, now_ms: int, after: int) -> list[bytes]:
    """`after` is the journal offset up to which reports are included."""
    rows = [each.row(flow.reported_at) for each in flow.partitions.values()]
    head = {**flow.head(), "after": after}
    return _encoded(flow, now_ms, head, [rows[at : at + _ROWS] for at in range(0, len(rows), _ROWS)] or [[]])


def _encoded(flow: FlowStatus, now_ms: int, head: dict[str, Any], parts: list[list[Any]]) -> list[bytes]:
    count = len(parts)
    found = [
        SnapshotPart(flow.name, flow.run, now_ms, index, count, {} if index else head, rows).encode()
        for index, rows in enumerate(parts)
    ]
    if all(len(each) <= _MAX_BYTES or len(rows) < 2 for each, rows in zip(found, parts, strict=True)):
        return found
    halves = [half for rows in parts for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]) if half]
    return _encoded(flow, now_ms, head, halves)


class SnapshotAssembler:
    """Assembles snapshots from parts as they are read."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, str, int], dict[int, SnapshotPart]] = {}

    def add(self, part: SnapshotPart) -> tuple[FlowStatus, int] | None:
        """The flow's status, and the journal offset from which reports follow; None: more parts are needed.

        Parts of older snapshots are dropped.
        """
        key = (part.flow, part.run, part.time_ms)
        self._parts = {known: parts for known, parts in self._parts.items() if known[2] >= part.time_ms}
        parts = self._parts.setdefault(key, {})
        parts[part.index] = part
        if len(parts) < part.count:
            return None
        del self._parts[key]
        return _decoded([parts[index] for index in sorted(parts)])


def _decoded(parts: Sequence[SnapshotPart]) -> tuple[FlowStatus, int] | None:
    first = parts[0]
    if [each.index for each in parts] != list(range(first.count)):
        return None
    try:
        flow = FlowStatus.of_head(first.run, first.flow, first.head, (row for each in parts for row in each.rows))
        return flow, int(first.head["after"])
    except (ValueError, TypeError, KeyError, OverflowError):  # forged, or written by another version
        return None
