"""`twinlog serve` answers as a real Connect worker does; the same clients and the same script work with both."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.connect import clients, script
from tests.connect.conftest import BYTES, FACTORS, MIRROR, Both, Config, Side, plain

from twinlog.lab.cluster import Cluster
from twinlog.lab.jvm import KafkaJvm

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


def test_what_is_not_understood(both: Both) -> None:
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
    assert both.real.ask("OPTIONS", "/connectors").status == both.ours.ask("OPTIONS", "/connectors").status == 200


@pytest.mark.parametrize(
    "body", [b"{", b"", b"null", b"[]", b'["a"]', b'{"a": {"b": 1}}', b'{"a": []}', b'{"a": NaN}', b"{} x"]
)
def test_a_configuration_that_is_none(both: Both, body: bytes) -> None:
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
def test_a_connector_that_cannot_be_made(both: Both, body: Any) -> None:
    both.same("POST", "/connectors", body, JSON)


def test_a_connector_with_mistakes(both: Both, config: Config) -> None:
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
def test_a_connector_that_there_is_not(both: Both, method: str, path: str) -> None:
    both.same(method, f"/connectors/none{path}", words=True)
    both.same(method, f"/connectors/not-%3Ehere%20either{path}", words=True)


def test_changes_to_a_connector_that_there_is_not(both: Both) -> None:
    both.same("PATCH", "/connectors/none/config", {"a": "b"}, words=True)
    both.same("PATCH", "/connectors/none/offsets", {"offsets": [{"partition": {}, "offset": {}}]}, words=True)


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
        tasks = side.ask("GET", f"{LIFE_PATH}/tasks").json
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


@pytest.mark.parametrize("state", ["stopped", "Paused", "RUNNING"])
def test_a_state_from_the_start(both: Both, config: Config, state: str) -> None:
    name = f"begins-{state}"
    both.same("POST", "/connectors", {"name": name, "config": config(KINDS[2]), "initial_state": state})
    for side in (both.real, both.ours):
        side.wait_for(name, *["RUNNING", "RUNNING"] if state == "RUNNING" else [state.upper()], first=state == "Paused")
    if state != "Paused":  # then Connect has no tasks yet, and we have them, paused
        both.same("GET", f"/connectors/{name}/status")
        both.same("POST", f"/connectors/{name}/restart?includeTasks=true")
    both.delete(name)


def test_classes_by_their_short_names(both: Both, config: Config) -> None:
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
            side.ask("POST", "/connectors", {"name": f"o-{kind}", "config": made, "initial_state": "STOPPED"})
        for kind in KINDS:
            side.wait_for(f"o-{kind}", "STOPPED")
    yield {kind: f"/connectors/o-{kind}/offsets" for kind in KINDS}
    for side in (real, ours):
        for kind in KINDS:
            side.delete(f"o-{kind}")


def test_offsets_of_a_connector_that_runs(both: Both, config: Config) -> None:
    both.same("PUT", "/connectors/runs/config", config(KINDS[2]))
    both.wait_for("runs", "RUNNING", "RUNNING")
    both.same("GET", "/connectors/runs/offsets")
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
def test_offsets_in_another_form(both: Both, stopped: dict[str, str], body: Any) -> None:
    both.same("PATCH", stopped[KINDS[0]], body, JSON)


def test_offsets_that_cannot_be(both: Both, stopped: dict[str, str]) -> None:
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
        """In any order, which is that of a hash map in Connect."""
        return sorted(json.dumps(each, sort_keys=True) for each in side.ask("GET", path).json["offsets"])

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
        theirs = both.real.ask("GET", f"/connector-plugins/{name}/config")
        ours = both.ours.ask("GET", f"/connector-plugins/{name}/config")
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


# The filter of checkpoints reads them as well, but MM2's validation does not see it.
OF_SOURCES: list[dict[str, Any]] = [
    {"topics": "a,,b"},
    {"topics.exclude": "a,b,a"},
    {"topics": "a", "topics.exclude": "b"},
]


@pytest.mark.parametrize("kind", KINDS)
def test_validation(both: Both, config: Config, kind: str) -> None:
    for settings in VALIDATED + (OF_SOURCES if kind == KINDS[0] else []):
        asked = {"name": "x", "key.converter": BYTES, **config(kind), **settings}
        path = f"/connector-plugins/{kind}/config/validate"
        theirs, ours = both.real.ask("PUT", path, asked), both.ours.ask("PUT", path, asked)
        if theirs.status != ours.status or theirs.status != 200:
            both.same("PUT", path, asked)
            continue
        for name in ("name", "error_count", "groups"):
            if theirs.json[name] != ours.json[name]:
                both.differences.append(f"{kind} {settings}: {name}: {theirs.json[name]}, ours {ours.json[name]}")
        values = [[counted(each) for each in side.json["configs"]] for side in (theirs, ours)]
        compare_by_name(values[0], values[1], both, f"{kind} {settings}: ")


def counted(entry: dict[str, Any]) -> dict[str, Any]:
    """How many mistakes; each has its own words for them. Connect recommends Java classes, of which none runs here."""
    return {**entry["value"], "errors": len(entry["value"]["errors"]), "recommended_values": None}


def test_validation_that_is_refused(both: Both, config: Config) -> None:
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
    assert both.real.ask("PUT", path, short).json["name"] == both.ours.ask("PUT", path, short).json["name"]


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
    both.same("PUT", f"{path}?scope=galaxy", {"level": "ERROR", "more": "x"})
    both.same("PUT", f"{path}?scope=cluster", {"level": "LOUD"}, words=True)
    both.same("PUT", f"{path}?scope=cluster", {}, words=True)
    both.same("GET", path)
    for side in (both.real, both.ours):
        root = side.ask("GET", "/admin/loggers").json["root"]
        assert root == side.ask("GET", "/admin/loggers/root").json
        assert sorted(root) == ["last_modified", "level"]


# Those that others wrote


def compare_steps(both: Both, name: str, of_side: Callable[[Side], clients.Steps]) -> None:
    theirs, ours = dict(of_side(both.real)), dict(of_side(both.ours))
    assert theirs.keys() == ours.keys()
    both.differences += [
        f"{name}: {step}:\n  Connect: {theirs[step]}\n  ours:    {ours[step]}"
        for step in theirs
        if plain(theirs[step]) != plain(ours[step])
    ]


def test_kafka_connect_py(both: Both, config: Config) -> None:
    made = texts(config(KINDS[2]))
    compare_steps(both, "kafka-connect-py", lambda s: clients.kafka_connect_py(s.url, "by-kc", made, s.wait_for))


def test_kafkaconnect(both: Both, config: Config) -> None:
    made = texts(config(KINDS[2]))
    compare_steps(both, "kafkaconnect", lambda s: clients.kafkaconnect(s.url, "by-kafkaconnect", made, s.wait_for))


@pytest.mark.java
def test_the_java_client(both: Both, config: Config) -> None:
    made = texts(config(KINDS[2]))
    with KafkaJvm("connect-client") as jvm:
        compare_steps(both, "Java", lambda s: clients.java_client(s.url, "by-java", made, s.wait_for, jvm))


def texts(made: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in made.items()}


@pytest.mark.skipif(bool(script.missing()), reason=script.missing())
def test_the_seeds_script(both: Both, us: Cluster, eu: Cluster, tmp_path: Path, produce: Any, consume: Any) -> None:
    """deploy, status, redeploy, undeploy: the same lines, and the records arrive."""
    addresses = {f"{side}.cluster.bootstrap.servers": c.bootstrap() for side, c in (("source", us), ("target", eu))}
    said = {}
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
        said[side.name] = lines
    theirs, ours = said.values()
    assert ours == theirs
