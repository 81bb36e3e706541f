"""Queries a reachable cluster: broker settings, clock."""

from contextlib import closing
from typing import Final

from twinlog.errors import RefusedError, TwinlogError
from twinlog.inspect.doctor import versions
from twinlog.inspect.doctor.facts import ClusterFacts
from twinlog.inspect.doctor.reachability import ClusterReach
from twinlog.kafka import admin_queries, error_codes
from twinlog.kafka.admin_queries import ClockReading
from twinlog.kafka.client import Client

SETTINGS: Final = (
    "auto.create.topics.enable", "compression.type", "default.replication.factor", "log.message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms", "log.message.timestamp.type", "message.max.bytes", "min.insync.replicas",
    "socket.request.max.bytes",
)  # fmt: skip
_LIST_OFFSETS: Final = 2


def inspect(reach: ClusterReach) -> ClusterFacts:
    first = reach.open[0]
    reached = [node for node, address in reach.brokers.items() if reach.result(address).stage == "open"]
    facts = ClusterFacts(
        alias=reach.endpoint.alias,
        id=first.cluster_id,
        controller=first.controller,
        brokers=reach.brokers,
        versions=versions.common(each.versions for each in reach.connected),
    )
    with closing(Client(reach.endpoint.alias, reach.endpoint.config, "twinlog-doctor")) as client:
        settings, unread = _settings(client, reached)
        clock, no_clock, clock_denied = _clock(client, facts)
    return ClusterFacts(
        alias=facts.alias, id=facts.id, controller=facts.controller, brokers=facts.brokers, versions=facts.versions,
        settings=settings, unread=unread, clock=clock, no_clock=no_clock, clock_denied=clock_denied,
    )  # fmt: skip


def _settings(client: Client, nodes: list[int]) -> tuple[dict[int, dict[str, str | None]], str]:
    found: dict[int, dict[str, str | None]] = {}
    for node in nodes:
        try:
            found[node] = admin_queries.broker_settings(client, node, SETTINGS)
        except RefusedError as error:
            denied = error.code in error_codes.UNAUTHORIZED
            return {}, "DescribeConfigs on the cluster is not granted" if denied else str(error)
        except TwinlogError as error:
            return {}, str(error)
    return found, ""


def _clock(client: Client, facts: ClusterFacts) -> tuple[ClockReading | None, str, bool]:
    """The reading, why there is no exact one, and whether that is for lack of a permission."""
    why, denied = "its brokers do not report the time (Kafka 3.3 and later do, in KRaft mode)", False
    try:
        if (exact := admin_queries.controller_clock(client)) is not None:
            return exact, "", False
    except RefusedError as error:
        denied = error.code in error_codes.UNAUTHORIZED
        why = "Describe on the cluster is not granted" if denied else str(error)
    except TwinlogError as error:
        return None, str(error), False
    if facts.versions.get(_LIST_OFFSETS, (0, -1))[1] < admin_queries.MAX_TIMESTAMP_VERSION:
        return None, why, denied
    try:
        return admin_queries.newest_commit(client), why, denied
    except TwinlogError:
        return None, why, denied
