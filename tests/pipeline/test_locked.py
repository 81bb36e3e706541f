"""Flows through every kind of lock, another one at each end; sessions that end, certificates that are replaced."""

import shutil
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from twinlog.lab.broker import ClusterSpec
from twinlog.lab.certificates import Authority
from twinlog.lab.cluster import Cluster
from twinlog.lab.lab import Lab
from twinlog.lab.listeners import EVERY, MUTUAL_TLS, OAUTH_TLS, SASL_PLAIN, SCRAM_512, SUPER_USER, TLS, Listener
from twinlog.lab.waiting import until

pytestmark = pytest.mark.broker

USER = "dora"


@pytest.fixture(scope="module")
def locked(lab: Lab) -> Iterator[Cluster]:
    """Every kind of listener; a login is good for six seconds. No authorizer: rights are another story."""
    brief = {"connections.max.reauth.ms": "6000"}
    cluster = lab.clusters(ClusterSpec(name="locked", listeners=EVERY, users=(USER,), settings=brief))[0]
    yield cluster
    lab.discard(cluster)


def settings(alias: str, properties: dict[str, str]) -> dict[str, str]:
    """As lines of mm2.properties."""
    return {f"{alias}.{key}".replace(".", "__"): text for key, text in properties.items()}


def through(cluster: Cluster, here: Listener, there: Listener) -> dict[str, str]:
    """The cluster is both ends of the flow, by two doors."""
    doors = {"front": here, "locked": there}
    return {
        key: text
        for alias, listener in doors.items()
        for key, text in settings(alias, cluster.client_properties(listener, USER)).items()
    }


@pytest.mark.parametrize(
    ("here", "there"), list(zip(EVERY, [*EVERY[1:], EVERY[0]], strict=True)), ids=lambda each: each.name
)
def test_records_go_from_lock_to_lock(
    locked: Cluster, topic: str, mirror: Any, writer: Any, here: Listener, there: Listener
) -> None:
    flow = mirror(locked, locked, topic, alias="front", **through(locked, here, there))
    locked.create_topic(topic, 3)
    with writer(locked, topic, 3, rate=20_000) as written:
        until(lambda: written.written > 10_000, "some records", seconds=30)
    flow.copy()
    flow.until_equal(topic, seconds=0)


@pytest.mark.parametrize(
    ("here", "there"), [(SCRAM_512, SASL_PLAIN), (OAUTH_TLS, OAUTH_TLS)], ids=lambda each: each.name
)
def test_a_login_is_renewed_before_it_ends_and_nothing_stops(
    locked: Cluster, topic: str, mirror: Any, writer: Any, here: Listener, there: Listener
) -> None:
    flow = mirror(locked, locked, topic, alias="front", **through(locked, here, there))
    locked.create_topic(topic, 2)
    with flow.start() as running:
        with writer(locked, topic, 2, rate=2_000):
            running.until(
                lambda: all(each.counters.records for each in running.relay.partitions), "records", seconds=60
            )
            recoveries = [partition.counters.recoveries for partition in running.relay.partitions]
            for links in (running.relay.intake, running.relay.outlet):
                (link,) = [link for link in links.links.values() if link.connection is not None]
                for _ in range(2):
                    before = link.connection
                    running.until(
                        lambda link=link, before=before: link.connection is not before, "a new connection", seconds=30
                    )
                    assert link.connection is not None
            assert [partition.counters.recoveries for partition in running.relay.partitions] == recoveries
            assert not any(partition.error for partition in running.relay.partitions), str(running)
        flow.until_equal(topic)


def test_certificates_are_replaced_on_both_sides_while_it_runs(
    locked: Cluster, topic: str, mirror: Any, writer: Any, tmp_path: Path
) -> None:
    client = locked.client_properties(MUTUAL_TLS, USER)
    files = [tmp_path / "truststore.p12", tmp_path / "keystore.p12"]
    for key, file in zip(("ssl.truststore.location", "ssl.keystore.location"), files, strict=True):
        shutil.copy(client[key], file)
        client[key] = str(file)
    doors = settings("front", client) | settings("locked", locked.client_properties(TLS))
    doors["locked__ssl__truststore__location"] = str(files[0])
    flow = mirror(locked, locked, topic, alias="front", **doors)
    locked.create_topic(topic)
    authority = locked.authority
    assert authority is not None
    with flow.start() as running:
        with writer(locked, topic, 1, rate=500):
            running.until(lambda: running[topic].counters.records > 100, "records", seconds=60)
            fresh = Authority(tmp_path / "fresh", "fresh")
            # The broker first, and the lab's own certificate: until our client has its new files, nothing goes.
            shutil.copy(fresh.ca, authority.ca)
            shutil.copy(fresh.server().pem, authority.server().pem)
            for ours, theirs in zip(
                astuple(fresh.client(SUPER_USER)), astuple(authority.client(SUPER_USER)), strict=True
            ):
                shutil.copy(ours, theirs)
            locked.brokers[0].restart()
            running.until(lambda: "not trusted" in running[topic].error, "a clear reason", seconds=60)
            assert f"locked.ssl.truststore.location = {files[0]}" in running[topic].error.replace("front.", "locked.")
            shutil.copy(fresh.client(USER).keystore, files[1])
            shutil.copy(fresh.truststore, files[0])
            before = running[topic].counters.records
            running.until(lambda: running[topic].counters.records > before, "records again", seconds=90)
        flow.until_equal(topic)
