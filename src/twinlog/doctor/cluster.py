"""What a cluster says of itself to somebody who came in: its brokers' settings, its clock."""

from typing import Final

from twinlog.doctor import versions
from twinlog.doctor.facts import ClusterFacts, Door
from twinlog.doctor.reach import Way
from twinlog.errors import RefusedError, TwinlogError
from twinlog.kafka import checkup, codes
from twinlog.kafka.checkup import ClockReading
from twinlog.kafka.client import Client

SETTINGS: Final = (
    "auto.create.topics.enable", "compression.type", "default.replication.factor", "log.message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms", "log.message.timestamp.type", "message.max.bytes", "min.insync.replicas",
    "socket.request.max.bytes",
)  # fmt: skip
_LIST_OFFSETS: Final = 2


def looked_at(way: Way) -> ClusterFacts:
    """Through a door at which somebody came in."""
    first = way.open[0]
    inside = [node for node, address in way.brokers.items() if way.knock(address).stage == "open"]
    facts = ClusterFacts(
        alias=way.door.alias,
        id=first.cluster_id,
        controller=first.controller,
        brokers=way.brokers,
        versions=versions.common(each.versions for each in way.inside),
    )
    client = _client(way.door)
    try:
        settings, unread = _settings(client, inside)
        clock, no_clock = _clock(client, facts)
    finally:
        client.close()
    return ClusterFacts(
        alias=facts.alias, id=facts.id, controller=facts.controller, brokers=facts.brokers, versions=facts.versions,
        settings=settings, unread=unread, clock=clock, no_clock=no_clock,
    )  # fmt: skip


def _client(door: Door) -> Client:
    return Client(door.alias, door.config, "twinlog-doctor")


def _settings(client: Client, nodes: list[int]) -> tuple[dict[int, dict[str, str | None]], str]:
    found: dict[int, dict[str, str | None]] = {}
    for node in nodes:
        try:
            found[node] = checkup.broker_settings(client, node, SETTINGS)
        except RefusedError as error:
            denied = error.code in codes.DENIED
            return {}, "DescribeConfigs on the cluster is not granted" if denied else str(error)
        except TwinlogError as error:
            return {}, str(error)
    return found, ""


def _clock(client: Client, facts: ClusterFacts) -> tuple[ClockReading | None, str]:
    why = "its brokers do not tell the time (Kafka 3.3 and later do, without ZooKeeper)"
    try:
        if (exact := checkup.controller_clock(client)) is not None:
            return exact, ""
    except RefusedError as error:
        why = "Describe on the cluster is not granted" if error.code in codes.DENIED else str(error)
    except TwinlogError as error:
        return None, str(error)
    if facts.versions.get(_LIST_OFFSETS, (0, -1))[1] < checkup.TELLS_NEWEST:
        return None, why
    try:
        return checkup.newest_commit(client), why
    except TwinlogError:
        return None, why
