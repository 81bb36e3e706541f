"""Consumer groups: which there are, in which state, where they stand. Each group is asked for at its coordinator.

Both kinds of group are meant: the classic ones and those of the new protocol (KIP-848).
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest

from twinlog.errors import RefusedError, UnreachableError
from twinlog.kafka import codes
from twinlog.kafka.client import NO_ID, Client
from twinlog.model import TopicPartition

_BATCH: Final = 1000  # groups in one request: neither it nor its answer grows without bounds
_PAUSE: Final = 0.1
_NAMES_TOPICS: Final = 9  # later versions of OffsetFetch and OffsetCommit know topics by their ids only


@dataclass(frozen=True, slots=True)
class GroupListing:
    group: str
    protocol_type: str
    state: str  # "" where the broker is older than 2.6
    kind: str  # classic, consumer, share ...; "" where the broker is older than 3.8


class Groups:
    """Belongs to one thread, as its client does."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._coordinators: dict[str, int] = {}
        self._versions: dict[int | None, dict[int, tuple[int, int]]] = {}

    def groups(self) -> list[GroupListing]:
        """Of the whole cluster: every broker is asked, for each knows only those that it coordinates."""
        deadline = time.monotonic() + self._client.timeout
        while True:
            try:
                found = {each.group: each for node in self._client.metadata([]).brokers for each in self._list(node)}
            except (UnreachableError, RefusedError) as error:  # one that just died is soon in no metadata any more
                lasting = isinstance(error, RefusedError) and error.code not in codes.COORDINATOR
                if lasting or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)
            else:
                return list(found.values())

    def describe_groups(self, groups: Iterable[str]) -> dict[str, str | None]:
        """Each group's state (Empty, Stable ...). None: there is no such group. Empty text: the broker does not say."""
        states: dict[str, str | None] = {}
        listed: dict[int, dict[str, str]] = {}

        def ask(node: int, some: Sequence[str]) -> dict[str, int]:
            failed: dict[str, int] = {}
            absent: set[str] = set()
            for group in self._ask(DescribeGroupsRequest(groups=list(some)), node).groups:
                if group.error_code not in {codes.NONE, codes.GROUP_ID_NOT_FOUND}:
                    failed[group.group_id] = group.error_code
                elif group.error_code or group.group_state == "Dead":
                    absent.add(group.group_id)
                else:
                    states[group.group_id] = group.group_state
            if absent:  # or of the new protocol, which this request does not know: the list knows every kind
                if node not in listed:
                    listed[node] = {each.group: each.state for each in self._list(node)}
                states.update((group, listed[node].get(group)) for group in absent)
            return failed

        states |= dict.fromkeys(self._at_coordinators(groups, ask), "")
        return states

    def committed(
        self, groups: Iterable[str]
    ) -> tuple[dict[str, dict[TopicPartition, tuple[int, str]]], dict[str, int]]:
        """(offset and metadata by group and partition, error codes by group). A group that is not there has none."""
        found: dict[str, dict[TopicPartition, tuple[int, str]]] = {}

        def ask(node: int, some: Sequence[str]) -> dict[str, int]:
            if self._version(OffsetFetchRequest, node, _NAMES_TOPICS) < 8:
                answers = [(group, self._ask(_offsets_of([group]), node, _NAMES_TOPICS)) for group in some]
            else:
                answers = [(each.group_id, each) for each in self._ask(_offsets_of(some), node, _NAMES_TOPICS).groups]
            failed = {}
            for group, answer in answers:
                if answer.error_code == codes.GROUP_ID_NOT_FOUND:
                    found[group] = {}
                elif answer.error_code:
                    failed[group] = answer.error_code
                else:
                    found[group] = _offsets_in(answer)
            return failed

        failed = self._at_coordinators(groups, ask)
        return found, failed

    def commit(self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]]) -> dict[TopicPartition, int]:
        """Error codes of what was not committed. We are no member, so the broker refuses it for an active group."""
        refused: dict[TopicPartition, int] = {}

        def ask(node: int, _: Sequence[str]) -> dict[str, int]:
            answer = self._ask(_commit_of(group, offsets), node, _NAMES_TOPICS)
            refused.clear()
            for topic in answer.topics:
                for part in topic.partitions:
                    if part.error_code:
                        refused[TopicPartition(topic.name, part.partition_index)] = part.error_code
            again = [code for code in refused.values() if code in codes.COORDINATOR]
            return {group: again[0]} if again else {}

        for code in self._at_coordinators([group], ask).values():
            refused |= {place: code for place in offsets if place not in refused}
        return refused

    # Coordinators

    def _at_coordinators(
        self, groups: Iterable[str], ask: Callable[[int, Sequence[str]], dict[str, int]]
    ) -> dict[str, int]:
        """`ask` says for which groups it failed, and why; where a coordinator has moved, the new one is asked.

        What remains are the error codes of groups that could not be helped.
        """
        deadline = time.monotonic() + self._client.timeout
        waiting = list(dict.fromkeys(groups))
        failed: dict[str, int] = {}
        while waiting:
            outcome = self._find(waiting)
            by_node: dict[int, list[str]] = {}
            for group in waiting:
                if group in self._coordinators:
                    by_node.setdefault(self._coordinators[group], []).append(group)
            for node, mine in by_node.items():
                for some in _parts(mine):
                    try:
                        outcome |= ask(node, some)
                    except UnreachableError:
                        self._versions.pop(node, None)
                        outcome |= dict.fromkeys(some, codes.COORDINATOR_NOT_AVAILABLE)
                    except RefusedError as error:
                        if error.code not in codes.COORDINATOR:
                            raise
                        outcome |= dict.fromkeys(some, error.code)
            waiting = [group for group, code in outcome.items() if code in codes.COORDINATOR]
            if time.monotonic() > deadline:
                return failed | outcome
            failed |= {group: code for group, code in outcome.items() if code not in codes.COORDINATOR}
            for group in waiting:
                self._coordinators.pop(group, None)
            if waiting:
                time.sleep(_PAUSE)
        return failed

    def _find(self, groups: Iterable[str]) -> dict[str, int]:
        """Finds the coordinators that are not known yet; error codes of those for which there is none."""
        failed: dict[str, int] = {}

        def note(group: str, answer: Any) -> None:
            if answer.error_code:
                failed[group] = answer.error_code
            else:
                self._coordinators[group] = answer.node_id

        for some in _parts([group for group in groups if group not in self._coordinators]):
            request = _coordinator_of(some)
            answer = self._client.ask(request)
            if request.API_VERSION >= 4:
                for each in answer.coordinators:
                    note(each.key, each)
            else:  # before Kafka 3.0: one by one
                note(some[0], answer)
                for group in some[1:]:
                    note(group, self._client.ask(_coordinator_of([group])))
        return failed

    # Requests

    def _list(self, node: int) -> list[GroupListing]:
        answer = self._ask(ListGroupsRequest(states_filter=[], types_filter=[]), node)
        if answer.error_code:
            raise RefusedError(
                f"cluster {self._client.alias} does not list groups: {codes.name(answer.error_code)}",
                answer.error_code,
            )
        return [
            GroupListing(
                each.group_id, each.protocol_type or "", each.group_state or "", (each.group_type or "").lower()
            )
            for each in answer.groups
        ]

    def _ask(self, request: Any, node: int, most: int = 99) -> Any:
        request.API_VERSION = self._version(type(request), node, most)
        return self._client.ask(request, node)

    def _version(self, kind: Any, node: int, most: int = 99) -> int:
        """The newest version that both sides know, and that is of use to us."""
        if node not in self._versions:
            answer = self._client.ask(ApiVersionsRequest(version=0), node)
            self._versions[node] = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        low, high = self._versions[node].get(kind.API_KEY, (0, -1))
        version = min(high, kind.max_version, most)
        if version < max(low, 0):
            raise RefusedError(
                f"cluster {self._client.alias}: the broker does not know {kind.__name__} as we do",
                codes.UNSUPPORTED_VERSION,
            )
        return int(version)


def _parts(items: Sequence[str]) -> list[Sequence[str]]:
    return [items[at : at + _BATCH] for at in range(0, len(items), _BATCH)]


def _coordinator_of(groups: Sequence[str]) -> Any:
    return FindCoordinatorRequest(key=groups[0], key_type=0, coordinator_keys=list(groups))


def _offsets_of(groups: Sequence[str]) -> Any:
    """All that they have committed: no topics named."""
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        group_id=groups[0],
        topics=None,
        groups=[kind(group_id=group, member_id=None, member_epoch=-1, topics=None) for group in groups],
        require_stable=False,
    )


def _offsets_in(answer: Any) -> dict[TopicPartition, tuple[int, str]]:
    """Without those that some clients keep as -1, and without partitions that we may not see."""
    return {
        TopicPartition(topic.name, part.partition_index): (part.committed_offset, part.metadata or "")
        for topic in answer.topics
        for part in topic.partitions
        if not part.error_code and part.committed_offset >= 0
    }


def _commit_of(group: str, offsets: Mapping[TopicPartition, tuple[int, str]]) -> Any:
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    topics: dict[str, list[Any]] = {}
    for place, (offset, metadata) in offsets.items():
        topics.setdefault(place.topic, []).append(
            kind.OffsetCommitRequestPartition(
                partition_index=place.partition,
                committed_offset=offset,
                committed_leader_epoch=-1,
                committed_metadata=metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[kind(name=name, topic_id=NO_ID, partitions=parts) for name, parts in topics.items()],
    )
