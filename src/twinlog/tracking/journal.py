"""What tasks and planner say to each other and to whoever watches, through a topic on the target.

Partition 0 holds commands, partition 1 what tasks report. All of it is JSON; what cannot be read is skipped, so that a
newer Twinlog can say more. The topic is `mm2-twinlog.<source>.internal`: by MM2's rules that is an internal topic, so
no mirror copies it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

COMMANDS: Final = 0
REPORTS: Final = 1
PARTITIONS: Final = 2

# What is said in numbers: of a partition, and in an event
_OF_PARTITIONS: Final = (
    "partition", "position", "end", "start", "target", "until", "latency_ms", "latency_p50_ms", "latency_p99_ms",
    "records", "bytes", "batches", "rebuilt", "lost", "foreign", "duplicates", "skipped", "recoveries",
)  # fmt: skip
_OF_EVENTS: Final = ("time", "amount")


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

    def encode(self) -> bytes:
        content = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(content, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> "Report | None":
        match _loaded(value):
            case {
                "run": str(run), "epoch": int(epoch), "task": int(task), "attempt": int(attempt),
                "time_ms": int(time_ms), "partitions": dict(partitions), "events": list(events), "final": bool(final),
            }:  # fmt: skip
                known = all(map(_is_number, (epoch, task, attempt, time_ms)))
                known = known and all(_has(one, _OF_PARTITIONS) for one in partitions.values())
                known = known and all(_has(one, _OF_EVENTS) for one in events)
                return None if not known else cls(run, epoch, task, attempt, time_ms, partitions, events, final)
        return None


def _loaded(value: bytes | None) -> Any:
    try:
        return json.loads(value or b"null")
    except (ValueError, RecursionError):
        return None


def _has(content: object, numbers: Iterable[str]) -> bool:
    """Numbers, where those who add them up expect some: others may write to the topic, too."""
    return isinstance(content, dict) and all(_is_number(content.get(name, 0)) for name in numbers)


def _is_number(content: object) -> bool:
    return isinstance(content, int | float) and -(1 << 63) <= content < 1 << 63
