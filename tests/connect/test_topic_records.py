"""The records of a Connect worker's topics, as Connect writes them."""

import json

import pytest

from twinlog.connect import topic_records
from twinlog.connect.topic_records import Activity, Connectors, StatusRecord


def read(*entries: tuple[bytes | None, bytes | None]) -> Connectors:
    found = Connectors()
    for entry in entries:
        found.on_record(*entry)
    return found


def test_records_equal_connects() -> None:
    assert topic_records.connector_entry("a", {"k": "vä"}) == (b"connector-a", '{"properties":{"k":"vä"}}'.encode())
    assert topic_records.state_entry("a", "STOPPED") == (b"target-state-a", b'{"state":"PAUSED","state.v2":"STOPPED"}')
    assert topic_records.state_entry("a", "STARTED") == (b"target-state-a", b'{"state":"STARTED","state.v2":"STARTED"}')
    assert topic_records.no_tasks_entry("a") == (b"commit-a", b'{"tasks":0}')
    assert topic_records.removal_entries("a") == [(b"connector-a", None), (b"target-state-a", None)]
    key, value = topic_records.active_topic_entry("c", "t", 0, 5)
    assert key == b"status-topic-t:connector-c"
    assert json.loads(value or b"") == {"topic": {"name": "t", "connector": "c", "task": 0, "discoverTimestamp": 5}}
    assert json.loads(topic_records.status_value(StatusRecord("RUNNING"), "h:1", 3, "4.3.1")) == {
        "state": "RUNNING", "trace": None, "worker_id": "h:1", "generation": 3, "version": "4.3.1",
    }  # fmt: skip


def test_records_of_a_real_worker() -> None:
    found = read(
        (b"session-key", b'{"key":"x","algorithm":"HmacSHA256","creation-timestamp":1}'),
        (b"connector-one", b'{"properties":{"tasks.max":2,"a":"b","gone":null}}'),
        (b"task-one-0", b'{"properties":{"x":"y"}}'),
        (b"commit-one", b'{"tasks":1}'),
        (b"connector-two", b'{"properties":{}}'),
        (b"target-state-two", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
        (b"connector-three", b'{"properties":{}}'),
        (b"target-state-three", b'{"state":"PAUSED"}'),
        (b"tasks-fencing-one", b'{"task-count":1}'),
        (b"logger-cluster-x", b'{"level":"DEBUG"}'),
        (b"restart-connector-one", b'{"include-tasks":true,"only-failed":false}'),
    )
    assert found.configs == {"one": {"tasks.max": "2", "a": "b", "gone": None}, "two": {}, "three": {}}
    assert [found.state(name) for name in found.configs] == ["STARTED", "STOPPED", "PAUSED"]
    assert found.tasks == {"one": 1}


def test_the_last_record_counts_and_tombstones_delete() -> None:
    put = topic_records.connector_entry("a", {"n": "1"}), topic_records.state_entry("a", "PAUSED")
    assert read(*put, topic_records.connector_entry("a", {"n": "2"})).configs == {"a": {"n": "2"}}
    gone = read(*put, *topic_records.removal_entries("a"), topic_records.connector_entry("a", {}))
    assert gone.configs == {"a": {}}
    assert gone.state("a") == "STARTED", "a re-created connector does not inherit the state"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"\xff\xfe", b"{}"),
        (b"connector-a", b"no JSON"),
        (b"connector-a", b"[1]"),
        (b"connector-a", b'{"properties":7}'),
        (b"target-state-a", b'{"state":"DANCING"}'),
        (b"commit-a", b'{"tasks":"many"}'),
    ],
)
def test_invalid_records_are_ignored(key: bytes | None, value: bytes) -> None:
    found = read(topic_records.connector_entry("a", {"n": "1"}), (key, value))
    assert (found.configs, found.states, found.tasks) == ({"a": {"n": "1"}}, {}, {})


def test_active_topics_outlive_a_worker() -> None:
    found = Activity()
    for entry in (
        topic_records.active_topic_entry("c", "us.a", 0, 1),
        topic_records.active_topic_entry("c", "us.b", 0, 1),
        *topic_records.active_topic_removals("c", ["us.a"]),
        (b"status-topic-nonsense", b"{}"),
        (topic_records.task_key("c", 1), b"{}"),
        (topic_records.connector_key("c"), b"{}"),
        (topic_records.task_key("c", 1), None),
    ):
        found.on_record(*entry)
    assert found.topics == {"c": {"us.b"}}
    assert found.keys == {b"status-connector-c"}
