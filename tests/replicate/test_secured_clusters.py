"""Every security protocol on both ends of a flow; reauthentication; replacement of certificates."""

import shutil
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from lab.broker import ClusterSpec
from lab.certificates import Authority
from lab.cluster import Cluster
from lab.lab import Lab
from lab.listeners import EVERY, MUTUAL_TLS, OAUTH_TLS, SASL_PLAIN, SCRAM_512, SUPER_USER, TLS, Listener
from lab.waiting import until

pytestmark = pytest.mark.broker

USER = "dora"


@pytest.fixture(scope="module")
def secured(lab: Lab) -> Iterator[Cluster]:
    """Every kind of listener; sessions last six seconds. No authorizer."""
    brief = {"connections.max.reauth.ms": "6000"}
    cluster = lab.clusters(ClusterSpec(name="locked", listeners=EVERY, users=(USER,), settings=brief))[0]
    yield cluster
    lab.discard(cluster)


def settings(alias: str, properties: dict[str, str]) -> dict[str, str]:
    """As lines of mm2.properties."""
    return {f"{alias}.{key}".replace(".", "__"): text for key, text in properties.items()}


def through(cluster: Cluster, here: Listener, there: Listener) -> dict[str, str]:
    """The cluster is both ends of the flow, by two listeners."""
    listeners = {"front": here, "locked": there}
    return {
        key: text
        for alias, listener in listeners.items()
        for key, text in settings(alias, cluster.client_properties(listener, USER)).items()
    }


@pytest.mark.parametrize(
    ("here", "there"), list(zip(EVERY, [*EVERY[1:], EVERY[0]], strict=True)), ids=lambda each: each.name
)
def test_every_pair_of_security_protocols(
    secured: Cluster, topic: str, mirror: Any, writer: Any, here: Listener, there: Listener
) -> None:
    flow = mirror(secured, secured, topic, alias="front", **through(secured, here, there))
    secured.create_topic(topic, 3)
    with writer(secured, topic, 3, rate=20_000) as written:
        until(lambda: written.written > 10_000, "some records", seconds=30)
    flow.copy()
    flow.until_equal(topic, seconds=0)


@pytest.mark.parametrize(
    ("here", "there"), [(SCRAM_512, SASL_PLAIN), (OAUTH_TLS, OAUTH_TLS)], ids=lambda each: each.name
)
def test_sessions_are_reauthenticated_before_they_end(
    secured: Cluster, topic: str, mirror: Any, writer: Any, here: Listener, there: Listener
) -> None:
    flow = mirror(secured, secured, topic, alias="front", **through(secured, here, there))
    secured.create_topic(topic, 2)
    with flow.start() as running:
        with writer(secured, topic, 2, rate=2_000):
            running.until(
                lambda: all(each.report.counters.records for each in running.relay.partitions), "records", seconds=60
            )
            recoveries = [partition.report.counters.recoveries for partition in running.relay.partitions]
            brokers = [
                each
                for connections in (running.relay.fetcher, running.relay.producer)
                for each in connections.connections.values()
                if each.connection is not None
            ]
            assert len(brokers) == 2
            for _ in range(2):
                before = [broker.connection for broker in brokers]
                running.until(
                    lambda before=before: not set(before) & {broker.connection for broker in brokers},
                    "new connections",
                    seconds=30,
                )
                assert all(broker.connection is not None for broker in brokers)
            assert [partition.report.counters.recoveries for partition in running.relay.partitions] == recoveries
            assert not any(partition.report.error for partition in running.relay.partitions), str(running)
        flow.until_equal(topic)


def test_certificates_are_replaced_on_both_sides_while_it_runs(
    secured: Cluster, topic: str, mirror: Any, writer: Any, tmp_path: Path
) -> None:
    client = secured.client_properties(MUTUAL_TLS, USER)
    files = [tmp_path / "truststore.p12", tmp_path / "keystore.p12"]
    for key, file in zip(("ssl.truststore.location", "ssl.keystore.location"), files, strict=True):
        shutil.copy(client[key], file)
        client[key] = str(file)
    listeners = settings("front", client) | settings("locked", secured.client_properties(TLS))
    listeners["locked__ssl__truststore__location"] = str(files[0])
    flow = mirror(secured, secured, topic, alias="front", **listeners)
    secured.create_topic(topic)
    authority = secured.authority
    assert authority is not None
    with flow.start() as running:
        with writer(secured, topic, 1, rate=500):
            running.until(lambda: running[topic].report.counters.records > 100, "records", seconds=60)
            fresh = Authority(tmp_path / "fresh", "fresh")
            # The broker's and the lab's certificates first: until our client has its new files, it cannot connect.
            shutil.copy(fresh.ca, authority.ca)
            shutil.copy(fresh.server().pem, authority.server().pem)
            for ours, theirs in zip(
                astuple(fresh.client(SUPER_USER)), astuple(authority.client(SUPER_USER)), strict=True
            ):
                shutil.copy(ours, theirs)
            secured.brokers[0].restart()
            running.until(lambda: "not trusted" in running[topic].report.error, "a clear reason", seconds=60)
            assert f"locked.ssl.truststore.location = {files[0]}" in running[topic].report.error.replace(
                "front.", "locked."
            )
            shutil.copy(fresh.client(USER).keystore, files[1])
            shutil.copy(fresh.truststore, files[0])
            before = running[topic].report.counters.records
            running.until(lambda: running[topic].report.counters.records > before, "more records", seconds=90)
        flow.until_equal(topic)
