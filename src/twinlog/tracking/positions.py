"""Where a partition goes on. Pure: facts in, a decision out.

An anchor (S, T) says that source offset S is target offset T. With the target's end T', the next source offset is the
one after T' - T records from S; where T' is T, that is S itself. Else the logs in between must be looked at (Walk).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from twinlog.model import Anchor


class Trouble(StrEnum):
    """What an operator must hear of; each has a counter."""

    LOST = "lost"  # the source no longer has what was to be copied
    RECREATED = "re-created"  # the source's topic is another one of the same name
    TRUNCATED = "truncated"  # the source lost records that were copied
    TARGET_LOST = "target lost"  # the target no longer has what was copied
    UNKNOWN_RECORDS = "unknown records"  # the remote topic holds records, and nobody knows of which source offsets


@dataclass(frozen=True, slots=True)
class Facts:
    anchors: Sequence[Anchor]
    mm2_offset: int | None  # of the last record that MM2 says it has copied
    source_start: int
    source_end: int
    target_start: int
    target_end: int
    reset: str  # auto.offset.reset
    merges: bool = False  # others write to the remote topic by right
    recreated: bool = False  # the source's topic has another id than when the anchors were written
    remote_recreated: bool = False  # so has the remote topic
    truncated_at: int | None = None  # the source's leader says that its log parts from ours here


@dataclass(frozen=True, slots=True)
class Start:
    """The position is `source`; `trouble` came up on the way, of `amount` records."""

    source: int
    trouble: Trouble | None = None
    amount: int = 0


@dataclass(frozen=True, slots=True)
class Walk:
    """Count from the anchor up to the target's end; or, where the target lost records, look whether `back` is right."""

    anchor: Anchor
    back: bool = False


@dataclass(frozen=True, slots=True)
class Stuck:
    reason: str


def decide(facts: Facts) -> Start | Walk | Stuck:
    if facts.recreated:
        return Start(facts.source_start, Trouble.RECREATED)
    if facts.remote_recreated and facts.anchors:
        return _again(facts)
    usable = [anchor for anchor in facts.anchors if anchor.target <= facts.target_end]
    if usable:
        anchor = max(usable, key=lambda each: each.target)
        return Start(anchor.source) if anchor.target == facts.target_end else Walk(anchor)
    if facts.anchors:
        if facts.target_end == 0:
            return _again(facts)
        return Walk(min(facts.anchors, key=lambda each: each.target), back=True)
    if facts.mm2_offset is not None and facts.mm2_offset >= 0:
        return Start(facts.mm2_offset + 1)
    first = _reset(facts)
    if isinstance(first, Start) and facts.target_end > facts.target_start and not facts.merges:
        return Start(first.source, Trouble.UNKNOWN_RECORDS, facts.target_end - facts.target_start)
    return first


def within(start: Start, facts: Facts) -> Start:
    """What retention took before it was copied is lost; how much is known, so it is said. The same for the end of the
    source's log: what was copied behind the place where it was cut off is not there any more.
    """
    if start.source < facts.source_start and start.trouble is not Trouble.RECREATED:
        return Start(facts.source_start, Trouble.LOST, facts.source_start - start.source)
    if facts.truncated_at is not None and start.source > facts.truncated_at and not facts.recreated:
        return Start(facts.truncated_at, Trouble.TRUNCATED, start.source - facts.truncated_at)
    return start


def _again(facts: Facts) -> Start | Stuck:
    """The remote topic was made again: it gets everything again."""
    first = _reset(facts)
    return Start(first.source, Trouble.TARGET_LOST) if isinstance(first, Start) else first


def _reset(facts: Facts) -> Start | Stuck:
    match facts.reset:
        case "earliest":
            return Start(facts.source_start)
        case "latest":
            return Start(facts.source_end)
        case _:
            return Stuck(
                f"no position to start from, and auto.offset.reset is {facts.reset}: set it to earliest or latest"
            )
