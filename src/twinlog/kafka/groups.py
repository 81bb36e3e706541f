"""Consumer groups: listing, state and committed offsets, from each group's coordinator.

Covers classic groups and those of the new protocol (KIP-848).
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest

from twinlog.errors import RefusedError, UnreachableError
from twinlog.kafka import error_codes
from twinlog.kafka.client import NO_ID, Client
from twinlog.model import TopicPartition

_BATCH: Final = 1000  # groups in one request, to limit its size and that of the response
_PAUSE: Final = 0.1
_BY_TOPIC_NAME: Final = 9  # later versions of OffsetFetch and OffsetCommit use topic ids

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GroupListing:
    group: str
    protocol_type: str
    state: str  # "" before Kafka 2.6
    kind: str  # classic, consumer, share ...; "" before Kafka 3.8


class Groups:
    """Belongs to one thread, as its client does."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._coordinators: dict[str, int] = {}
        self._versions: dict[int | None, dict[int, tuple[int, int]]] = {}

    def groups(self) -> list[GroupListing]:
        """All groups of the cluster. Asks every broker, as each lists only the groups that it coordinates."""
        deadline = time.monotonic() + self._client.timeout
        while True:
            try:
                found = {each.group: each for node in self._client.metadata([]).brokers for each in self._list(node)}
            except (UnreachableError, RefusedError) as error:  # a stopped broker is soon removed from the metadata
                permanent = isinstance(error, RefusedError) and error.code not in error_codes.COORDINATOR
                if permanent or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)
            else:
                return list(found.values())

    def describe_groups(self, groups: Iterable[str]) -> dict[str, str | None]:
        """Each group's state (Empty, Stable ...). None: the group does not exist. Empty: unknown."""
        states: dict[str, str | None] = {}
        listed: dict[int, dict[str, str]] = {}

        def send(node: int, some: Sequence[str]) -> dict[str, int]:
            failed: dict[str, int] = {}
            absent: set[str] = set()
            for group in self._query(DescribeGroupsRequest(groups=list(some)), node).groups:
                if group.error_code not in {error_codes.NONE, error_codes.GROUP_ID_NOT_FOUND}:
                    failed[group.group_id] = group.error_code
                elif group.error_code or group.group_state == "Dead":
                    absent.add(group.group_id)
                else:
                    states[group.group_id] = group.group_state
            if absent:  # or of the new protocol, which only ListGroups covers
                if node not in listed:
                    listed[node] = {each.group: each.state for each in self._list(node)}
                states.update((group, listed[node].get(group)) for group in absent)
            return failed

        states |= dict.fromkeys(self._at_coordinators(groups, send), "")
        return states

    def committed(
        self, groups: Iterable[str]
    ) -> tuple[dict[str, dict[TopicPartition, tuple[int, str]]], dict[str, int]]:
        """(offset and metadata by group and partition, error codes by group). A missing group has no offsets."""
        found: dict[str, dict[TopicPartition, tuple[int, str]]] = {}

        def send(node: int, some: Sequence[str]) -> dict[str, int]:
            if self._version(OffsetFetchRequest, node, _BY_TOPIC_NAME) < 8:
                responses = [(group, self._query(_offsets_of([group]), node, _BY_TOPIC_NAME)) for group in some]
            else:
                responses = [
                    (each.group_id, each) for each in self._query(_offsets_of(some), node, _BY_TOPIC_NAME).groups
                ]
            failed = {}
            for group, response in responses:
                if response.error_code == error_codes.GROUP_ID_NOT_FOUND:
                    found[group] = {}
                elif response.error_code:
                    failed[group] = response.error_code
                else:
                    found[group] = _offsets_in(response)
            return failed

        failed = self._at_coordinators(groups, send)
        return found, failed

    def commit(self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]]) -> dict[TopicPartition, int]:
        """Error codes of the partitions not committed. Brokers reject commits of non-members to an active group."""
        refused: dict[TopicPartition, int] = {}

        def send(node: int, _: Sequence[str]) -> dict[str, int]:
            response = self._query(_commit_of(group, offsets), node, _BY_TOPIC_NAME)
            refused.clear()
            for topic in response.topics:
                for part in topic.partitions:
                    if part.error_code:
                        refused[TopicPartition(topic.name, part.partition_index)] = part.error_code
            retriable = [code for code in refused.values() if code in error_codes.COORDINATOR]
            return {group: retriable[0]} if retriable else {}

        for code in self._at_coordinators([group], send).values():
            refused |= {tp: code for tp in offsets if tp not in refused}
        return refused

    # Coordinators

    def _at_coordinators(
        self, groups: Iterable[str], send: Callable[[int, Sequence[str]], dict[str, int]]
    ) -> dict[str, int]:
        """`send` returns the error codes of the groups that failed; those whose coordinator moved are retried.

        Returns the error codes of the groups that failed in the end.
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
            for node, led in by_node.items():
                for some in chunks(led, _BATCH):
                    try:
                        outcome |= send(node, some)
                    except UnreachableError:
                        self._versions.pop(node, None)
                        outcome |= dict.fromkeys(some, error_codes.COORDINATOR_NOT_AVAILABLE)
                    except RefusedError as error:
                        if error.code not in error_codes.COORDINATOR:
                            raise
                        outcome |= dict.fromkeys(some, error.code)
            waiting = [group for group, code in outcome.items() if code in error_codes.COORDINATOR]
            if time.monotonic() > deadline:
                return failed | outcome
            failed |= {group: code for group, code in outcome.items() if code not in error_codes.COORDINATOR}
            for group in waiting:
                self._coordinators.pop(group, None)
            if waiting:
                time.sleep(_PAUSE)
        return failed

    def _find(self, groups: Iterable[str]) -> dict[str, int]:
        """Finds the unknown coordinators; returns the error codes of groups without one."""
        failed: dict[str, int] = {}

        def store(group: str, response: Any) -> None:
            if response.error_code:
                failed[group] = response.error_code
            else:
                self._coordinators[group] = response.node_id

        for some in chunks([group for group in groups if group not in self._coordinators], _BATCH):
            request = _coordinator_of(some)
            response = self._client.send_any(request)
            if request.API_VERSION >= 4:
                for each in response.coordinators:
                    store(each.key, each)
            else:  # before Kafka 3.0: one by one
                store(some[0], response)
                for group in some[1:]:
                    store(group, self._client.send_any(_coordinator_of([group])))
        return failed

    # Requests

    def _list(self, node: int) -> list[GroupListing]:
        response = self._query(ListGroupsRequest(states_filter=[], types_filter=[]), node)
        if response.error_code:
            raise RefusedError(
                f"cluster {self._client.alias}: ListGroups failed: {error_codes.name(response.error_code)}",
                response.error_code,
            )
        return [
            GroupListing(
                each.group_id, each.protocol_type or "", each.group_state or "", (each.group_type or "").lower()
            )
            for each in response.groups
        ]

    def _query(self, request: Any, node: int, most: int = 99) -> Any:
        request.API_VERSION = self._version(type(request), node, most)
        return self._client.send(request, node)

    def _version(self, kind: Any, node: int, most: int = 99) -> int:
        """The newest version that both sides support, but not above `most`."""
        if node not in self._versions:
            response = self._client.send(ApiVersionsRequest(version=0), node)
            self._versions[node] = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        low, high = self._versions[node].get(kind.API_KEY, (0, -1))
        version = min(high, kind.max_version, most)
        if version < max(low, 0):
            raise RefusedError(
                f"cluster {self._client.alias}: the broker does not support {kind.__name__} in a compatible version",
                error_codes.UNSUPPORTED_VERSION,
            )
        return int(version)


def chunks(items: Iterable[T], size: int) -> list[list[T]]:
    every = list(items)
    return [every[at : at + size] for at in range(0, len(every), size)]


def _coordinator_of(groups: Sequence[str]) -> Any:
    return FindCoordinatorRequest(key=groups[0], key_type=0, coordinator_keys=list(groups))


def _offsets_of(groups: Sequence[str]) -> Any:
    """For all topics."""
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        group_id=groups[0],
        topics=None,
        groups=[kind(group_id=group, member_id=None, member_epoch=-1, topics=None) for group in groups],
        require_stable=False,
    )


def _offsets_in(response: Any) -> dict[TopicPartition, tuple[int, str]]:
    """Without offsets of -1, which some clients commit, and without partitions that we may not describe."""
    return {
        TopicPartition(topic.name, part.partition_index): (part.committed_offset, part.metadata or "")
        for topic in response.topics
        for part in topic.partitions
        if not part.error_code and part.committed_offset >= 0
    }


def _commit_of(group: str, offsets: Mapping[TopicPartition, tuple[int, str]]) -> Any:
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    topics: dict[str, list[Any]] = {}
    for tp, (offset, metadata) in offsets.items():
        topics.setdefault(tp.topic, []).append(
            kind.OffsetCommitRequestPartition(
                partition_index=tp.partition,
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
