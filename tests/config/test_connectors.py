"""JSON files of Connect connectors: flat or with name and config, in a folder or listed; three connectors form a flow."""

import json
from pathlib import Path

import pytest

from twinlog.config import InvalidConfigError, load

MIRROR = "org.apache.kafka.connect.mirror."
BASE = {
    "source.cluster.alias": "us",
    "target.cluster.alias": "eu",
    "source.cluster.bootstrap.servers": "u:9092",
    "target.cluster.bootstrap.servers": "e:9092",
}


def connector(path: Path, name: str, config: dict[str, object], *, wrapped: bool = False) -> Path:
    body: dict[str, object] = {"connector.class": MIRROR + name, **BASE, **config}
    path.write_text(json.dumps({"name": path.stem, "config": body} if wrapped else body, indent=2))
    return path


def test_three_files_form_one_flow(tmp_path: Path) -> None:
    connector(tmp_path / "msc.json", "MirrorSourceConnector", {"topics": "a,b", "tasks.max": 3})
    connector(tmp_path / "cpc.json", "MirrorCheckpointConnector", {"groups": "g"}, wrapped=True)
    connector(tmp_path / "hbc.json", "MirrorHeartbeatConnector", {"emit.heartbeats.interval.seconds": "5"})
    (flow,) = load([tmp_path]).flows
    assert str(flow.flow) == "us->eu"
    assert flow.replicates  # a connector's own default is enabled, unlike a dedicated-mode file's
    assert flow.source is not None
    assert flow.checkpoint is not None
    assert flow.heartbeat is not None
    assert (flow.source.settings.name, flow.source.settings.topics, flow.source.settings.tasks_max) == (
        "msc",
        ("a", "b"),
        3,
    )
    assert (flow.checkpoint.settings.name, flow.checkpoint.settings.groups) == ("cpc", ("g",))
    assert flow.heartbeat.settings.emit_heartbeats_interval_seconds == 5


def test_two_sources_are_two_flows(tmp_path: Path) -> None:
    files = [
        connector(tmp_path / "a.json", "MirrorSource", {}),
        connector(tmp_path / "b.json", "MirrorSourceConnector", {"source.cluster.alias": "ap"}),
    ]
    assert [str(flow) for flow in load(files).flows] == ["us->eu", "ap->eu"]


def test_a_second_connector_of_one_class_is_a_flow_of_its_own(tmp_path: Path) -> None:
    files = [
        connector(tmp_path / "orders.json", "MirrorSourceConnector", {"topics": "orders"}),
        connector(tmp_path / "clicks.json", "MirrorSourceConnector", {"topics": "clicks"}),
    ]
    assert [str(flow) for flow in load(files).flows] == ["us->eu", "us->eu (clicks)"]


def test_records_go_to_the_workers_cluster(tmp_path: Path) -> None:
    connector(tmp_path / "msc.json", "MirrorSourceConnector", {"producer.override.linger.ms": "9"})
    (tmp_path / "worker.properties").write_text(
        "bootstrap.servers=w:9092\ngroup.id=g\nkey.converter=K\nvalue.converter=V\nconfig.storage.topic=c\n"
        "offset.storage.topic=o\nstatus.storage.topic=s\nproducer.compression.type=lz4\n"
    )
    (flow,) = load([tmp_path]).flows
    assert flow.source is not None
    data = flow.source.clients["data.producer"]
    assert (data["bootstrap.servers"], data["compression.type"], data["linger.ms"]) == (("w:9092",), "lz4", 9)
    assert flow.worker.settings.offset_storage_topic == "o"
    assert flow.source.clients["target.admin"]["bootstrap.servers"] == ("e:9092",)


def test_initial_state(tmp_path: Path) -> None:
    path = tmp_path / "msc.json"
    body = {"name": "x", "initial_state": "STOPPED", "config": {"connector.class": "MirrorSource", **BASE}}
    path.write_text(json.dumps(body))
    (flow,) = load([path]).flows
    assert flow.source is not None
    assert flow.source.state == "stopped"
    assert not flow.replicates


def test_other_connectors_are_skipped(tmp_path: Path) -> None:
    connector(tmp_path / "a.json", "MirrorSourceConnector", {})
    (tmp_path / "b.json").write_text('{"name": "files", "connector.class": "FileStreamSource"}')
    config = load([tmp_path])
    assert len(config.flows) == 1
    assert [str(problem) for problem in config.problems if problem.level == "warning"] == [
        "b.json:1: warning: connector.class = 'FileStreamSource': skipped, not a connector of MM2"
    ]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"name": "x",\n oops}', "x.json:2: error: invalid JSON: "),
        ('{"name": "x"}', "x.json: error: connector.class is missing; use one of org.apache"),
        ("[1]", "not a connector; expected"),
        ('{"connector.class": "MirrorSource", "topics": ["a"]}', "topics: expected a string, a number, true or false"),
        ('{"connector.class": "MirrorSource"}', "source.cluster.alias is missing"),
        (
            '{"connector.class": "MirrorSource", "source.cluster.alias": "us"}',
            "source.cluster.bootstrap.servers is missing",
        ),
        (
            '{"connector.class": "MirrorSource",\n\n"source.cluster.alias": "u",\n"tasks.max": 0}',
            "x.json:4: error: tasks.max = '0'",
        ),
        ('{"config": {"connector.class": "MirrorSource"}, "initial_state": "GONE"}', "initial_state = 'GONE'"),
    ],
)
def test_an_error_names_file_and_line(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(InvalidConfigError) as caught:
        load([path])
    assert complaint in str(caught.value)


def test_an_unknown_key_is_a_warning_with_its_line(tmp_path: Path) -> None:
    path = connector(tmp_path / "a.json", "MirrorSourceConnector", {"topic": "x", "source.cluster.max.poll.records": 1})
    message = [str(problem) for problem in load([path]).problems if problem.level == "warning"]
    assert message == [
        "a.json:7: warning: topic: unknown key (did you mean topics?)",
        "a.json:8: warning: source.cluster.max.poll.records: ignored by MM2 here",
    ]


def test_other_files_in_the_folder_are_skipped(tmp_path: Path) -> None:
    connector(tmp_path / "a.json", "MirrorSourceConnector", {})
    (tmp_path / "docker-compose.yml").write_text("services: {}\n")
    (tmp_path / "log4j.properties").write_text("log4j.rootLogger=INFO\n")
    (tmp_path / "mm2.sh").write_text("echo\n")
    config = load([tmp_path])
    assert len(config.flows) == 1
    assert [str(p) for p in config.problems if p.level == "warning"] == [
        "log4j.properties: warning: skipped: neither a worker file nor a connector"
    ]


def test_kinds_of_files_do_not_mix(tmp_path: Path) -> None:
    connector(tmp_path / "a.json", "MirrorSourceConnector", {})
    (tmp_path / "mm2.properties").write_text("clusters = us, eu\n")
    with pytest.raises(InvalidConfigError, match="cannot be combined with JSON files of connectors"):
        load([tmp_path])
    (tmp_path / "mm2.yaml").write_text("apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\nspec: {}\n")
    with pytest.raises(InvalidConfigError, match=r"a\.json: error: cannot be combined with a Strimzi resource"):
        load([tmp_path])


def test_a_missing_worker_file_is_noted(tmp_path: Path) -> None:
    path = connector(tmp_path / "a.json", "MirrorSourceConnector", {})
    config = load([path])
    assert [str(problem) for problem in config.problems] == [
        "a.json: note: no Connect worker file: default worker settings are used; name the file to use yours"
    ]
    assert str(config.flows[0].worker.values["group.id"].origin) == "derived (assumed)"


def test_an_incomplete_worker_file_is_rejected(tmp_path: Path) -> None:
    connector(tmp_path / "a.json", "MirrorSourceConnector", {})
    (tmp_path / "worker.properties").write_text(
        "bootstrap.servers=w:1\ngroup.id=g\nkey.converter=K\nvalue.converter=V\n"
    )
    with pytest.raises(InvalidConfigError, match=r"worker\.properties: error: status\.storage\.topic is missing"):
        load([tmp_path])


def test_a_standalone_worker_needs_no_topics(tmp_path: Path) -> None:
    connector(tmp_path / "a.json", "MirrorSourceConnector", {})
    (tmp_path / "worker.properties").write_text(
        "bootstrap.servers=w:1\nkey.converter=K\nvalue.converter=V\noffset.storage.file.filename=/x\n"
    )
    assert load([tmp_path]).flows[0].worker.values["bootstrap.servers"].text == "w:1"


def test_a_workers_login_is_not_its_producers(tmp_path: Path) -> None:
    """Connect hands nothing but the addresses to the records' producer: the rest must be written as producer.*"""
    connector(tmp_path / "a.json", "MirrorSourceConnector", {})
    (tmp_path / "worker.properties").write_text(
        "bootstrap.servers=w:1\ngroup.id=g\nkey.converter=K\nvalue.converter=V\nconfig.storage.topic=c\n"
        "offset.storage.topic=o\nstatus.storage.topic=s\nsecurity.protocol=SSL\nproducer.ssl.protocol=TLSv1.2\n"
    )
    source = load([tmp_path]).flows[0].source
    assert source is not None
    data = source.clients["data.producer"]
    assert (data["bootstrap.servers"], data["security.protocol"], data["ssl.protocol"]) == (
        ("w:1",),
        "PLAINTEXT",
        "TLSv1.2",
    )


def test_a_short_class_name(tmp_path: Path) -> None:
    (tmp_path / "worker.properties").write_text(
        "bootstrap.servers=w:1\ngroup.id=g\nkey.converter=K\nvalue.converter=V\nconfig.storage.topic=c\n"
        "offset.storage.topic=o\nstatus.storage.topic=s\nexactly.once.source.support=enabled\n"
    )
    settings = {"exactly.once.support": "required", "consumer.isolation.level": "read_committed"}
    path = connector(tmp_path / "a.json", "MirrorSourceConnector", {**settings, "connector.class": "MirrorSource"})
    (flow,) = load([path, tmp_path / "worker.properties"]).flows
    assert list(flow.connectors) == ["source"]


def test_other_json_in_the_folder_is_skipped(tmp_path: Path) -> None:
    connector(tmp_path / "a.json", "MirrorSourceConnector", {})
    (tmp_path / "package.json").write_text('{"name": "x", "version": "1"}')
    assert len(load([tmp_path]).flows) == 1


@pytest.mark.parametrize("side", ["source", "target"])
def test_one_alias_for_two_clusters_is_rejected(tmp_path: Path, side: str) -> None:
    """Topics, positions and offset syncs are named after aliases: those of the two would be mixed."""
    other = {f"{side}.cluster.bootstrap.servers": "asia:9092"}
    files = [
        connector(tmp_path / "orders.json", "MirrorSourceConnector", {"topics": "orders"}),
        connector(tmp_path / "clicks.json", "MirrorSourceConnector", {"topics": "clicks", **other}),
    ]
    with pytest.raises(InvalidConfigError) as found:
        load(files)
    (problem,) = (each for each in found.value.problems if each.level == "error")
    assert f"'orders' and 'clicks' have the same {side}.cluster.alias" in problem.text
    assert "clicks.json" in problem.where


def test_one_cluster_may_be_named_by_several_of_its_brokers(tmp_path: Path) -> None:
    files = [
        connector(
            tmp_path / "a.json", "MirrorSourceConnector", {"source.cluster.bootstrap.servers": "u1:9092,u2:9092"}
        ),
        connector(tmp_path / "b.json", "MirrorCheckpointConnector", {"source.cluster.bootstrap.servers": "U2:9092"}),
    ]
    assert len(load(files).flows) == 1
