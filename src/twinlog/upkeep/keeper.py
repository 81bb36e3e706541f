"""All that a flow does beside its records: topics' configs and ACLs, heartbeats, checkpoints, group offsets."""

import contextlib
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue

from twinlog.config.flows import FlowConfig
from twinlog.errors import TwinlogError
from twinlog.upkeep.checkpoints import CheckpointKeeper
from twinlog.upkeep.group_look import GroupStatus
from twinlog.upkeep.heartbeats import HeartbeatKeeper
from twinlog.upkeep.routine import Routine, attempt
from twinlog.upkeep.topics import TopicsKeeper

Subject = TopicsKeeper | CheckpointKeeper | HeartbeatKeeper


class Keeper:
    """A thread for each subject: a cluster that does not answer one of them must not keep the heartbeats waiting."""

    def __init__(self, config: FlowConfig) -> None:
        self.name = str(config)
        self._config = config
        self._news: SimpleQueue[str] = SimpleQueue()
        self._said: dict[str, str] = {}
        self._routines: dict[str, Routine] = {}
        self.errors: dict[str, str] = {}  # why a subject could not be begun
        self._kept: dict[str, Subject] = {}

    @property
    def subjects(self) -> list[str]:
        """What the flow has to keep: topics, checkpoints, heartbeats."""
        config = self._config
        wanted = {
            "topics": config.replicates,
            "checkpoints": config.emits_checkpoints,
            "heartbeats": config.emits_heartbeats,
        }
        return [subject for subject, is_wanted in wanted.items() if is_wanted]

    def change(self, config: FlowConfig) -> None:
        """For the subjects that begin from now on."""
        self._config = config

    def start(self, subjects: Iterable[str] | None = None) -> None:
        for subject in self.subjects if subjects is None else subjects:
            self.errors.pop(subject, None)
            try:
                keeper = self._keeper(subject)
            except TwinlogError as error:  # it is this subject's only
                self.errors[subject] = str(error)
                self._warn(subject, f"{subject}: {error}")
                continue
            routine = Routine(f"{subject} of {self.name}", keeper.chores(), self._warn, keeper.close)
            self._routines[subject] = routine
            self._kept[subject] = keeper
            routine.start()

    def once(self) -> None:
        """Each chore once, in order, after all records are there."""
        for subject in self.subjects:
            keeper = self._keeper(subject)
            if subject != "heartbeats":  # a single one would only say that the way was open
                for chore in keeper.chores():
                    attempt(chore, self._warn)
            keeper.close()

    def stop(self, subjects: Iterable[str] | None = None) -> None:
        ending = [
            routine
            for subject in (list(self._routines) if subjects is None else subjects)
            if (routine := self._routines.pop(subject, None)) is not None
        ]
        for routine in ending:
            routine.tell_to_end()
        for routine in ending:
            routine.stop()

    def take(self, events: Callable[[str, str], None]) -> None:
        """What is to be told since this was last called, in the caller's thread."""
        with contextlib.suppress(Empty):
            while True:
                events(self.name, self._news.get_nowait())

    # For whoever watches

    @property
    def heartbeat_ms(self) -> int | None:
        """When the newest one was written."""
        keeper = self._kept.get("heartbeats")
        return keeper.beat_ms if isinstance(keeper, HeartbeatKeeper) else None

    @property
    def checkpoint_ms(self) -> int | None:
        keeper = self._kept.get("checkpoints")
        return keeper.checkpoint_ms if isinstance(keeper, CheckpointKeeper) else None

    @property
    def groups(self) -> list[GroupStatus]:
        keeper = self._kept.get("checkpoints")
        return keeper.standing if isinstance(keeper, CheckpointKeeper) else []

    def _keeper(self, subject: str) -> Subject:
        match subject:
            case "topics":
                return TopicsKeeper(self._config, self._warn)
            case "checkpoints":
                return CheckpointKeeper(self._config, self._warn)
            case _:
                return HeartbeatKeeper(self._config)

    def _warn(self, about: str, text: str) -> None:
        """Once, until something else is to be said of the same."""
        if self._said.get(about) != text:
            self._said[about] = text
            self._news.put(text)
