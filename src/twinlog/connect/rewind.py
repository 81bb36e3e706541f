"""Makes an altered offset take effect.

Beside MM2's offset Twinlog keeps a cursor, which says more: source offset S is target offset T. It is what counts when
the flow goes on, so a new one is written here: the next record is the one that the operator named, and it lands at the
end that the remote topic has now. Older anchors (the offset syncs) are before that end, so none of them is nearer.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from twinlog.config.flows import FlowConfig
from twinlog.connect.errors import ConnectError
from twinlog.connect.offsets import Offset
from twinlog.kafka import codes
from twinlog.kafka.client import EARLIEST, LATEST, NO_ID, Client
from twinlog.model import TopicPartition
from twinlog.runtime.flow_run import client_of
from twinlog.topology.selection import selection_of
from twinlog.tracking.source_offsets import Cursor, cursor_key

Entry = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Move:
    """A partition of the source, and where it goes on; None: where a first start would begin."""

    place: TopicPartition
    source: int | None


def moves_of(config: FlowConfig, offsets: Iterable[Offset]) -> list[Move]:
    """Those of the entries that are about the flow's own source; to others MM2 would not look either."""
    found = []
    for each in offsets:
        match dict(each.partition):
            case {"cluster": config.flow.source, "topic": str(topic), "partition": int(number)}:
                at = None if each.offset is None else int(each.offset["offset"]) + 1
                found.append(Move(TopicPartition(topic, number), at))
    return found


def cursors(config: FlowConfig, moves: list[Move]) -> list[Entry]:
    """The entries for the topic of source offsets. Both clusters are asked where their logs begin and end."""
    if not moves:
        return []
    source, target = client_of(config, "source"), client_of(config, "target")
    try:
        return _cursors(config, moves, source, target)
    finally:
        source.close()
        target.close()


def _cursors(config: FlowConfig, moves: list[Move], source: Client, target: Client) -> list[Entry]:
    assert config.source is not None
    selection = selection_of(config)
    remote = {
        move.place: TopicPartition(selection.remote_name(move.place.topic), move.place.partition) for move in moves
    }
    upstream = source.metadata({move.place.topic for move in moves}).topics
    downstream = target.metadata({place.topic for place in remote.values()}).topics
    there = {place for place in remote.values() if _has(downstream, place)}
    ends, failed = target.list_offsets(sorted(there), LATEST)
    _refuse_any(target, failed)
    first = LATEST if config.source.clients["source.consumer"]["auto.offset.reset"] == "latest" else EARLIEST
    again = [move.place for move in moves if move.source is None and _has(upstream, move.place)]
    begins, failed = source.list_offsets(again, first)
    _refuse_any(source, failed)
    entries: list[Entry] = []
    for move in moves:
        info = upstream.get(move.place.topic)
        topic_id = str(info.id) if info is not None and not info.error and info.id != NO_ID else ""
        at = begins.get(move.place, 0) if move.source is None else move.source
        cursor = Cursor(at, ends.get(remote[move.place], 0), topic_id, -1)
        entries.append((cursor_key(config.flow.source, config.flow.target, *move.place), cursor.encode()))
    return entries


def _has(topics: object, place: TopicPartition) -> bool:
    assert isinstance(topics, dict)
    info = topics.get(place.topic)
    return info is not None and not info.error and place.partition in info.leaders


def _refuse_any(client: Client, failed: dict[TopicPartition, int]) -> None:
    for place, code in failed.items():
        raise ConnectError(500, f"cluster {client.alias}: {place}: {codes.name(code)}: try again")
