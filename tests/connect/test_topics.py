"""The records of a Connect worker's topics, as Connect writes them."""

import json

import pytest

from twinlog.connect import topics
from twinlog.connect.topics import Activity, Connectors, Standing


def heard(*entries: tuple[bytes | None, bytes | None]) -> Connectors:
    found = Connectors()
    for entry in entries:
        found.hear(*entry)
    return found


def test_what_is_written_is_what_connect_writes() -> None:
    assert topics.connector_entry("a", {"k": "vä"}) == (b"connector-a", '{"properties":{"k":"vä"}}'.encode())
    assert topics.state_entry("a", "STOPPED") == (b"target-state-a", b'{"state":"PAUSED","state.v2":"STOPPED"}')
    assert topics.state_entry("a", "STARTED") == (b"target-state-a", b'{"state":"STARTED","state.v2":"STARTED"}')
    assert topics.no_tasks_entry("a") == (b"commit-a", b'{"tasks":0}')
    assert topics.removal_entries("a") == [(b"connector-a", None), (b"target-state-a", None)]
    key, value = topics.active_topic_entry("c", "t", 0, 5)
    assert key == b"status-topic-t:connector-c"
    assert json.loads(value or b"") == {"topic": {"name": "t", "connector": "c", "task": 0, "discoverTimestamp": 5}}
    assert json.loads(topics.standing_value(Standing("RUNNING"), "h:1", 3, "4.3.1")) == {
        "state": "RUNNING", "trace": None, "worker_id": "h:1", "generation": 3, "version": "4.3.1",
    }  # fmt: skip


def test_a_topic_of_a_real_worker_is_understood() -> None:
    found = heard(
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
    assert found.configs == {"one": {"tasks.max": "2", "a": "b"}, "two": {}, "three": {}}
    assert [found.state(name) for name in found.configs] == ["STARTED", "STOPPED", "PAUSED"]
    assert found.tasks == {"one": 1}


def test_the_last_word_counts_and_a_tombstone_is_one() -> None:
    put = topics.connector_entry("a", {"n": "1"}), topics.state_entry("a", "PAUSED")
    assert heard(*put, topics.connector_entry("a", {"n": "2"})).configs == {"a": {"n": "2"}}
    gone = heard(*put, *topics.removal_entries("a"), topics.connector_entry("a", {}))
    assert gone.configs == {"a": {}}
    assert gone.state("a") == "STARTED", "one that is made again does not rest because its namesake did"


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
def test_what_makes_no_sense_is_passed_over(key: bytes | None, value: bytes) -> None:
    found = heard(topics.connector_entry("a", {"n": "1"}), (key, value))
    assert (found.configs, found.states, found.tasks) == ({"a": {"n": "1"}}, {}, {})


def test_active_topics_outlive_a_worker() -> None:
    found = Activity()
    for entry in (
        topics.active_topic_entry("c", "us.a", 0, 1),
        topics.active_topic_entry("c", "us.b", 0, 1),
        *topics.active_topic_removals("c", ["us.a"]),
        (b"status-topic-nonsense", b"{}"),
        (topics.task_key("c", 1), b"{}"),
        (topics.connector_key("c"), b"{}"),
        (topics.task_key("c", 1), None),
    ):
        found.hear(*entry)
    assert found.topics == {"c": {"us.b"}}
    assert found.keys == {b"status-connector-c"}
