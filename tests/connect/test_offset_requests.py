"""Offsets in Connect's API: which entries are valid, and the bytes of their keys."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.conftest import ReadFlow
from twinlog.connect import offset_reset
from twinlog.connect.errors import ConnectError
from twinlog.connect.offset_requests import (
    Offset,
    java_order,
    key_of,
    offsets_json,
    parse_entries,
    stored_offsets,
    value_of,
)
from twinlog.connect.worker import ServeWorker
from twinlog.errors import RefusedError
from twinlog.kafka import error_codes

SOURCE, CHECKPOINT, HEARTBEAT = "MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"
PARTITION = {"cluster": "A", "partition": 0, "topic": "t"}


def test_members_are_in_the_order_of_java() -> None:
    assert java_order(["topic", "partition", "cluster"]) == ["cluster", "partition", "topic"]
    assert java_order(["group", "topic", "partition"]) == ["partition", "topic", "group"]
    assert java_order(["targetClusterAlias", "sourceClusterAlias"]) == ["sourceClusterAlias", "targetClusterAlias"]


@pytest.mark.parametrize(
    ("partition", "key"),
    [
        ({"topic": "t", "cluster": "A", "partition": 0}, b'["c",{"cluster":"A","partition":0,"topic":"t"}]'),
        ({"topic": "A.t", "group": "g", "partition": 0}, b'["c",{"partition":0,"topic":"A.t","group":"g"}]'),
    ],
)
def test_any_order_gives_the_same_bytes(partition: dict[str, Any], key: bytes) -> None:
    assert key_of("c", partition) == key
    assert value_of({"offset": 41}) == b'{"offset":41}'
    assert value_of(None) is None


def test_the_last_record_of_each_key_counts() -> None:
    key, other = key_of("c", PARTITION), key_of("c", {**PARTITION, "partition": 1})
    found = stored_offsets(
        [
            (key, b'{"offset":1}'),
            (other, b'{"offset":5}'),
            (key_of("d", PARTITION), b'{"offset":9}'),
            (b"nonsense", b"{}"),
            (None, b"{}"),
            (key, b'{"offset":2}'),
            (other, None),
        ],
        "c",
    )
    assert offsets_json(found) == {"offsets": [{"partition": PARTITION, "offset": {"offset": 2}}]}


def test_the_last_entry_of_a_partition_counts() -> None:
    entries = [{"partition": PARTITION, "offset": {"offset": 1}}, {"partition": PARTITION, "offset": {"offset": 2}}]
    assert parse_entries(SOURCE, entries) == [Offset(PARTITION, {"offset": 2})]


def test_any_partition_may_be_deleted() -> None:
    assert parse_entries(SOURCE, [{"partition": {"any": 1}, "offset": None}]) == [Offset({"any": 1}, None)]


@pytest.mark.parametrize("entries", [None, []])
def test_entries_are_required(entries: list[Any] | None) -> None:
    with pytest.raises(ConnectError) as refused:
        parse_entries(SOURCE, entries)
    assert refused.value.status == 400


GROUP = {"group": "g", "topic": "A.t", "partition": 0}
CLUSTERS = {"sourceClusterAlias": "A", "targetClusterAlias": "B"}


@pytest.mark.parametrize(
    ("kind", "partition", "offset", "message"),
    [
        (SOURCE, None, {"offset": 1}, "may not be null"),
        (SOURCE, {"topic": "t", "partition": 0}, {"offset": 1}, "is missing the 'cluster' key"),
        (SOURCE, {**PARTITION, "topic": 7}, {"offset": 1}, "for the 'topic' key, which must be a string"),
        (SOURCE, {"cluster": "A", "topic": "t"}, {"offset": 1}, "is missing the 'partition' key"),
        (SOURCE, {**PARTITION, "partition": "0"}, {"offset": 1}, "for the 'partition' key, which must be an integer"),
        (SOURCE, {**PARTITION, "partition": True}, {"offset": 1}, "for the 'partition' key, which must be an integer"),
        (SOURCE, {**PARTITION, "partition": -1}, {"offset": 1}, "for the 'partition' key, which cannot be negative"),
        (SOURCE, PARTITION, {"at": 1}, "is missing the 'offset' key"),
        (SOURCE, PARTITION, {"offset": "1"}, "for the 'offset' key, which must be an integer"),
        (SOURCE, PARTITION, {"offset": 1 << 63}, "for the 'offset' key, which must be an integer"),
        (SOURCE, PARTITION, {"offset": -1}, "for the 'offset' key, which cannot be negative"),
        (CHECKPOINT, {**GROUP, "group": None}, {"offset": 0}, "for the 'group' key, which must be a string"),
        (CHECKPOINT, GROUP, {"offset": 1}, "the only accepted value is 0"),
        (HEARTBEAT, {"sourceClusterAlias": "A"}, {"offset": 0}, "is missing the 'targetClusterAlias' key"),
        (HEARTBEAT, CLUSTERS, {"offset": 1}, "the only accepted value is 0"),
    ],
)
def test_entries_that_mm2_rejects_are_rejected(kind: str, partition: Any, offset: Any, message: str) -> None:
    with pytest.raises(ConnectError, match=message) as refused:
        parse_entries(kind, [{"partition": partition, "offset": offset}])
    assert refused.value.status == 500


def test_entries_that_mm2_accepts_are_accepted() -> None:
    assert parse_entries(CHECKPOINT, [{"partition": GROUP, "offset": {"offset": 0}}])
    assert parse_entries(HEARTBEAT, [{"partition": CLUSTERS, "offset": {"offset": 0}}])
    assert parse_entries(SOURCE, [{"partition": {**PARTITION, "more": 1}, "offset": {"offset": 0}}])


@pytest.mark.parametrize("code", [None, error_codes.UNKNOWN_TOPIC_OR_PARTITION, error_codes.TOPIC_AUTHORIZATION_FAILED])
def test_a_connectors_own_offsets_topic_is_written_too(
    read_flow: ReadFlow, monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    """It takes precedence over the worker's topic, so a reset without it would change nothing."""
    written: list[tuple[str, list[Any]]] = []

    def put(entries: Any, topic: str = "") -> None:
        if topic and code is not None:
            raise RefusedError("no", code)
        written.append((topic, list(entries)))

    flow = read_flow("A->B.offsets.storage.topic = own")
    monkeypatch.setattr(offset_reset, "position_entries", lambda *_: [])
    stub = SimpleNamespace(
        _wait_until_stopped=lambda _: None,
        _facts=SimpleNamespace(flow_roles={"me": SimpleNamespace(flow=flow, role="source")}),
        _store=SimpleNamespace(put_offsets=put),
        _altered=SimpleNamespace(put=lambda _: None),
    )
    entries = [Offset({"cluster": "A", "partition": 0, "topic": "t"}, None)]
    if code == error_codes.TOPIC_AUTHORIZATION_FAILED:
        with pytest.raises(RefusedError):
            ServeWorker._write_offsets(cast("ServeWorker", stub), "me", entries)
        return
    ServeWorker._write_offsets(cast("ServeWorker", stub), "me", entries)
    entry = (b'["me",{"cluster":"A","partition":0,"topic":"t"}]', None)
    assert written == [("", []), *([("own", [entry])] if code is None else []), ("", [entry])]
