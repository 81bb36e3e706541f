"""Periodic jobs of a flow: topic configs and ACLs, checkpoints and group offsets, heartbeats."""

import contextlib
import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue

from twinlog.config.flows import FlowConfig
from twinlog.errors import TwinlogError
from twinlog.sync.checkpoints import CheckpointSync
from twinlog.sync.configs_and_acls import ConfigAndAclSync
from twinlog.sync.group_status import GroupStatus
from twinlog.sync.heartbeats import HeartbeatSync
from twinlog.sync.scheduler import Scheduler, run_job

Sync = ConfigAndAclSync | CheckpointSync | HeartbeatSync


class FlowSync:
    """One thread per subject: a slow cluster must not delay the heartbeats."""

    def __init__(self, config: FlowConfig) -> None:
        self.name = str(config)
        self._config = config
        self._events: SimpleQueue[str] = SimpleQueue()
        self._reported: dict[str, str] = {}
        self._schedulers: dict[str, Scheduler] = {}
        self.errors: dict[str, str] = {}  # subjects that could not be started
        self._syncs: dict[str, Sync] = {}

    @property
    def subjects(self) -> list[str]:
        """Enabled subjects: topics, checkpoints, heartbeats."""
        config = self._config
        wanted = {
            "topics": config.replicates,
            "checkpoints": config.emits_checkpoints,
            "heartbeats": config.emits_heartbeats,
        }
        return [subject for subject, is_wanted in wanted.items() if is_wanted]

    def configure(self, config: FlowConfig) -> None:
        """For subjects that are started later."""
        self._config = config

    def start(self, subjects: Iterable[str] | None = None) -> None:
        for subject in self.subjects if subjects is None else subjects:
            self.errors.pop(subject, None)
            try:
                sync = self._create(subject)
            except TwinlogError as error:  # does not affect the other subjects
                self.errors[subject] = str(error)
                self._warn(subject, f"{subject}: {error}")
                continue
            scheduler = Scheduler(f"{subject} of {self.name}", sync.jobs(), self._warn, sync.close)
            self._schedulers[subject] = scheduler
            self._syncs[subject] = sync
            scheduler.start()

    def once(self) -> None:
        """Runs each job once, in order, after all records are copied."""
        for subject in self.subjects:
            sync = self._create(subject)
            if subject != "heartbeats":  # a single one is of no use
                for job in sync.jobs():
                    run_job(job, self._warn)
            sync.close()

    def request_stop(self) -> None:
        for scheduler in self._schedulers.values():
            scheduler.request_stop()

    def stop(self, subjects: Iterable[str] | None = None, timeout: float = 3.0) -> None:
        """`timeout`: seconds for all running jobs together."""
        deadline = time.monotonic() + timeout
        stopping = [
            scheduler
            for subject in (list(self._schedulers) if subjects is None else subjects)
            if (scheduler := self._schedulers.pop(subject, None)) is not None
        ]
        for scheduler in stopping:
            scheduler.request_stop()
        for scheduler in stopping:
            scheduler.stop(max(deadline - time.monotonic(), 0))

    def forward_events(self, events: Callable[[str, str], None]) -> None:
        """Passes the events since the last call on, in the caller's thread."""
        with contextlib.suppress(Empty):
            while True:
                events(self.name, self._events.get_nowait())

    # Status, from any thread

    @property
    def heartbeat_ms(self) -> int | None:
        """Time of the newest heartbeat."""
        sync = self._syncs.get("heartbeats")
        return sync.heartbeat_ms if isinstance(sync, HeartbeatSync) else None

    @property
    def checkpoint_ms(self) -> int | None:
        """Time of the newest checkpoint."""
        sync = self._syncs.get("checkpoints")
        return sync.checkpoint_ms if isinstance(sync, CheckpointSync) else None

    @property
    def groups(self) -> list[GroupStatus]:
        sync = self._syncs.get("checkpoints")
        return sync.group_status if isinstance(sync, CheckpointSync) else []

    def _create(self, subject: str) -> Sync:
        match subject:
            case "topics":
                return ConfigAndAclSync(self._config, self._warn)
            case "checkpoints":
                return CheckpointSync(self._config, self._warn)
            case _:
                return HeartbeatSync(self._config)

    def _warn(self, key: str, text: str) -> None:
        """Reports a text once, until the key has another one."""
        if self._reported.get(key) != text:
            self._reported[key] = text
            self._events.put(text)
