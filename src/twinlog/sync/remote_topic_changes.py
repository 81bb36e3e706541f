"""Detects re-created remote topics, and reads their end offsets, for checkpoints."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from twinlog.kafka import error_codes
from twinlog.kafka.client import EARLIEST, LATEST, NO_ID, Client
from twinlog.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Ends:
    """`unknown`: partitions without DESCRIBE permission. Partitions in neither do not exist, or have no leader now."""

    offsets: dict[TopicPartition, int]
    unknown: frozenset[TopicPartition] = frozenset()

    def covers(self, tp: TopicPartition) -> bool:
        return tp in self.offsets or tp in self.unknown

    def limit(self, tp: TopicPartition, limit: int | None) -> int | None:
        """The smaller of the limit and the end offset."""
        return min((each for each in (limit, self.offsets.get(tp)) if each is not None), default=None)


class RemoteTopicChanges:
    """Not thread-safe, as its client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ids: dict[str, uuid.UUID] = {}

    def replaced(self, topics: Iterable[str]) -> set[str]:
        """Topics that were re-created since the last call."""
        now, _ = self._describe(topics)
        changed = {topic for topic, id_ in now.items() if self._is_recreated(topic, id_)}
        self._ids |= now
        return changed

    def ends(self, tps: Iterable[TopicPartition]) -> Ends:
        """Without topics that were re-created since the last call of `replaced`."""
        wanted = set(tps)
        now, hidden = self._describe({tp.topic for tp in wanted})
        same = {tp for tp in wanted if not self._is_recreated(tp.topic, now.get(tp.topic, NO_ID))}
        found, failed = self._client.list_offsets(sorted(same), LATEST)
        denied = (tp for tp, code in failed.items() if tp.topic in hidden or code in error_codes.UNAUTHORIZED)
        return Ends(found, frozenset(denied))

    def starts(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._client.list_offsets(sorted(tps), EARLIEST)[0]

    def _describe(self, topics: Iterable[str]) -> tuple[dict[str, uuid.UUID], set[str]]:
        """Known topic ids, and topics without DESCRIBE permission. Also refreshes the client's leaders."""
        wanted = set(topics)
        found = self._client.metadata(wanted).topics if wanted else {}
        # Brokers before 2.8 have no topic ids.
        ids = {topic: info.id for topic, info in found.items() if not info.error and info.id != NO_ID}
        return ids, {topic for topic, info in found.items() if info.error in error_codes.UNAUTHORIZED}

    def _is_recreated(self, topic: str, now: uuid.UUID) -> bool:
        before = self._ids.get(topic, NO_ID)
        return NO_ID not in {before, now} and before != now
