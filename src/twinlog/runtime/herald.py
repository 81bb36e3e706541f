"""Tells of running flows in their journals, so that whoever comes by later, on whatever machine, knows how they are."""

import contextlib
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import TwinlogError
from twinlog.kafka.records import encode
from twinlog.model import TopicPartition
from twinlog.runtime.flow_run import FlowRun, client_of
from twinlog.status import keyframe
from twinlog.tracking.journal import REPORTS, Bulletin, journal_topic
from twinlog.upkeep.keeper import Keeper

_EVERY: Final = 5.0  # seconds between bulletins of a flow with no news
_FIRST: Final = 5.0  # seconds until the first keyframe of a run: tasks have told of all their partitions by then
_KEYFRAME: Final = 60.0
_SHARE: Final = 400  # so many times as long as a keyframe took to make the next one waits
_WAITING: Final = 4
_BEGUN: Final = 20.0  # seconds after which a query runs, even if there is nothing to report


@dataclass(frozen=True, slots=True)
class News:
    """A flow as its supervisor sees it now: idle, starting, running, retrying, failed, finished or ending."""

    flow: FlowRun
    doing: str
    config: FlowConfig | None = None  # as it is wanted by now
    keeper: Keeper | None = None

    def state(self, now: float) -> str:
        """In a bulletin's words."""
        match self.doing:
            case "idle":
                source = self.config.source if self.config is not None else None
                return "paused" if source is not None and source.state == "paused" else "stopped"
            case "running" | "ending":
                begun = self.flow.status.reported_run == self.flow.run or now - self.flow.began > _BEGUN
                return "running" if begun else "starting"
            case "failed":
                return "stopped"
        return self.doing


class Herald:
    """Belongs to the supervisor's thread; each flow has a thread that writes, so that no cluster keeps it waiting."""

    def __init__(self) -> None:
        self._criers: dict[str, Crier] = {}

    def tell(self, news: Iterable[News]) -> None:
        """As often as you like: what is not due yet is not written."""
        there = set()
        for each in news:
            there.add(each.flow.name)
            crier = self._criers.get(each.flow.name)
            if crier is None or crier.flow is not each.flow:
                crier = self._criers[each.flow.name] = Crier(each.flow)
            crier.tell(each)
        for name in [name for name in self._criers if name not in there]:
            crier = self._criers.pop(name)
            crier.tell(News(crier.flow, "stopped"))
            crier.close(0)

    def close(self, seconds: float = 3.0) -> None:
        """The last words: nobody runs these flows any more."""
        for crier in self._criers.values():
            crier.tell(News(crier.flow, "finished" if crier.flow.finished else "stopped"), last=True)
        deadline = time.monotonic() + seconds
        for crier in self._criers.values():
            crier.close(max(deadline - time.monotonic(), 0))


@dataclass(slots=True)
class _Run:
    id: str = ""
    began_ms: int = 0
    keyframe_due: float = 0.0


@dataclass(frozen=True, slots=True)
class _Frames:
    run: str
    parts: list[bytes]


@dataclass(slots=True)
class _Said:
    bulletin: Bulletin | None = None
    at: float = field(default=float("-inf"))


class Crier:
    """One flow's."""

    def __init__(self, flow: FlowRun) -> None:
        self.flow = flow
        self._run = _Run()
        self._said = _Said()
        self._groups = flow.status.groups
        self._words: SimpleQueue[Bulletin | _Frames | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name=f"herald {flow.name}", daemon=True)
        self._thread.start()

    def tell(self, news: News, *, last: bool = False) -> None:
        flow, now = self.flow, time.monotonic()
        if flow.run != self._run.id:
            # One that goes on after a pause has a past, of which whoever watches must know at once.
            due = now if flow.status.partitions else now + _FIRST
            self._run = _Run(flow.run, max(int(time.time() * 1000), self._run.began_ms + 1), due)
        if news.keeper is not None and news.keeper.groups is not self._groups:
            self._groups = news.keeper.groups
            flow.status.seen(self._groups)
        bulletin = self._bulletin(news)
        same = self._said.bulletin is not None and _gist(self._said.bulletin) == _gist(bulletin)
        if last or not same or now - self._said.at >= _EVERY:
            self._said = _Said(bulletin, now)
            flow.status.bulletin(bulletin)
            self._put(bulletin)
            if flow.heard >= 0 and now >= self._run.keyframe_due:
                frames = keyframe.encode(flow.status, bulletin.time_ms, flow.heard)
                self._run.keyframe_due = now + max(_KEYFRAME, _SHARE * (time.monotonic() - now))
                self._put(_Frames(flow.run, frames))

    def _put(self, words: "Bulletin | _Frames") -> None:
        """Where the target is away, only the newest words wait for it."""
        with contextlib.suppress(Empty):
            while self._words.qsize() >= _WAITING:
                self._words.get_nowait()
        self._words.put(words)

    def close(self, seconds: float) -> None:
        self._words.put(None)
        self._thread.join(seconds)

    def _bulletin(self, news: News) -> Bulletin:
        flow, keeper = self.flow, news.keeper
        status = flow.status
        return Bulletin(
            flow.name,
            flow.run,
            self._run.began_ms,
            int(time.time() * 1000),
            news.state(time.monotonic()),
            flow.error,
            flow.tasks,
            flow.starts,
            keeper.heartbeat_ms if keeper is not None else status.heartbeat_ms,
            keeper.checkpoint_ms if keeper is not None else status.checkpoint_ms,
        )

    # In its own thread

    def _write(self) -> None:
        place = TopicPartition(journal_topic(self.flow.config.flow.source), REPORTS)
        client = None
        run, at = "", -1
        while (words := self._words.get()) is not None:
            try:
                client = client or client_of(self.flow.config, "target")
                if isinstance(words, _Frames):
                    now = int(time.time() * 1000)
                    offsets = [client.append(place, encode([(now, None, part, ())])) for part in words.parts]
                    run, at = words.run, offsets[0]
                else:
                    told = replace(words, keyframe=at if words.run == run else -1)
                    client.append(place, encode([(words.time_ms, None, told.encode(), ())]))
            except (TwinlogError, OSError):  # the next words come soon; that the target is away, others say
                if client is not None:
                    client.close()
                client = None
        if client is not None:
            client.close()


def _gist(bulletin: Bulletin) -> Bulletin:
    """Without what changes all the time."""
    return replace(bulletin, time_ms=0, heartbeat_ms=None, checkpoint_ms=None)
