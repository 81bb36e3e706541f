"""What `twinlog plan` says of rights: those that it asks for are those that suffice."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import NoError
from kafka.structs import OffsetAndMetadata

from lab import batches
from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.errors import LabError
from lab.jars import NEWEST
from lab.lab import Lab
from lab.raw_protocol import RawProtocol
from lab.waiting import until
from tests.cli.conftest import planned, settings_file, twinlog, unchanged
from tests.runtime.conftest import Pair

SYNC = {"sync.group.offsets.enabled": "true"}


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.parametrize("line", [NEWEST, pytest.param("2.8", marks=pytest.mark.slow)])
def test_rights_that_are_missing_and_those_that_suffice(tmp_path: Path, lab: Lab, line: str) -> None:
    """Both clusters are closed. What the plan asks for is granted, word for word; then the flow runs."""
    closed = [ClusterSpec(name=name, line=line, users=("alice",), authorizer=True) for name in ("inner", "outer")]
    inner, outer = lab.clusters(*closed)
    try:
        _furnish(inner, outer)
        file = settings_file(tmp_path, inner, outer, {"topics": "vault, hall", "groups": "readers", **SYNC})
        with unchanged(inner, outer):
            found = planned(file, "inner->outer")
        asked = _asked(found)
        assert ("inner", "topic", "vault", "Read") in asked  # it may not even be seen
        assert ("inner", "topic", "hall", "Read") in asked
        assert ("inner", "topic", "hall", "DescribeConfigs") in asked
        assert ("inner", "cluster", "", "Describe") in asked
        assert ("outer", "topic", "inner.hall", "Create") in asked
        assert ("outer", "topic", "inner.hall", "Write") in asked
        assert ("outer", "topic", "mm2-offsets.inner.internal", "Create") in asked
        assert ("outer", "group", "readers", "Read") in asked
        people = twinlog("plan", file, "--flow", "inner->outer").stdout
        assert (
            f"kafka-acls --bootstrap-server {inner.bootstrap()} --add --allow-principal User:... --operation" in people
        )
        rounds = 0
        while asked:
            rounds += 1
            assert rounds <= 4, asked
            _grant({"inner": inner, "outer": outer}, asked)
            found = planned(file, "inner->outer")
            asked = _asked(found)
        assert sorted(each["topic"] for each in found["created"]) == ["hall", "vault"]
        assert not found["problems"]
        granted = {(each["principal"], each["operation"], each["name"]) for each in found["acls"]}
        assert ("User:alice", "READ", "inner.hall") in granted

        with RawProtocol(inner.client_properties()) as wire:
            inner.grant("ANONYMOUS", "WRITE", topic="vault")
            wire.produce("vault", 1, batches.encode([batches.Record(1_700_000_000_000, None, b"gold")]))
        pair = Pair(inner, outer, tmp_path)
        try:
            twin = pair.run(file, "--once", "--flow", "inner->outer")
            assert twin.wait(300) == 0, twin.output
            assert "authoriz" not in twin.output.lower(), twin.output
            outer.grant("ANONYMOUS", "READ", topic="*")
            pair.assert_equal("vault", "hall")
            with outer.admin() as admin:
                assert "readers" in {each["group_id"] for each in admin.list_groups()}, twin.output
        finally:
            pair.close()
    finally:
        lab.discard(inner)
        lab.discard(outer)


def _furnish(inner: Cluster, outer: Cluster) -> None:
    inner.create_topic("vault", 2)
    inner.create_topic("hall", 1)
    inner.grant("ANONYMOUS", "WRITE", topic="hall")  # so it may be seen
    with RawProtocol(inner.client_properties()) as wire:
        wire.produce("hall", 0, batches.encode([batches.Record(1_700_000_000_000, None, b"carpet")]))
    inner.grant("alice", "READ", topic="hall")
    _commit(inner, "readers", "hall", 1)
    inner.grant("ANONYMOUS", "DESCRIBE", group="readers")
    outer.create_topic("foyer", 1)  # a cluster that has seen no group can say nothing of rights to them
    _commit(outer, "others", "foyer", 0)


def _commit(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    """As the super user."""

    def is_committed() -> bool:
        """The coordinator of a new cluster takes its time."""
        try:
            with cluster.admin() as admin:
                found = admin.alter_group_offsets(group, {TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)})
        except LabError:
            return False
        return all(error is NoError for error in found.values())

    until(is_committed, f"{group} should have an offset")


def _asked(found: Mapping[str, Any]) -> set[tuple[str, str, str, str]]:
    return {
        (each["cluster"], resource["kind"], resource["name"], operation)
        for each in found["missing_rights"]
        for resource in each["resources"]
        for operation in each["operations"]
    }


def _grant(clusters: Mapping[str, Cluster], asked: set[tuple[str, str, str, str]]) -> None:
    for alias, kind, name, operation in asked:
        word = "".join(f"_{letter}" if letter.isupper() else letter for letter in operation).strip("_").upper()
        clusters[alias].grant("ANONYMOUS", word, **{kind: name or "kafka-cluster"})
