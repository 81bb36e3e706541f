"""Checkpoints and heartbeats by hand, from the specification's tables; and a cluster downstream of others that has them."""

import struct
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest

from lab.cluster import Cluster
from lab.waiting import until
from twinlog.errors import RefusedError
from twinlog.kafka.client import Client
from twinlog.kafka.records import encode
from twinlog.mm2.client_properties import client_of
from twinlog.model import TopicPartition

MIRROR = "org.apache.kafka.connect.mirror."
POLICY = "replication.policy."
FLAG = POLICY + "internal.topic.separator.enabled"
IDENTITY = {POLICY + "class": MIRROR + "IdentityReplicationPolicy"}
NOW_MS = int(time.time() * 1000)  # brokers delete what is older than a week


def text(content: str) -> bytes:
    return struct.pack(">h", len(content.encode())) + content.encode()


def checkpoint(
    group: str, topic: str, partition: int, up: int, down: int, metadata: str = "", version: int = 0
) -> tuple[bytes, bytes]:
    key = text(group) + text(topic) + struct.pack(">i", partition)
    return key, struct.pack(">hqq", version, up, down) + text(metadata)


def heartbeat(source: str, target: str, time_ms: int) -> tuple[bytes, bytes]:
    return text(source) + text(target), struct.pack(">hq", 0, time_ms)


GOOD_KEY, GOOD_VALUE = checkpoint("app", "us.orders", 0, 10, 5)


class Place(NamedTuple):
    """One way to name topics, and aliases that no other test uses."""

    settings: dict[str, str]
    a: str
    b: str
    sep: str = "."
    internal: str = "."

    def checkpoints_topic(self, alias: str) -> str:
        return f"{alias}{self.internal}checkpoints{self.internal}internal"


PLACES = {
    "default": Place({}, "mcdA", "mcdB"),
    "underscore": Place({POLICY + "separator": "_"}, "mcuA", "mcuB", "_", "_"),
    "underscore, dotted internals": Place({POLICY + "separator": "_", FLAG: "false"}, "mcfA", "mcfB", "_"),
    "hyphen": Place({POLICY + "separator": "-", FLAG: "TRUE"}, "mchA", "mchB", "-", "-"),
    "flag without separator": Place({FLAG: "false"}, "mcwA", "mcwB"),
    "identity": Place(IDENTITY, "mciA", "mciB"),
    "identity, source named": Place({**IDENTITY, "source.cluster.alias": "mcnA"}, "mcnA", "mcnB"),
    "identity, underscore": Place({**IDENTITY, POLICY + "separator": "_"}, "mcjA", "mcjB", "_", "_"),
}
HEARTBEAT_MS = 1_700_000_000_000


def orders(tp: Place) -> str:
    return f"{tp.a}{tp.sep}orders"


def _written(tp: Place) -> list[tuple[bytes | None, bytes | None]]:
    topic = orders(tp)
    return [
        checkpoint("app-1", topic, 0, 10, 5),
        checkpoint("app-1", topic, 1, 100, 90, "from a consumer"),
        checkpoint("app-2", topic, 0, 3, 3),
        (b"\0", b"\0"),
        checkpoint("app-1", topic, 0, 20, 15),
        (GOOD_KEY, GOOD_VALUE[:-1]),
        checkpoint("Größe", topic, 0, 2**40, 2**40 - 1, "ä"),
        checkpoint("app-2", topic, 0, 1, 1),
        checkpoint("app-11", topic, 0, 0, 0),
    ]


@pytest.fixture(scope="session")
def stage(eu: Cluster) -> Cluster:
    """A cluster downstream of others, by every replication policy: A directly, B behind A, and a cycle."""
    topics: dict[str, list[tuple[bytes | None, bytes | None]]] = {"heartbeats": [heartbeat("us", "eu", HEARTBEAT_MS)]}
    for tp in PLACES.values():
        a, b, sep = tp.a, tp.b, tp.sep
        topics |= {
            f"{a}{sep}heartbeats": [heartbeat("x", a, HEARTBEAT_MS), heartbeat("y", a, HEARTBEAT_MS + 7)],
            f"{a}{sep}{b}{sep}heartbeats": [],
            f"{a}C{sep}{a}D{sep}{a}C{sep}{a}E{sep}heartbeats": [],
            f"{a}{sep}my-heartbeats": [],
            orders(tp): [],
            f"{a}{sep}{b}{sep}orders": [],
            f"{a}plain": [],
            tp.checkpoints_topic(a): _written(tp),
            tp.checkpoints_topic(b): [],
            f"mm2-offset-syncs{tp.internal}{a}{tp.internal}internal": [],
        }
    with eu.admin() as admin:
        missing = set(topics) - set(admin.list_topics())
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1} for topic in missing})
        admin.wait_for_topics(sorted(topics))
    for topic, pairs in topics.items():
        write(eu.bootstrap(), topic, *pairs)
    return eu


def write(servers: str, topic: str, *pairs: tuple[bytes | None, bytes | None]) -> None:
    if not pairs:
        return
    batch = encode([(NOW_MS + at, key, value, ()) for at, (key, value) in enumerate(pairs)])
    client = Client("eu", client_of("eu", {"bootstrap.servers": servers}, "consumer"))

    try:
        until(
            lambda: not failed(lambda: client.append(TopicPartition(topic, 0), batch)), f"writing to {topic}"
        )  # it may have been made this very moment
    finally:
        client.close()


def failed(question: Callable[[], object]) -> bool:
    try:
        question()
    except RefusedError:
        return True
    return False
