"""All that is known of a flow, in parts that fit into records: whoever comes later begins with it. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from twinlog.status.flow import FlowStatus
from twinlog.tracking.journal import Frame

_ROWS: Final = 1000  # partitions in a part
_LARGEST: Final = 240 * 1024  # bytes of a part


def encode(flow: FlowStatus, now_ms: int, after: int) -> list[bytes]:
    """`after` is the offset in the journal up to which reports are in it."""
    rows = [each.row(flow.reported_at) for each in flow.partitions.values()]
    head = {**flow.head(), "after": after}
    return _encoded(flow, now_ms, head, [rows[at : at + _ROWS] for at in range(0, len(rows), _ROWS)] or [[]])


def _encoded(flow: FlowStatus, now_ms: int, head: dict[str, Any], parts: list[list[Any]]) -> list[bytes]:
    count = len(parts)
    found = [
        Frame(flow.name, flow.run, now_ms, index, count, {} if index else head, rows).encode()
        for index, rows in enumerate(parts)
    ]
    if all(len(each) <= _LARGEST or len(rows) < 2 for each, rows in zip(found, parts, strict=True)):
        return found
    halves = [half for rows in parts for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]) if half]
    return _encoded(flow, now_ms, head, halves)


class Gathering:
    """Parts as they are read; complete, or of no use."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, str, int], dict[int, Frame]] = {}

    def add(self, frame: Frame) -> tuple[FlowStatus, int] | None:
        """The flow as it was, and the offset in the journal from which reports follow; None: more parts are needed.

        Parts of an older keyframe than this one are forgotten.
        """
        key = (frame.flow, frame.run, frame.time_ms)
        self._parts = {known: parts for known, parts in self._parts.items() if known[2] >= frame.time_ms}
        parts = self._parts.setdefault(key, {})
        parts[frame.index] = frame
        if len(parts) < frame.count:
            return None
        del self._parts[key]
        return _decoded([parts[index] for index in sorted(parts)])


def _decoded(frames: Sequence[Frame]) -> tuple[FlowStatus, int] | None:
    first = frames[0]
    if [each.index for each in frames] != list(range(first.count)):
        return None
    try:
        flow = FlowStatus.of_head(first.run, first.flow, first.head, (row for each in frames for row in each.rows))
        return flow, int(first.head["after"])
    except (ValueError, TypeError, KeyError, OverflowError):  # somebody else wrote it, or another Twinlog
        return None
