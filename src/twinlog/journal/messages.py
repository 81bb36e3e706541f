"""The records of the journal topic: commands, task reports, supervisor reports and snapshots.

Partition 0 holds commands. Partition 1 holds task reports, supervisor reports and, every minute, a snapshot (keyframe)
from which a new observer can start. All are JSON; snapshots are compressed. Records that cannot be decoded are skipped,
so that a newer Twinlog may add fields. The topic is `mm2-twinlog.<source>.internal`: MM2's rules make that an internal
topic, so it is never replicated.
"""

import json
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from twinlog.journal.partition_fields import COUNTER_NAMES, REPORT, fields_in

COMMANDS: Final = 0
REPORTS: Final = 1
PARTITIONS: Final = 2

# Fields that must be numbers; the latencies are those of a task
_PARTITION_NUMBERS: Final = frozenset((
    *(each.name for each in fields_in(REPORT) if each.kind in {int, float}), *COUNTER_NAMES, "latency_p50_ms",
    "latency_p99_ms",
))  # fmt: skip
_EVENT_NUMBERS: Final = frozenset(("time", "amount", "first", "last"))
_SAMPLE_FIELDS: Final = tuple(each.name for each in fields_in(REPORT) if each.kind is list)
_NUMBER_TYPES: Final = frozenset((int, float, bool))
_MIN_NUMBER: Final = -(1 << 63)
_END_OF_NUMBERS: Final = 1 << 63  # exclusive
_SNAPSHOT_PREFIX: Final = b"\x00frame\x00"  # not the start of any JSON text
_MAX_PARTS: Final = 10_000
_MAX_PART_BYTES: Final = 16 << 20  # decompressed; real ones have a few hundred KB


def journal_topic(source: str) -> str:
    return f"mm2-twinlog.{source}.internal"


@dataclass(frozen=True, slots=True)
class Command:
    """`run` starts a run of the flow and ends every other one. `end` ends the run's epoch, `stop` the run itself.
    `assign` gives more partitions to one task of the epoch.

    `superseded` is written by a run that another one ended, `refused` by one that may not start: see instances.py.
    """

    verb: str  # run, end, stop, assign, superseded, refused
    run: str
    epoch: int = -1
    flow: str = ""  # with its label: several flows between the same two clusters share the topic
    instance: str = ""  # host and process id of the sender
    by: str = ""  # the other run
    task: int = -1
    assigned: tuple[str, ...] = ()

    def encode(self) -> bytes:
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> "Command | None":
        match loaded := _loaded(value):
            case {"verb": str(verb), "run": str(run), "epoch": int(epoch), "flow": str(flow)} if _is_number(epoch):
                sender = str(loaded.get("instance", "")), str(loaded.get("by", ""))
                match loaded.get("task", -1), loaded.get("assigned", []):
                    case int(task), list(assigned) if all(isinstance(one, str) for one in assigned):
                        return cls(verb, run, epoch, flow, *sender, task, tuple(assigned))
        return None


@dataclass(frozen=True, slots=True)
class Report:
    """Status of one task, about once a second: only the partitions that changed since its last report."""

    run: str
    epoch: int
    task: int
    attempt: int
    time_ms: int
    partitions: dict[str, dict[str, Any]]  # "topic-3" -> its status fields
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
                valid = all(map(_is_number, (epoch, task, attempt, time_ms)))
                valid = valid and all(
                    _numbers_valid(one, _PARTITION_NUMBERS) and _samples_valid(one) for one in partitions.values()
                )
                valid = valid and all(map(is_event, events))
                sender = str(loaded.get("host", "")), str(loaded.get("flow", ""))
                if valid:
                    return cls(run, epoch, task, attempt, time_ms, partitions, events, final, *sender)
        return None


@dataclass(frozen=True, slots=True)
class SupervisorReport:
    """Status of a flow from the process that runs it: every few seconds, and whenever something changes."""

    flow: str  # with its label
    run: str
    began_ms: int  # start of the run: of two runs of a flow the younger counts
    time_ms: int
    state: str
    error: str = ""
    tasks: int = 0
    starts: int = 0
    heartbeat_ms: int | None = None
    checkpoint_ms: int | None = None
    keyframe: int = -1  # journal offset of the newest snapshot

    def encode(self) -> bytes:
        content = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({"bulletin": content}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> "SupervisorReport | None":
        match _loaded(value):
            case {"bulletin": {
                "flow": str(flow), "run": str(run), "began_ms": int(began), "time_ms": int(now), "state": str(state),
                "error": str(error), "tasks": int(tasks), "starts": int(starts), "heartbeat_ms": int() | None as beat,
                "checkpoint_ms": int() | None as checkpoint, "keyframe": int(keyframe),
            }} if all(map(_is_number, (began, now, tasks, starts, beat or 0, checkpoint or 0, keyframe))):  # fmt: skip
                return cls(flow, run, began, now, state, error, tasks, starts, beat, checkpoint, keyframe)
        return None


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """One of the `count` parts of a snapshot. `rows` are partitions; `head`, in the first part, is everything else."""

    flow: str
    run: str
    time_ms: int  # the same in all parts
    index: int
    count: int
    head: dict[str, Any]
    rows: list[Any]

    def encode(self) -> bytes:
        content = {name: getattr(self, name) for name in self.__slots__}
        return _SNAPSHOT_PREFIX + zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 1)

    @classmethod
    def decode(cls, value: bytes | None) -> "SnapshotPart | None":
        if not value or not value.startswith(_SNAPSHOT_PREFIX):
            return None
        decompressor = zlib.decompressobj()
        try:
            content = decompressor.decompress(value[len(_SNAPSHOT_PREFIX) :], _MAX_PART_BYTES)
        except zlib.error:
            return None
        match _loaded(content) if decompressor.eof else None:
            case {
                "flow": str(flow), "run": str(run), "time_ms": int(now), "index": int(index), "count": int(count),
                "head": dict(head), "rows": list(rows),
            } if _is_number(now) and 0 <= index < count <= _MAX_PARTS:  # fmt: skip
                return cls(flow, run, now, index, count, head, rows)
        return None


def is_event(content: object) -> bool:
    return _numbers_valid(content, _EVENT_NUMBERS)


def _loaded(value: bytes | None) -> Any:
    try:
        return _JSON.decode((value or b"null").decode())
    except (ValueError, RecursionError):
        return None


def _reject_constant(constant: str) -> float:
    """Infinity and NaN cannot be compared or added up."""
    raise ValueError(constant)


_JSON: Final = json.JSONDecoder(parse_constant=_reject_constant)


def _numbers_valid(content: object, numbers: Collection[str]) -> bool:
    """Whether these fields are numbers, as readers expect: anything may be written to the topic."""
    if not isinstance(content, dict):
        return False
    for name, value in content.items():  # hot: hundreds of partitions per second
        kind = type(value)
        if kind is int or kind is float:
            if not _MIN_NUMBER <= value < _END_OF_NUMBERS:
                return False
        elif name in numbers and kind is not bool:
            return False
    return True


def _samples_valid(content: dict[str, Any]) -> bool:
    for name in _SAMPLE_FIELDS:
        if (samples := content.get(name)) is None:
            continue
        if type(samples) is not list or len(samples) != 4:
            return False
        for value in samples:
            if type(value) not in _NUMBER_TYPES or not _MIN_NUMBER <= value < _END_OF_NUMBERS:
                return False
    return True


def _is_number(content: object) -> bool:
    return isinstance(content, int | float) and _MIN_NUMBER <= content < _END_OF_NUMBERS
