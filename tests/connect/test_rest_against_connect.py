"""`twinlog serve` responds like a real Connect worker; the same clients and the same script work with both."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, TopicPartition

from lab.cluster import Cluster
from lab.kafka_classes import KafkaJvm
from lab.waiting import until
from tests.connect import clients, script
from tests.connect.conftest import BYTES, FACTORS, MIRROR, Both, Config, Side, plain
from twinlog.connect.definitions import definitions_of

pytestmark = [pytest.mark.broker, pytest.mark.spark]

JSON = {"Content-Type": "application/json"}
KINDS = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")


def test_root_health_and_lists(both: Both) -> None:
    both.same("GET", "/")
    both.same("GET", "/health")
    both.same("HEAD", "/connectors")
    both.same("GET", "/connectors/")
    both.same("GET", "/connectors?expand=info&expand=status")
    both.same("GET", "/connector-plugins", words=True)
    both.same("GET", "/connector-plugins?connectorsOnly=true")


def test_unknown_paths_methods_and_media_types(both: Both) -> None:
    for method, path in [
        ("GET", "/nowhere"), ("GET", "/connectors/none/nowhere"), ("DELETE", "/connectors"), ("PATCH", "/connectors"),
        ("POST", "/connectors/none/config"), ("GET", "/connectors/none/pause"), ("POST", "/connectors/none/stop"),
        ("PUT", "/connector-plugins"), ("GET", "/connector-plugins/MirrorSource/config/validate"),
        ("DELETE", "/admin/loggers/root"), ("POST", "/admin/loggers"), ("PUT", "/"), ("GET", "/connectors/none/tasks-config"),
    ]:  # fmt: skip
        both.same(method, path, words=True)
    for accept in ("text/html", "application/xml, text/plain;q=0.5"):
        both.same("GET", "/connectors", headers={"Accept": accept}, words=True)
    for accept in ("*/*", "application/json", "text/html, application/json", "application/*"):
        both.same("GET", "/connectors", headers={"Accept": accept})
    for headers in ({"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}):
        both.same("PUT", "/connectors/none/config", b"a=b", headers, words=True)
        both.same("PUT", "/connectors/none/pause", headers=headers)
        both.same("GET", "/connectors", headers=headers)
    both.same("PUT", "/connectors/none/pause", b"{}", {"Content-Type": "application/json; charset=utf-8"})
    assert both.real.send("OPTIONS", "/connectors").status == both.ours.send("OPTIONS", "/connectors").status == 200


@pytest.mark.parametrize(
    "body", [b"{", b"", b"null", b"[]", b'["a"]', b'{"a": {"b": 1}}', b'{"a": []}', b'{"a": NaN}', b"{} x"]
)
def test_an_invalid_configuration_body(both: Both, body: bytes) -> None:
    both.same("PUT", "/connectors/none/config", body, JSON)
    both.same("PUT", "/connector-plugins/MirrorSource/config/validate", body, JSON)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", {}, {"nome": "c"}, {"name": "c"}, {"name": "c", "config": {}}, {"name": 5, "config": {}}, ["a"],
        {"name": "c", "config": {"name": "d"}}, {"name": "c", "config": []}, {"name": ["c"], "config": {}},
        {"name": "c", "config": None}, {"name": "c", "config": {"connector.class": "org.x.Nothing"}},
        {"name": "c", "config": {"connector.class": ""}}, {"name": "c", "config": {}, "initial_state": "FLYING"},
        {"name": "c", "config": {}, "initial_state": 5},
    ],
)  # fmt: skip
def test_an_invalid_creation_body(both: Both, body: Any) -> None:
    both.same("POST", "/connectors", body, JSON)


def test_a_connector_with_errors(both: Both, config: Config) -> None:
    for settings in (
        {"tasks.max": "0"}, {"tasks.max": "many", "enabled": "maybe", "errors.tolerance": "some"}, {"topics": "a,,b"},
        {"offset-syncs.topic.location": "moon"}, {"emit.offset-syncs.enabled": "false"}, {"name": "other"},
    ):  # fmt: skip
        both.same("POST", "/connectors", {"name": "wrong", "config": {**config(), **settings}})
        both.same("PUT", "/connectors/wrong/config", {**config(), **settings})
    for name in ("", "  ", "with\nbreak"):
        both.same("POST", "/connectors", {"name": name, "config": config()})
    both.same("POST", "/connectors", {"config": config()})
    missing = {key: value for key, value in config().items() if key != "source.cluster.alias"}
    both.same("PUT", "/connectors/wrong/config", missing)
    both.same("GET", "/connectors")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""), ("GET", "/config"), ("GET", "/status"), ("GET", "/tasks"), ("GET", "/tasks/0/status"),
        ("GET", "/tasks/x/status"), ("GET", "/tasks/99999999999/status"), ("POST", "/tasks/0/restart"),
        ("POST", "/tasks/x/restart"), ("PUT", "/pause"), ("PUT", "/resume"), ("PUT", "/stop"), ("POST", "/restart"),
        ("POST", "/restart?includeTasks=true"), ("DELETE", ""), ("GET", "/offsets"), ("DELETE", "/offsets"),
        ("GET", "/topics"), ("PUT", "/topics/reset"),
    ],
)  # fmt: skip
def test_an_unknown_connector(both: Both, method: str, path: str) -> None:
    both.same(method, f"/connectors/none{path}", words=True)
    both.same(method, f"/connectors/not-%3Ehere%20either{path}", words=True)


def test_changes_to_an_unknown_connector(both: Both) -> None:
    both.same("PATCH", "/connectors/none/config", {"a": "b"}, words=True)
    both.same("PATCH", "/connectors/none/offsets", {"offsets": [{"partition": {}, "offset": {}}]}, words=True)
    bodies: list[Any] = [{"offsets": []}, {"offsets": None}, {}, b"", b"null"]
    for body in bodies:  # Connect checks these before the name
        both.same("PATCH", "/connectors/none/offsets", body, JSON, words=isinstance(body, dict))


@pytest.fixture(scope="module")
def topic_of_two(us: Cluster) -> str:
    us.create_topic("rest-of-two", partitions=2)
    return "rest-of-two"


LIFE = "us->eu of life"  # a name that must be encoded
LIFE_PATH = "/connectors/us-%3Eeu%20of%20life"


def test_a_connectors_life(both: Both, config: Config, topic_of_two: str) -> None:
    made = {**config(tasks_max=2, topics=topic_of_two), "sync.topic.acls.enabled": False}
    both.same("POST", "/connectors", {"name": LIFE, "config": made})
    both.same("POST", "/connectors", {"name": LIFE, "config": made}, words=True)
    both.wait_for("us-%3Eeu%20of%20life", "RUNNING", "RUNNING", "RUNNING")
    for path in (
        "",
        "/config",
        "/status",
        "/tasks/0/status",
        "/tasks/1/status",
        "/tasks/2/status",
        "/offsets",
        "/topics",
    ):
        both.same("GET", LIFE_PATH + path)
    for query in ("expand=info", "expand=status", "expand=info&expand=status", "expand=nonsense", "expand", "expand="):
        both.same("GET", f"/connectors?{query}")
    for side in (both.real, both.ours):
        tasks = side.send("GET", f"{LIFE_PATH}/tasks").json
        assert [each["id"] for each in tasks] == [{"connector": LIFE, "task": 0}, {"connector": LIFE, "task": 1}]
        assert all(each["config"]["connector.class"] == MIRROR + KINDS[0] for each in tasks)

    both.same("PUT", f"{LIFE_PATH}/config", {**made, "offset.lag.max": 50, "x.y": "z"})
    both.wait_for("us-%3Eeu%20of%20life", "RUNNING", "RUNNING", "RUNNING")
    both.same("GET", f"{LIFE_PATH}/config")
    both.same("PATCH", f"{LIFE_PATH}/config", {"x.y": None, "offset.lag.max": "60"})
    both.same("PATCH", f"{LIFE_PATH}/config", {})
    both.same("PATCH", f"{LIFE_PATH}/config", {"tasks.max": "0"})
    both.same("PATCH", f"{LIFE_PATH}/config", {"connector.class": None})
    both.same("PATCH", f"{LIFE_PATH}/config", {"name": None})
    both.same("PATCH", f"{LIFE_PATH}/config", b"", JSON)
    both.same("GET", f"{LIFE_PATH}/config")
    both.wait_for("us-%3Eeu%20of%20life", "RUNNING", "RUNNING", "RUNNING")

    both.same("PUT", f"{LIFE_PATH}/pause")
    both.wait_for("us-%3Eeu%20of%20life", "PAUSED", "PAUSED", "PAUSED")
    both.same("GET", f"{LIFE_PATH}/status")
    both.same("PUT", f"{LIFE_PATH}/stop")
    both.wait_for("us-%3Eeu%20of%20life", "STOPPED")
    for path in ("", "/status", "/tasks", "/tasks/0/status"):
        both.same("GET", LIFE_PATH + path)
    both.same("PUT", f"{LIFE_PATH}/resume")
    both.wait_for("us-%3Eeu%20of%20life", "RUNNING", "RUNNING", "RUNNING")

    both.same("POST", f"{LIFE_PATH}/restart")
    both.wait_for("us-%3Eeu%20of%20life", "RUNNING", "RUNNING", "RUNNING")
    both.same("POST", f"{LIFE_PATH}/restart?includeTasks=true")
    both.wait_for("us-%3Eeu%20of%20life", "RUNNING", "RUNNING", "RUNNING")
    both.same("POST", f"{LIFE_PATH}/restart?includeTasks=true&onlyFailed=true", seconds=60)
    both.same("POST", f"{LIFE_PATH}/restart?onlyFailed=true", seconds=60)
    both.same("POST", f"{LIFE_PATH}/restart?includeTasks=maybe&forward=false")
    both.wait_for("us-%3Eeu%20of%20life", "RUNNING", "RUNNING", "RUNNING")
    both.same("POST", f"{LIFE_PATH}/tasks/0/restart")
    both.same("POST", f"{LIFE_PATH}/tasks/7/restart", words=True)
    both.wait_for("us-%3Eeu%20of%20life", "RUNNING", "RUNNING", "RUNNING")

    both.same("DELETE", LIFE_PATH)
    both.same("GET", LIFE_PATH, words=True)
    both.same("DELETE", LIFE_PATH, words=True)
    both.wait_for("us-%3Eeu%20of%20life")
    both.same("GET", f"{LIFE_PATH}/status", words=True)


@pytest.mark.parametrize("kind", KINDS)
def test_null_values(both: Both, config: Config, kind: str) -> None:
    """Null is an error for undeclared keys; for declared keys it is checked, stored, and shown."""
    made = config(kind)
    path = "/connectors/nulls/config"
    for settings in ({"x.y": None}, {"source.consumer.x": None}, {"twinlog-like": None, "enabled": None}):
        both.same("POST", "/connectors", {"name": "nulls", "config": {**made, **settings}})
        both.same("PUT", path, {**made, **settings})
    for key in (
        "connector.class",
        "tasks.max",
        "groups.exclude",
        "errors.tolerance",
        "transforms",
        "security.protocol",
    ):
        both.same("PUT", path, {**made, key: None})
    nulls = dict.fromkeys(("enabled", "replication.policy.class", "ssl.key.password", "name"))
    both.same("POST", "/connectors", {"name": "nulls", "config": {**made, **nulls}, "initial_state": "STOPPED"})
    assert both.real.send("GET", path).json["enabled"] is None
    both.ours.wait_for("nulls", "STOPPED")  # Connect fails over some of them, although it is stopped
    both.same("GET", path)
    both.same("GET", "/connectors/nulls")
    both.same("PUT", path, {**made, "enabled": None, "x.y": "z"})
    both.same("GET", path)
    both.same("PATCH", path, {"client.id": None, "x.y": None})  # a missing key may be removed
    both.same("GET", path)
    both.same("PATCH", path, {"enabled": None})
    both.same("GET", path)
    both.delete("nulls")
    # Connect accepts a connector without a source alias, and then fails to run it.
    assert both.ours.send("PUT", path, {**made, "source.cluster.alias": None}).status == 400
    both.delete("nulls")


@pytest.mark.parametrize("kind", KINDS)
def test_null_values_are_validated(both: Both, config: Config, kind: str) -> None:
    """Every declared key, one at a time: as many errors as in Connect."""
    path = f"/connector-plugins/{kind}/config/validate"
    for definition in definitions_of(kind):
        if definition.name in {
            "connector.class",
            "offsets.storage.topic",
            "source.cluster.alias",
            "target.cluster.alias",
        }:
            continue  # rejected by both; for the second, Connect returns 500; see above for the others
        body = {"name": "x", **config(kind), definition.name: None}
        theirs, ours = both.real.send("PUT", path, body), both.ours.send("PUT", path, body)
        found = [
            [(len(each["value"]["errors"]), each["value"]["value"]) for each in side.json["configs"] if each["value"]["name"] == definition.name]
            for side in (theirs, ours)
        ]  # fmt: skip
        if found[0] != found[1]:
            both.differences.append(f"{kind} {definition.name} = null: Connect {found[0]}, ours {found[1]}")


@pytest.mark.parametrize("name", ["a/b", "/", "../x", "a%2Fb", "100%", "a\\b"])
def test_names_not_usable_in_paths(both: Both, config: Config, name: str) -> None:
    """Connect's server rejects every path with them; here such a connector cannot be created at all."""
    path = f"/connectors/{quote(name, safe='')}"
    calls: list[tuple[str, str, Any]] = [
        ("PUT", "/config", config(KINDS[2])), ("GET", "", None), ("GET", "/config", None), ("GET", "/status", None),
        ("GET", "/tasks/0/status", None), ("PUT", "/stop", None), ("POST", "/restart", None), ("DELETE", "", None),
    ]  # fmt: skip
    for method, rest, body in calls:
        theirs, ours = both.real.send(method, path + rest, body), both.ours.send(method, path + rest, body)
        assert (theirs.status, ours.status) == (400, 400), (method, rest)
        assert "not usable in a URL path" in ours.json["message"]
    made = both.ours.send("POST", "/connectors", {"name": name, "config": config(KINDS[2])})
    assert made.status == 400
    assert "not usable in a URL path" in made.json["message"]


@pytest.mark.parametrize("name", ["a;b", "a?b", "a#b", "ä b", "a&b=c"])
def test_names_that_must_be_encoded(both: Both, config: Config, name: str) -> None:
    path = f"/connectors/{quote(name, safe='')}"
    both.same("POST", "/connectors", {"name": name, "config": config(KINDS[2]), "initial_state": "STOPPED"})
    both.same("PUT", f"{path}/config", config(KINDS[2]))
    for rest in ("", "/config", "/status", "/tasks/0/status"):
        both.same("GET", path + rest, seconds=60)
    both.same("DELETE", path)
    both.same("GET", path, words=True)


def test_task_configs(both: Both, config: Config, topic_of_two: str) -> None:
    both.same("PUT", "/connectors/tc-source/config", config(tasks_max=2, topics=topic_of_two))
    both.same("PUT", "/connectors/tc-heart/config", config(KINDS[2], tasks_max=2))
    both.wait_for("tc-source", "RUNNING", "RUNNING", "RUNNING")
    both.wait_for("tc-heart", "RUNNING", "RUNNING")
    for name in ("tc-source", "tc-heart"):
        both.same("GET", f"/connectors/{name}/tasks", seconds=60)
        both.delete(name)


def test_number_of_checkpoint_tasks(both: Both, config: Config, us: Cluster, topic_of_two: str) -> None:
    """None without a group; otherwise the groups are assigned to at most `tasks.max` tasks."""
    often = {"refresh.groups.interval.seconds": "1", "emit.checkpoints.interval.seconds": "1"}
    made = {**config(KINDS[1], tasks_max=2, topics=topic_of_two, groups="rest-group-.*"), **often}
    both.same("PUT", "/connectors/cps/config", made)
    both.wait_for("cps", "RUNNING")
    for path in ("", "/status", "/tasks", "/tasks/0/status", "/offsets"):
        both.same("GET", f"/connectors/cps{path}", seconds=60)
    both.same("POST", "/connectors/cps/tasks/0/restart", words=True)
    for number in range(3):
        consumer = Consumer({**us.librdkafka_properties(), "group.id": f"rest-group-{number}"})
        consumer.commit(offsets=[TopicPartition(topic_of_two, 0, 0)], asynchronous=False)
        consumer.close()
    both.wait_for("cps", "RUNNING", "RUNNING", "RUNNING")
    for path in ("", "/status", "/tasks/2/status"):
        both.same("GET", f"/connectors/cps{path}", seconds=60)
    shares = []
    for side in (both.real, both.ours):  # the order of groups depends on a hash map
        tasks = [each["config"] for each in side.send("GET", "/connectors/cps/tasks").json]
        assigned = [task.pop("task.assigned.groups").split(",") for task in tasks]
        assert sorted(group for share in assigned for group in share) == [f"rest-group-{number}" for number in range(3)]
        shares.append(([len(each) for each in assigned], tasks))
    assert shares[0] == shares[1]
    both.same("PUT", "/connectors/cps/pause")
    both.wait_for("cps", "PAUSED", "PAUSED", "PAUSED")
    both.same("GET", "/connectors/cps/status")
    both.delete("cps")


def test_offsets_of_a_heartbeat(both: Both, config: Config) -> None:
    """Connect shows an offset after the first heartbeat."""
    both.same("PUT", "/connectors/beats/config", config(KINDS[2]))
    both.wait_for("beats", "RUNNING", "RUNNING")
    until(
        lambda: bool(both.real.send("GET", "/connectors/beats/offsets").json["offsets"]),
        "Connect should show it",
        seconds=60,
    )
    both.same("GET", "/connectors/beats/offsets", seconds=30)
    both.same("PUT", "/connectors/beats/stop")
    both.wait_for("beats", "STOPPED")
    both.same("GET", "/connectors/beats/offsets")
    both.same("DELETE", "/connectors/beats/offsets", words=True)
    both.same("GET", "/connectors/beats/offsets")
    both.same("PUT", "/connectors/beats/resume")
    both.wait_for("beats", "RUNNING", "RUNNING")
    until(
        lambda: bool(both.real.send("GET", "/connectors/beats/offsets").json["offsets"]),
        "Connect should show it",
        seconds=60,
    )
    both.same("GET", "/connectors/beats/offsets", seconds=30)
    both.delete("beats")


@pytest.mark.parametrize("state", ["stopped", "Paused", "RUNNING"])
def test_initial_state(both: Both, config: Config, state: str) -> None:
    name = f"begins-{state}"
    both.same("POST", "/connectors", {"name": name, "config": config(KINDS[2]), "initial_state": state})
    for side in (both.real, both.ours):
        side.wait_for(name, *["RUNNING", "RUNNING"] if state == "RUNNING" else [state.upper()], first=state == "Paused")
    if state != "Paused":  # then Connect has no tasks yet, and we have them, paused
        both.same("GET", f"/connectors/{name}/status")
        both.same("POST", f"/connectors/{name}/restart?includeTasks=true")
    both.delete(name)


def test_short_class_names(both: Both, config: Config) -> None:
    for kind in ("MirrorHeartbeat", "MirrorHeartbeatConnector"):
        both.same("PUT", "/connectors/short/config", {**config(), "connector.class": kind})
        both.wait_for("short", "RUNNING", "RUNNING")
    both.same("GET", "/connectors/short")
    both.delete("short")


SOURCE = {"cluster": "us", "partition": 0, "topic": "t"}
CHECKPOINT = {"group": "g", "partition": 0, "topic": "t"}
HEARTBEAT = {"sourceClusterAlias": "us", "targetClusterAlias": "eu"}
OF_KINDS: dict[str, dict[str, Any]] = dict(zip(KINDS, (SOURCE, CHECKPOINT, HEARTBEAT), strict=True))


@pytest.fixture(scope="module")
def stopped(real: Any, ours: Any, us: Cluster, eu: Cluster) -> Iterator[dict[str, str]]:
    """One of each kind, stopped: kind -> path of its offsets."""
    for side in (real, ours):
        for kind in KINDS:
            made = {
                "connector.class": MIRROR + kind, "source.cluster.alias": "us", "target.cluster.alias": "eu",
                "source.cluster.bootstrap.servers": us.bootstrap(), "target.cluster.bootstrap.servers": eu.bootstrap(),
            }  # fmt: skip
            side.send("POST", "/connectors", {"name": f"o-{kind}", "config": made, "initial_state": "STOPPED"})
        for kind in KINDS:
            side.wait_for(f"o-{kind}", "STOPPED")
    yield {kind: f"/connectors/o-{kind}/offsets" for kind in KINDS}
    for side in (real, ours):
        for kind in KINDS:
            side.delete(f"o-{kind}")


def test_offsets_of_a_running_connector(both: Both, config: Config) -> None:
    both.same("PUT", "/connectors/runs/config", config(KINDS[2]))
    both.wait_for("runs", "RUNNING", "RUNNING")
    for side in (both.real, both.ours):  # what they have depends on when each of them last stored offsets
        answer = side.send("GET", "/connectors/runs/offsets")
        assert (answer.status, list(answer.json)) == (200, ["offsets"])
    both.same(
        "PATCH",
        "/connectors/runs/offsets",
        {"offsets": [{"partition": HEARTBEAT, "offset": {"offset": 0}}]},
        words=True,
    )
    both.same("DELETE", "/connectors/runs/offsets", words=True)
    both.same("PUT", "/connectors/runs/pause")
    both.wait_for("runs", "PAUSED", "PAUSED")
    both.same("DELETE", "/connectors/runs/offsets", words=True)
    both.delete("runs")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", {}, {"offsets": None}, {"offsets": []}, {"offsets": {}}, {"offsets": "x"}, {"x": 1}, [],
        {"offsets": [None]}, {"offsets": [{"partition": None, "offset": {"offset": 1}}]}, {"offsets": ["x"]},
        {"offsets": [{"offset": {"offset": 1}}]}, {"offsets": [{"partition": "x", "offset": {}}]},
        {"offsets": [{"partition": SOURCE, "offset": "x"}]}, {"offsets": [{"partition": SOURCE, "offset": {}, "more": 1}]},
    ],
)  # fmt: skip
def test_invalid_offsets_bodies(both: Both, stopped: dict[str, str], body: Any) -> None:
    both.same("PATCH", stopped[KINDS[0]], body, JSON)


def test_invalid_offsets(both: Both, stopped: dict[str, str]) -> None:
    """Every violation, one at a time: each member missing, null, and of each other type."""
    odd: list[Any] = [None, 5, "x", "0", -1, 1.0, 1.5, True, 2**31, 2**63, [1], {"a": 1}]
    for kind, right in OF_KINDS.items():
        partitions: list[Any] = [{}, {"any": "thing"}]
        partitions += [{key: value for key, value in right.items() if key != missing} for missing in right]
        partitions += [{**right, key: value} for key in right for value in odd if type(value) is not type(right[key])]
        if "partition" in right:
            partitions += [{**right, "partition": value} for value in (-1, 2**31, 2**63)]
        for partition in partitions:
            flat = not any(isinstance(value, list | dict) or value == 2**63 for value in partition.values())
            entries = [{"partition": partition, "offset": {"offset": 0}}]
            both.same("PATCH", stopped[kind], {"offsets": entries}, words=flat)
        offsets: list[Any] = [{}, {"x": 1}, *({"offset": value} for value in odd if value != 5)]
        offsets += [{"offset": 1}] if kind != KINDS[0] else []
        for offset in offsets:
            both.same("PATCH", stopped[kind], {"offsets": [{"partition": right, "offset": offset}]})
        both.same("GET", stopped[kind])


def test_offsets_are_altered_and_reset(both: Both, stopped: dict[str, str]) -> None:
    path = stopped[KINDS[0]]

    def shown(side: Side) -> list[str]:
        """Sorted: Connect's order is that of a hash map."""
        return sorted(json.dumps(each, sort_keys=True) for each in side.send("GET", path).json["offsets"])

    def patch(*entries: tuple[Any, Any]) -> None:
        both.same("PATCH", path, {"offsets": [{"partition": p, "offset": o} for p, o in entries]}, words=True)
        if (theirs := shown(both.real)) != (ours := shown(both.ours)):
            both.differences.append(f"offsets after {entries}:\n  Connect: {theirs}\n  ours:    {ours}")

    patch((SOURCE, {"offset": 41}))
    patch(({**SOURCE, "partition": 1}, {"offset": 2**40}), ({**SOURCE, "topic": "u"}, {"offset": 7}))
    patch((SOURCE, {"offset": 5}), (SOURCE, {"offset": 6}))
    patch((SOURCE, None))
    patch(({"any": "thing"}, None))
    patch((SOURCE, {"offset": 9}), ({}, {"offset": 6}))  # all or none
    for kind in KINDS[1:]:
        entries = [{"partition": OF_KINDS[kind], "offset": {"offset": 0}}]
        both.same("PATCH", stopped[kind], {"offsets": entries}, words=True)
        both.same("GET", stopped[kind])
        both.same("PATCH", stopped[kind], {"offsets": [{"partition": OF_KINDS[kind], "offset": None}]}, words=True)
        both.same("GET", stopped[kind])
    for kind in KINDS:
        both.same("DELETE", stopped[kind], words=True)
        both.same("GET", stopped[kind])
        both.same("DELETE", stopped[kind], words=True)


# Plugins, validation, loggers


EXTRA = {"use.defaults.from", "topics", "topics.exclude", "emit.offset-syncs.enabled"}  # read, but not declared by MM2


@pytest.mark.parametrize("kind", KINDS)
def test_definitions(both: Both, kind: str) -> None:
    for name in (kind, kind.removesuffix("Connector"), MIRROR + kind):
        theirs = both.real.send("GET", f"/connector-plugins/{name}/config")
        ours = both.ours.send("GET", f"/connector-plugins/{name}/config")
        assert theirs.status == ours.status == 200
        compare_by_name(plain(theirs.json), plain(ours.json), both)


def compare_by_name(theirs: list[Any], ours: list[Any], both: Both, value: str = "") -> None:
    known = {each["name"]: each for each in theirs}
    found = {each["name"]: each for each in ours}
    added = {name for name in found.keys() - known.keys() if not name.startswith("twinlog.")}
    both.differences += [f"{value}missing: {name}" for name in known.keys() - found.keys()]
    both.differences += [f"{value}added: {name}" for name in added - EXTRA]
    both.differences += [
        f"{value}{name}:\n  Connect: {known[name]}\n  ours:    {found[name]}"
        for name in (known.keys() & found.keys()) - EXTRA
        if known[name] != found[name]
    ]


VALIDATED: list[dict[str, Any]] = [
    {},
    {"tasks.max": "0"}, {"tasks.max": " 3 ", "topics": " a , b", "enabled": " TRUE ", "sync.topic.acls.enabled": False},
    {"tasks.max": "many", "enabled": "maybe", "errors.tolerance": "some", "admin.timeout.ms": "1.5"},
    {"topics": ""}, {"offset-syncs.topic.location": "moon"},
    {"metric.names.formats": "x"}, {"metric.names.formats": ""}, {"config.action.reload": "maybe"},
    {"replication.policy.class": "org.x.Y"}, {"exactly.once.support": "maybe"}, {"transaction.boundary": "x"},
    {"transaction.boundary": "connector"}, {"offsets.storage.topic": " "}, {"security.protocol": "X"},
    {"sasl.login.refresh.window.factor": "7"}, {"sasl.jaas.config": "a secret", "ssl.key.password": "another"},
    {"transforms": "a,b"}, {"transforms": "a,b,a", "predicates": "p"}, {"header.converter": BYTES},
    {"emit.offset-syncs.enabled": "false"}, {"emit.checkpoints.enabled": "false"}, {"name": "a\tb"},
    {"emit.checkpoints.enabled": "false", "emit.offset-syncs.enabled": "false", "enabled": "false"},
    {"emit.checkpoints.enabled": "FALSE"}, {"replication.factor": "+2"}, {"connector.class": None},
    {"unknown.key": "x", "source.consumer.x": "y"}, {"config.providers": "a,,b"},
]  # fmt: skip


# The checkpoint connector's filter reads them as well, but MM2 does not validate them there.
OF_SOURCES: list[dict[str, Any]] = [
    {"topics": "a,,b"},
    {"topics.exclude": "a,b,a"},
    {"topics": "a", "topics.exclude": "b"},
]


@pytest.mark.parametrize("kind", KINDS)
def test_validation(both: Both, config: Config, kind: str) -> None:
    for settings in VALIDATED + (OF_SOURCES if kind == KINDS[0] else []):
        body = {"name": "x", "key.converter": BYTES, **config(kind), **settings}
        path = f"/connector-plugins/{kind}/config/validate"
        theirs, ours = both.real.send("PUT", path, body), both.ours.send("PUT", path, body)
        if theirs.status != ours.status or theirs.status != 200:
            both.same("PUT", path, body)
            continue
        for name in ("name", "error_count", "groups"):
            if theirs.json[name] != ours.json[name]:
                both.differences.append(f"{kind} {settings}: {name}: {theirs.json[name]}, ours {ours.json[name]}")
        values = [[counted(each) for each in side.json["configs"]] for side in (theirs, ours)]
        compare_by_name(values[0], values[1], both, f"{kind} {settings}: ")


def counted(entry: dict[str, Any]) -> dict[str, Any]:
    """The number of errors, as messages differ; without recommended values, which are Java classes in Connect."""
    return {**entry["value"], "errors": len(entry["value"]["errors"]), "recommended_values": None}


def test_rejected_validation_requests(both: Both, config: Config) -> None:
    for plugin, body in [
        ("MirrorSource", {}), ("MirrorSource", config(KINDS[2])), ("Nothing", config()),
        ("Nothing", {"connector.class": "Nothing"}), ("MirrorSource", {"connector.class": "Nothing"}),
    ]:  # fmt: skip
        both.same("PUT", f"/connector-plugins/{plugin}/config/validate", body)
    for plugin in ("Nothing", "Mirror", "mirrorsource"):
        both.same("GET", f"/connector-plugins/{plugin}/config", words=True)
    both.same("GET", "/connector-plugins/MirrorSource/config?version=9")
    both.same("GET", f"/connector-plugins/{BYTES}/config")
    short = {**config(), "connector.class": "MirrorSource", "name": "x"}
    path = "/connector-plugins/MirrorSource/config/validate"
    assert both.real.send("PUT", path, short).json["name"] == both.ours.send("PUT", path, short).json["name"]


def test_loggers(both: Both) -> None:
    path = "/admin/loggers/made.up"
    both.same("GET", path, words=True)
    both.same("PUT", path, {"level": "debug"})
    both.same("GET", path)
    both.same("PUT", path, {"level": "DEBUG"})
    for body in ({}, {"level": None}, {"level": "LOUD"}, {"level": 5}):
        both.same("PUT", path, body, words=True)
    both.same("PUT", path, b"", JSON)
    both.same("PUT", f"{path}?scope=cluster", {"level": "WARN"})
    # Connect sets a level of all workers after its answer, when it reads the record back from its topic.
    until(lambda: both.real.send("GET", path).json["level"] == "WARN", "Connect should apply the level", seconds=30)
    both.same("PUT", f"{path}?scope=galaxy", {"level": "ERROR", "more": "x"})
    both.same("PUT", f"{path}?scope=cluster", {"level": "LOUD"}, words=True)
    both.same("PUT", f"{path}?scope=cluster", {}, words=True)
    both.same("GET", path)
    for side in (both.real, both.ours):
        root = side.send("GET", "/admin/loggers").json["root"]
        assert root == side.send("GET", "/admin/loggers/root").json
        assert sorted(root) == ["last_modified", "level"]


# Third-party clients


def compare_steps(both: Both, name: str, of_side: Callable[[Side], clients.Steps]) -> None:
    theirs, ours = dict(of_side(both.real)), dict(of_side(both.ours))
    assert theirs.keys() == ours.keys()
    both.differences += [
        f"{name}: {step}:\n  Connect: {theirs[step]}\n  ours:    {ours[step]}"
        for step in theirs
        if plain(theirs[step]) != plain(ours[step])
    ]


def test_kafka_connect_py(both: Both, config: Config) -> None:
    made = texts(config(KINDS[2])) | {"ssl.key.password": "rabbit"}  # read back unmasked
    compare_steps(both, "kafka-connect-py", lambda s: clients.kafka_connect_py(s.url, "by-kc", made, s.wait_for))


def test_kafkaconnect(both: Both, config: Config) -> None:
    made = texts(config(KINDS[2])) | {"ssl.key.password": "rabbit"}
    compare_steps(both, "kafkaconnect", lambda s: clients.kafkaconnect(s.url, "by-kafkaconnect", made, s.wait_for))


@pytest.mark.java
def test_the_java_client(both: Both, config: Config) -> None:
    made = texts(config(KINDS[2]))
    made |= {"ssl.key.password": "rabbit"}
    with KafkaJvm("connect-client") as jvm:
        compare_steps(both, "Java", lambda s: clients.java_client(s.url, "by-java", made, s.wait_for, jvm))


def texts(made: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in made.items()}


@pytest.mark.skipif(bool(script.missing()), reason=script.missing())
def test_the_seeds_script(both: Both, us: Cluster, eu: Cluster, tmp_path: Path, produce: Any, consume: Any) -> None:
    """deploy, status, redeploy, undeploy: the same lines, and the records arrive."""
    addresses = {f"{side}.cluster.bootstrap.servers": c.bootstrap() for side, c in (("source", us), ("target", eu))}
    output = {}
    for side in (both.real, both.ours):
        topic = f"seed-{'real' if side is both.real else 'ours'}"
        us.create_topic(topic)
        produce(us.librdkafka_properties(), topic, "a record")
        mm2 = script.Script(tmp_path / topic, side.url, topic, {**addresses, **dict.fromkeys(FACTORS, "1")})
        lines = [mm2.run(), mm2.run("status", "source-0"), mm2.run("deploy"), mm2.run("deploy", "source-0")]
        mm2.wait_until_all_run()
        lines.append(mm2.run("deploy", "source-0"))
        assert consume(eu.librdkafka_properties(), topic, 1, seconds=180) == ["a record"]
        lines.append(mm2.run("redeploy", "source-0"))
        mm2.wait_until_all_run()
        lines.append(mm2.run("undeploy", "source-0"))
        for kind in ("cpc", "hbc", "msc"):
            side.wait_for(f"mm2-{kind}-source-0")
        lines += [mm2.run("status", "source-0"), mm2.run("undeploy", "source-0"), mm2.run("deploy", "nowhere")]
        output[side.name] = lines
    theirs, ours = output.values()
    assert ours == theirs
