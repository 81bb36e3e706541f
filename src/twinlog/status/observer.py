"""Observes one flow from outside: by its journal while it runs, by a look at the clusters when nobody runs it."""

import threading
import time
from dataclasses import replace
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import TwinlogError
from twinlog.status.flow import FlowStatus
from twinlog.status.partition import PartitionStatus
from twinlog.status.standing import newest_heartbeat, partitions_of
from twinlog.status.watch import Watch
from twinlog.upkeep.checkpoints import CheckpointKeeper
from twinlog.upkeep.group_look import GroupStatus

_RUNS: Final = frozenset({"starting", "running", "retrying"})  # whose reports say where partitions are
_LOOK: Final = 15.0  # seconds between looks at clusters, while one watches
_AGAIN: Final = 2.0  # seconds after which a cluster is asked again that did not answer


class Observer:
    """`status` may be read from any thread, all else belongs to one."""

    def __init__(self, config: FlowConfig, *, groups: bool = False) -> None:
        self.config = config
        self._watch = Watch(config)
        self._groups = groups and config.emits_checkpoints
        self._keeper: CheckpointKeeper | None = None
        self._looked_at = float("-inf")
        self._stood: tuple[FlowStatus, str] | None = None  # whose state was seen last
        self.ready = threading.Event()  # something is known
        self.status: FlowStatus = self._watch.status

    def close(self) -> None:
        self._watch.close()
        if self._keeper is not None:
            self._keeper.close()

    def look(self) -> None:
        """All that can be known now. What cannot be is told in `status.unseen`."""
        try:
            self._watch.catch_up()
            self._see()
        except (TwinlogError, OSError) as error:
            self._blind(error)
        self.ready.set()

    def follow(self, stop: threading.Event) -> None:
        """Until it is told to stop, in a thread of its own."""
        self.look()
        while not stop.is_set():
            try:
                self._watch.listen(500)
                self._watch.settle()
                self._see()
            except (TwinlogError, OSError) as error:
                self._blind(error)
                stop.wait(_AGAIN)

    def _see(self) -> None:
        status = self._watch.status
        status.unseen = ""
        now = time.monotonic()
        told = status.state in _RUNS and status.reported_at > 0
        if self._stood != (status, status.state) and not told:
            self._looked_at = float("-inf")
        if now - self._looked_at >= _LOOK:
            self._looked_at = now
            if not told:
                stand(status, self._partitions(status))
                status.heartbeat_ms = status.heartbeat_ms or newest_heartbeat(self.config)
            if self._groups:
                status.seen(self._stand_of_groups())
        self._stood = (status, status.state)
        self.status = status

    def _partitions(self, status: FlowStatus) -> list[PartitionStatus]:
        try:
            return partitions_of(self.config)
        except (TwinlogError, OSError) as error:
            status.unseen = f"what waits to be copied cannot be counted: {error}"
            return list(status.partitions.values())

    def _stand_of_groups(self) -> list[GroupStatus]:
        self._keeper = self._keeper or CheckpointKeeper(self.config, lambda _about, _text: None)
        return self._keeper.look()

    def _blind(self, error: Exception) -> None:
        status = self._watch.status
        status.unseen = f"how it is cannot be seen: {error}"
        if not status.told_ms:
            status.state = "silent"
        self.status = status


def stand(status: FlowStatus, seen: list[PartitionStatus]) -> None:
    """What was seen at the clusters is newer than the last reports; what was counted is still so. Pure."""
    found = []
    for each in seen:
        known = status.partitions.get(f"{each.topic}-{each.partition}")
        if known is None or known is each:
            found.append(each)
            continue
        since = known.newest_copied if each.end > each.position else None
        found.append(
            replace(
                each,
                state=known.state if known.state == "stopped" and each.position == known.position else each.state,
                error=known.error if known.state == "stopped" and each.position == known.position else each.error,
                counters=known.counters,
                before=known.before,
                task=known.task,
                lane=known.lane,
                epoch=known.epoch,
                latency_ms=known.latency_ms,
                newest_copied=since,
                changed_at=known.changed_at,
            )
        )
    status.stand(found)
