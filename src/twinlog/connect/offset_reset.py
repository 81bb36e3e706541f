"""Applies altered or reset offsets to Twinlog's stored positions.

In addition to MM2's offset, Twinlog stores a position: source offset S is target offset T. It takes precedence when the
flow resumes, so a new one is written here: the next record is the one requested, and it goes to the current end of the
remote topic. Older offset pairs (the offset syncs) are before that end, so none of them is closer.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from twinlog.config.flows import FlowConfig
from twinlog.connect.errors import ConnectError
from twinlog.connect.offset_requests import Offset
from twinlog.kafka import error_codes
from twinlog.kafka.client import EARLIEST, LATEST, NO_ID, Client
from twinlog.mm2.selection import selection_of
from twinlog.mm2.source_offsets import StoredPosition, position_key
from twinlog.model import TopicPartition
from twinlog.sync.flow_clients import FlowClients

Entry = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Move:
    """The source offset at which a partition resumes; None: where a first start would begin."""

    tp: TopicPartition
    source: int | None


def moves_of(config: FlowConfig, offsets: Iterable[Offset]) -> list[Move]:
    """The entries for the flow's own source; MM2 ignores all others, too."""
    found = []
    for each in offsets:
        match dict(each.partition):
            case {"cluster": config.flow.source, "topic": str(topic), "partition": int(number)}:
                at = None if each.offset is None else int(each.offset["offset"]) + 1
                found.append(Move(TopicPartition(topic, number), at))
    return found


def position_entries(config: FlowConfig, moves: list[Move]) -> list[Entry]:
    """Records for the topic of source offsets, from the current start and end offsets of both clusters."""
    if not moves:
        return []
    with FlowClients(config) as clients:
        return _position_entries(config, moves, clients.client("source.consumer"), clients.client("data.producer"))


def _position_entries(config: FlowConfig, moves: list[Move], source: Client, target: Client) -> list[Entry]:
    assert config.source is not None
    selection = selection_of(config)
    remote = {move.tp: TopicPartition(selection.remote_name(move.tp.topic), move.tp.partition) for move in moves}
    upstream = source.metadata({move.tp.topic for move in moves}).topics
    downstream = target.metadata({tp.topic for tp in remote.values()}).topics
    existing = {tp for tp in remote.values() if _exists(downstream, tp)}
    log_ends, failed = target.log_ends(sorted(existing))
    _raise_if_any(target, failed)
    ends, failed = target.list_offsets(sorted(existing), LATEST)
    _raise_if_any(target, failed)
    # Records beyond the high watermark would be after the new position, as if written later.
    _raise_if_any(target, {tp: error_codes.OFFSET_NOT_AVAILABLE for tp, end in ends.items() if end < log_ends[tp]})
    reset_to = LATEST if config.source.clients["source.consumer"]["auto.offset.reset"] == "latest" else EARLIEST
    reset = [move.tp for move in moves if move.source is None and _exists(upstream, move.tp)]
    starts, failed = source.list_offsets(reset, reset_to)
    _raise_if_any(source, failed)
    entries: list[Entry] = []
    for move in moves:
        info = upstream.get(move.tp.topic)
        topic_id = str(info.id) if info is not None and not info.error and info.id != NO_ID else ""
        position = starts.get(move.tp, 0) if move.source is None else move.source
        stored_position = StoredPosition(position, ends.get(remote[move.tp], 0), topic_id, -1)
        key = position_key(config.flow.source, config.flow.target, *move.tp, remote[move.tp].topic)
        entries.append((key, stored_position.encode()))
    return entries


def _exists(topics: object, tp: TopicPartition) -> bool:
    assert isinstance(topics, dict)
    info = topics.get(tp.topic)
    return info is not None and not info.error and tp.partition in info.leaders


def _raise_if_any(client: Client, failed: dict[TopicPartition, int]) -> None:
    for tp, code in failed.items():
        raise ConnectError(500, f"cluster {client.alias}: {tp}: {error_codes.name(code)}; retry")
