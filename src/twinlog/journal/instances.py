"""Which instance runs a flow, and whether several contend for it, from the commands in its journal. Pure.

Each start of a flow is a `run` command; the newest one counts. An instance that is running when another one starts
stops and writes `superseded`, which proves that two ran at once. One that may not start writes `refused`.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from twinlog.journal.messages import Command

WINDOW_MS: Final = 600_000  # how long a takeover counts
_MAX_TAKEOVERS: Final = 2  # within the window; after that a takeover needs --take-over
_MAX_CONTESTS: Final = 1000
_REFUSAL_INTERVAL_MS: Final = 60_000  # how often an instance that restarts in a loop records its refusal


@dataclass(frozen=True, slots=True)
class _Contest:
    time_ms: int
    command: Command


class Instances:
    """Of one flow (with its label). Must see every command, in order."""

    def __init__(self, flow: str) -> None:
        self._flow = flow
        self._names: dict[str, str] = {}  # by run
        self._contests: deque[_Contest] = deque(maxlen=_MAX_CONTESTS)
        self.current = ""  # the run that counts

    def on_record(self, time_ms: int, command: Command) -> None:
        if command.flow != self._flow:
            return
        if command.verb == "run":
            self.current = command.run
            self._names[command.run] = command.instance
        elif command.verb in {"superseded", "refused"}:
            self._contests.append(_Contest(time_ms, command))

    def name(self, run: str) -> str:
        """Host and process id, if known."""
        return self._names.get(run) or "unknown host"

    def contested(self, now_ms: int, instance: str) -> str:
        """Why `instance` should not start while another one runs; empty: it may."""
        recent = list(self._recent(now_ms))
        if len(recent) >= _MAX_TAKEOVERS:
            return self.contenders(now_ms)
        same_host = [contest.command for contest in recent if _host(contest.command.instance) == _host(instance)]
        if same_host and _host(self.name(same_host[-1].by)) != _host(instance):
            return f"an instance on {_host(instance)} was just superseded by {self.name(same_host[-1].by)}"
        return ""

    def contenders(self, now_ms: int, *more: str) -> str:
        """A sentence that names all recent contenders; empty: no contest. `more` are instances to name as well."""
        recent = list(self._recent(now_ms))
        names = {*more, *(name for each in recent for name in (each.command.instance, self.name(each.command.by)))}
        return f"several instances contend for it ({', '.join(sorted(names))})" if recent else ""

    def refusal_due(self, now_ms: int, instance: str) -> bool:
        """Whether to record a refusal: one per minute and host keeps the contest visible."""
        return not any(
            contest.command.verb == "refused"
            and now_ms - contest.time_ms < _REFUSAL_INTERVAL_MS
            and _host(contest.command.instance) == _host(instance)
            for contest in self._contests
        )

    def _recent(self, now_ms: int) -> Iterator[_Contest]:
        return (contest for contest in self._contests if now_ms - contest.time_ms < WINDOW_MS)


def _host(instance: str) -> str:
    return instance.rpartition(":")[0] or instance
