"""Observes one flow from outside: by its journal while it runs, by inspecting both clusters while it does not."""

import threading
import time
from dataclasses import replace
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import TwinlogError
from twinlog.status.flow import FlowStatus
from twinlog.status.idle_flow import newest_heartbeat, partitions_of
from twinlog.status.journal_follower import JournalFollower
from twinlog.status.partition import PartitionStatus
from twinlog.sync.checkpoints import CheckpointSync
from twinlog.sync.group_status import GroupStatus

_REPORTING: Final = frozenset({"starting", "running", "retrying"})  # states in which tasks report positions
_INSPECT_INTERVAL: Final = 15.0  # seconds between inspections of the clusters
_RETRY_INTERVAL: Final = 2.0  # seconds, after a cluster did not answer


class Observer:
    """`status` may be read from any thread; everything else belongs to one."""

    def __init__(self, config: FlowConfig, *, groups: bool = False) -> None:
        self.config = config
        self._follower = JournalFollower(config)
        self._groups = groups and config.emits_checkpoints
        self._checkpoints: CheckpointSync | None = None
        self._inspected_at = float("-inf")
        self._last: tuple[FlowStatus, str] | None = None  # status and state at the last update
        self.ready = threading.Event()  # a first status is known
        self.status: FlowStatus = self._follower.status

    def close(self) -> None:
        self._follower.close()
        if self._checkpoints is not None:
            self._checkpoints.close()

    def observe(self) -> None:
        """Once. `status.observation_error` is set if the status cannot be determined."""
        try:
            self._follower.catch_up()
            self._update()
        except (TwinlogError, OSError) as error:
            self._on_error(error)
        self.ready.set()

    def follow(self, stop: threading.Event) -> None:
        """Until `stop` is set, in a thread of its own."""
        self.observe()
        while not stop.is_set():
            try:
                self._follower.poll(500)
                self._follower.check_silent()
                self._update()
            except (TwinlogError, OSError) as error:
                self._on_error(error)
                stop.wait(_RETRY_INTERVAL)

    def _update(self) -> None:
        status = self._follower.status
        status.observation_error = ""
        now = time.monotonic()
        reported = status.state in _REPORTING and status.reported_at > 0
        if self._last != (status, status.state) and not reported:
            self._inspected_at = float("-inf")
        if now - self._inspected_at >= _INSPECT_INTERVAL:
            self._inspected_at = now
            if not reported:
                merge_inspected(status, self._partitions(status))
                status.heartbeat_ms = status.heartbeat_ms or newest_heartbeat(self.config)
            if self._groups:
                status.set_groups(self._group_status())
        self._last = (status, status.state)
        self.status = status

    def _partitions(self, status: FlowStatus) -> list[PartitionStatus]:
        try:
            return partitions_of(self.config)
        except (TwinlogError, OSError) as error:
            status.observation_error = f"backlog unknown: {error}"
            return list(status.partitions.values())

    def _group_status(self) -> list[GroupStatus]:
        self._checkpoints = self._checkpoints or CheckpointSync(self.config, lambda _about, _text: None)
        return self._checkpoints.read_status()

    def _on_error(self, error: Exception) -> None:
        status = self._follower.status
        status.observation_error = f"status unknown: {error}"
        if not status.reported_ms:
            status.state = "silent"
        self.status = status


def merge_inspected(status: FlowStatus, partitions: list[PartitionStatus]) -> None:
    """The offsets found on the clusters are newer than the last reports; counters are kept from the reports. Pure."""
    found = []
    for each in partitions:
        known = status.partitions.get(str(each.tp))
        if known is None or known is each:
            found.append(each)
            continue
        still_stopped = known.state == "stopped" and each.position == known.position
        found.append(
            replace(
                each,
                state=known.state if still_stopped else each.state,
                error=known.error if still_stopped else each.error,
                counters=known.counters,
                before=known.before,
                task=known.task,
                lane=known.lane,
                epoch=known.epoch,
                latency_ms=known.latency_ms,
                newest_copied=known.newest_copied if each.end > each.position else None,
                changed_at=known.changed_at,
            )
        )
    status.set_inspected(found)
