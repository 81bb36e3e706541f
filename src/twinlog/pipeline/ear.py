"""Listens for commands in the journal, in a thread of its own, by a long poll that costs nothing while all is quiet."""

import threading
import time
from collections.abc import Callable

from twinlog.errors import TwinlogError
from twinlog.kafka import codes
from twinlog.kafka.client import LATEST, Client
from twinlog.kafka.reading import batch_end, records_from
from twinlog.model import TopicPartition
from twinlog.tracking.journal import COMMANDS, Command


class Ear:
    def __init__(self, client: Client, topic: str, start: int, hear: Callable[[Command], None]) -> None:
        self._client = client
        self._place = TopicPartition(topic, COMMANDS)
        self._offset = start
        self._hear = hear
        self._closing = False
        self._thread = threading.Thread(target=self._listen, name="ear", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing = True  # the thread is a daemon: it need not be waited for

    def _listen(self) -> None:
        while not self._closing:
            try:
                answer = self._client.read(self._place, self._offset, wait_ms=5000)
                if answer.error_code == codes.OFFSET_OUT_OF_RANGE:
                    self._offset = self._client.list_offsets([self._place], LATEST)[0].get(self._place, self._offset)
                elif answer.error_code:
                    time.sleep(0.5)
                else:
                    start = self._offset
                    self._offset = batch_end(answer.records, start) or start
                    if answer.records and self._offset == start:
                        time.sleep(0.5)
                    for record in records_from(answer.records, start):
                        if (command := Command.decode(record.value)) is not None and not self._closing:
                            self._hear(command)
            except (TwinlogError, OSError):
                time.sleep(0.5)
        self._client.close()
