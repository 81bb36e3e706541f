"""All that a flow does beside its records: topics' configs and ACLs, heartbeats, checkpoints, group offsets."""

import contextlib
from collections.abc import Callable
from queue import Empty, SimpleQueue

from twinlog.config.flows import FlowConfig
from twinlog.upkeep.checkpoints import CheckpointKeeper
from twinlog.upkeep.heartbeats import HeartbeatKeeper
from twinlog.upkeep.routine import Routine, attempt
from twinlog.upkeep.topics import TopicsKeeper


class Keeper:
    """A thread for each subject: a cluster that does not answer one of them must not keep the heartbeats waiting."""

    def __init__(self, config: FlowConfig) -> None:
        self.name = str(config)
        self._config = config
        self._news: SimpleQueue[str] = SimpleQueue()
        self._said: dict[str, str] = {}
        self._routines: list[Routine] = []

    def start(self) -> None:
        for subject, keeper in self._keepers().items():
            routine = Routine(f"{subject} of {self.name}", keeper.chores(), self._warn, keeper.close)
            self._routines.append(routine)
            routine.start()

    def once(self) -> None:
        """Each chore once, in order, after all records are there."""
        for subject, keeper in self._keepers().items():
            if subject != "heartbeats":  # a single one would only say that the way was open
                for chore in keeper.chores():
                    attempt(chore, self._warn)
            keeper.close()

    def stop(self) -> None:
        for routine in self._routines:
            routine.stop()

    def take(self, events: Callable[[str, str], None]) -> None:
        """What is to be told since this was last called, in the caller's thread."""
        with contextlib.suppress(Empty):
            while True:
                events(self.name, self._news.get_nowait())

    def _keepers(self) -> dict[str, "TopicsKeeper | CheckpointKeeper | HeartbeatKeeper"]:
        config = self._config
        keepers: dict[str, TopicsKeeper | CheckpointKeeper | HeartbeatKeeper] = {}
        if config.replicates:
            keepers["topics"] = TopicsKeeper(config, self._warn)
        if config.emits_checkpoints:
            keepers["checkpoints"] = CheckpointKeeper(config, self._warn)
        if config.emits_heartbeats:
            keepers["heartbeats"] = HeartbeatKeeper(config)
        return keepers

    def _warn(self, about: str, text: str) -> None:
        """Once, until something else is to be said of the same."""
        if self._said.get(about) != text:
            self._said[about] = text
            self._news.put(text)
