"""Reads commands from the journal in a thread, by long polling."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final

from twinlog.errors import TwinlogError
from twinlog.journal.messages import COMMANDS, Command
from twinlog.kafka.client import LATEST, Client
from twinlog.kafka.topic_reader import PartitionTail, check_partition
from twinlog.model import TopicPartition

_WAIT_MS: Final = 5000


class CommandListener:
    def __init__(self, client: Client, topic: str, start: int, on_command: Callable[[Command], None]) -> None:
        self._client = client
        self._tail = PartitionTail(client, TopicPartition(topic, COMMANDS), start)
        self._on_command = on_command
        self._closing = False
        self._thread = threading.Thread(target=self._listen, name="command-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing = True  # not joined: the thread is a daemon

    def _listen(self) -> None:
        while not self._closing:
            try:
                self._poll()
            except (TwinlogError, OSError):
                time.sleep(0.5)
        self._client.close()

    def _poll(self) -> None:
        tail = self._tail
        if tail.position is None:  # out of range
            ends, failed = self._client.list_offsets([tail.tp], LATEST)
            for tp, code in failed.items():
                check_partition(self._client, tp, code)
            tail.position = ends[tail.tp]
        for record in tail.poll(_WAIT_MS):
            if (command := Command.decode(record.value)) is not None and not self._closing:
                with contextlib.suppress(ValueError, KeyError, TypeError):  # malformed
                    self._on_command(command)
