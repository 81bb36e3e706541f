"""What tasks and planner say to each other and to whoever watches, through a topic on the target.

Partition 0 holds commands. Partition 1 holds what tasks report, and what a flow's supervisor says: bulletins, and every
minute keyframes, from which whoever comes later can begin. All of it is JSON (keyframes are compressed); what cannot be
read is skipped, so that a newer Twinlog can say more. The topic is `mm2-twinlog.<source>.internal`: by MM2's rules that
is an internal topic, so no mirror copies it.
"""

import json
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

COMMANDS: Final = 0
REPORTS: Final = 1
PARTITIONS: Final = 2

# What is said in numbers: of a partition, and in an event
_OF_PARTITIONS: Final = frozenset((
    "partition", "position", "end", "stable", "start", "target", "until", "latency_ms", "latency_p50_ms",
    "latency_p99_ms", "records", "bytes", "batches", "rebuilt", "lost", "foreign", "duplicates", "skipped",
    "recoveries", "age_ms",
))  # fmt: skip
_OF_EVENTS: Final = frozenset(("time", "amount", "first", "last"))
_WINDOWS: Final = ("latency", "age")  # count, sum, least, most since the last report
_NUMBERS: Final = frozenset((int, float, bool))
_FROM: Final = -(1 << 63)
_TO: Final = 1 << 63
_FRAME: Final = b"\x00frame\x00"  # no JSON begins like that
_MOST_FRAMES: Final = 10_000
_LARGEST: Final = 16 << 20  # bytes of a keyframe's part when it is unpacked; ours have a few hundred thousand


def journal_topic(source: str) -> str:
    return f"mm2-twinlog.{source}.internal"


@dataclass(frozen=True, slots=True)
class Command:
    """`run` begins a run of the flow, and ends every other one. `end` ends the run's epoch, `stop` the run itself."""

    verb: str  # run, end, stop
    run: str
    epoch: int = -1
    flow: str = ""  # with its label: several may lead from one cluster to the other, and all share the topic

    def encode(self) -> bytes:
        return json.dumps({"verb": self.verb, "run": self.run, "epoch": self.epoch, "flow": self.flow}).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> "Command | None":
        match _loaded(value):
            case {"verb": str(verb), "run": str(run), "epoch": int(epoch), "flow": str(flow)} if _is_number(epoch):
                return cls(verb, run, epoch, flow)
        return None


@dataclass(frozen=True, slots=True)
class Report:
    """One task's news, about once a second: only the partitions that changed since its last one."""

    run: str
    epoch: int
    task: int
    attempt: int
    time_ms: int
    partitions: dict[str, dict[str, Any]]  # "topic-3" -> what is known of it
    events: list[dict[str, Any]]
    final: bool = False
    host: str = ""  # and process id, of the task
    flow: str = ""  # with its label

    def encode(self) -> bytes:
        content = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(content, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> "Report | None":
        match loaded := _loaded(value):
            case {
                "run": str(run), "epoch": int(epoch), "task": int(task), "attempt": int(attempt),
                "time_ms": int(time_ms), "partitions": dict(partitions), "events": list(events), "final": bool(final),
            }:  # fmt: skip
                known = all(map(_is_number, (epoch, task, attempt, time_ms)))
                known = known and all(_has(one, _OF_PARTITIONS) and _has_windows(one) for one in partitions.values())
                known = known and all(map(is_event, events))
                whose = str(loaded.get("host", "")), str(loaded.get("flow", ""))
                return None if not known else cls(run, epoch, task, attempt, time_ms, partitions, events, final, *whose)
        return None


@dataclass(frozen=True, slots=True)
class Bulletin:
    """What the process that runs a flow says of it: every few seconds, and when something changes."""

    flow: str  # with its label
    run: str
    began_ms: int  # when the run did: of two runs of a flow the younger counts
    time_ms: int
    state: str
    error: str = ""
    tasks: int = 0
    starts: int = 0
    heartbeat_ms: int | None = None
    checkpoint_ms: int | None = None
    keyframe: int = -1  # the offset of the newest one, in the journal

    def encode(self) -> bytes:
        content = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({"bulletin": content}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> "Bulletin | None":
        match _loaded(value):
            case {"bulletin": {
                "flow": str(flow), "run": str(run), "began_ms": int(began), "time_ms": int(now), "state": str(state),
                "error": str(error), "tasks": int(tasks), "starts": int(starts), "heartbeat_ms": int() | None as beat,
                "checkpoint_ms": int() | None as checkpoint, "keyframe": int(keyframe),
            }} if all(map(_is_number, (began, now, tasks, starts, beat or 0, checkpoint or 0, keyframe))):  # fmt: skip
                return cls(flow, run, began, now, state, error, tasks, starts, beat, checkpoint, keyframe)
        return None


@dataclass(frozen=True, slots=True)
class Frame:
    """A part of a keyframe: all `count` of them are one. `rows` are partitions; the first part has the rest."""

    flow: str
    run: str
    time_ms: int  # the same in all parts
    index: int
    count: int
    head: dict[str, Any]
    rows: list[Any]

    def encode(self) -> bytes:
        content = {name: getattr(self, name) for name in self.__slots__}
        return _FRAME + zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 1)

    @classmethod
    def decode(cls, value: bytes | None) -> "Frame | None":
        if not value or not value.startswith(_FRAME):
            return None
        unpacking = zlib.decompressobj()
        try:
            content = unpacking.decompress(value[len(_FRAME) :], _LARGEST)
        except zlib.error:
            return None
        match _loaded(content) if unpacking.eof else None:
            case {
                "flow": str(flow), "run": str(run), "time_ms": int(now), "index": int(index), "count": int(count),
                "head": dict(head), "rows": list(rows),
            } if _is_number(now) and 0 <= index < count <= _MOST_FRAMES:  # fmt: skip
                return cls(flow, run, now, index, count, head, rows)
        return None


def is_event(content: object) -> bool:
    return _has(content, _OF_EVENTS)


def _loaded(value: bytes | None) -> Any:
    try:
        return _JSON.decode((value or b"null").decode())
    except (ValueError, RecursionError):
        return None


def _refused(constant: str) -> float:
    """Those that compare with nothing: Infinity, NaN."""
    raise ValueError(constant)


_JSON: Final = json.JSONDecoder(parse_constant=_refused)


def _has(content: object, numbers: Collection[str]) -> bool:
    """Numbers, where those who add them up expect some: others may write to the topic, too."""
    if not isinstance(content, dict):
        return False
    for name, value in content.items():  # hundreds of partitions a second: in the fastest way
        kind = type(value)
        if kind is int or kind is float:
            if not _FROM <= value < _TO:
                return False
        elif name in numbers and kind is not bool:
            return False
    return True


def _has_windows(content: dict[str, Any]) -> bool:
    for name in _WINDOWS:
        if (told := content.get(name)) is None:
            continue
        if type(told) is not list or len(told) != 4:
            return False
        for value in told:
            if type(value) not in _NUMBERS or not _FROM <= value < _TO:
                return False
    return True


def _is_number(content: object) -> bool:
    return isinstance(content, int | float) and _FROM <= content < _TO
