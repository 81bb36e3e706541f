"""Connectors as files: permissions, and isolation of invalid connectors."""

from pathlib import Path

import pytest

from twinlog.config.problems import Problems
from twinlog.config.providers import declared_providers
from twinlog.connect.connector_check import Checker
from twinlog.connect.connector_files import ConnectorFiles, file_name
from twinlog.connect.errors import ConnectError
from twinlog.connect.topic_records import Connectors

WORKER = b"""bootstrap.servers=eu:9092
group.id=g
offset.storage.topic=offsets
config.storage.topic=configs
status.storage.topic=status
key.converter=x.Y
value.converter=x.Y
config.providers=file
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
"""
MIRROR = "org.apache.kafka.connect.mirror."


def connector(kind: str = "MirrorSource", **more: str) -> dict[str, str]:
    return {
        "connector.class": f"{MIRROR}{kind}Connector",
        "source.cluster.alias": "us",
        "target.cluster.alias": "eu",
        "source.cluster.bootstrap.servers": "us:9092",
        "target.cluster.bootstrap.servers": "eu:9092",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


@pytest.fixture
def files(tmp_path: Path) -> ConnectorFiles:
    return ConnectorFiles(tmp_path / "connectors", WORKER)


def test_three_connectors_are_one_flow(files: ConnectorFiles) -> None:
    made = files.make(
        Connectors(
            {"src": connector(), "cpc": connector("MirrorCheckpoint"), "hbc": connector("MirrorHeartbeat")},
            {"cpc": "PAUSED", "hbc": "STOPPED"},
        )
    )
    (flow,) = made.flows
    assert str(flow) == "us->eu"
    assert (flow.replicates, flow.emits_checkpoints, flow.emits_heartbeats) == (True, False, False)
    assert {name: its.role for name, its in made.flow_roles.items()} == {
        "src": "source", "cpc": "checkpoint", "hbc": "heartbeat",
    }  # fmt: skip


def test_unchanged_flows_are_equal(files: ConnectorFiles) -> None:
    one = files.make(Connectors({"src": connector()}))
    two = files.make(Connectors({"src": connector(), "second": connector(topics="x")}))
    assert two.flows[0] == one.flows[0], "so it is not restarted"
    assert [str(flow) for flow in two.flows] == ["us->eu", "us->eu (second)"]
    assert one.paths != two.paths


def test_an_invalid_connector_does_not_affect_others(files: ConnectorFiles) -> None:
    made = files.make(
        Connectors(
            {
                "bad": connector(tasks_max="many"),
                "src": connector(),
                "sink": {"connector.class": "io.example.Sink", "topics": "t"},
                "secret": connector(source_cluster_sasl_jaas_config="${file:/nowhere:key}"),
            }
        )
    )
    assert list(made.flow_roles) == ["src"]
    assert "tasks.max" in made.failed["bad"]
    assert "only MM2's three connectors" in made.failed["sink"]
    assert "/nowhere" in made.failed["secret"]


def test_only_this_user_may_read_the_files(files: ConnectorFiles, tmp_path: Path) -> None:
    made = files.make(Connectors({"a/b->c": connector()}))
    paths = [Path(path) for path in made.paths]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in paths)
    assert all(path.parent.stat().st_mode & 0o777 == 0o700 for path in paths)
    assert (tmp_path / "connectors").stat().st_mode & 0o777 == 0o700


def test_secrets_stay_references_in_the_files(files: ConnectorFiles, tmp_path: Path) -> None:
    secret = tmp_path / "secret.properties"
    secret.write_text("jaas=org.apache.kafka.common.security.plain.PlainLoginModule required password='swordfish';\n")
    text = f"${{file:{secret}:jaas}}"
    made = files.make(Connectors({"src": connector(source_cluster_sasl_jaas_config=text)}))
    assert not made.failed
    assert not any("swordfish" in Path(path).read_text() for path in made.paths)


def test_unused_files_are_removed(files: ConnectorFiles, tmp_path: Path) -> None:
    first = files.make(Connectors({"src": connector()}))
    second = files.make(Connectors({"src": connector(topics="x")}))
    files.remove_unused([*first.paths, *second.paths])
    assert Path(first.paths[0]).exists()
    files.remove_unused(first.paths)
    assert Path(second.paths[0]).exists(), "a newer one may not be in use yet"
    files.remove_unused(second.paths)
    assert not Path(first.paths[0]).exists()
    assert Path(second.paths[0]).exists()
    assert files.problem("src", connector(topics="[")), "a check leaves no files behind"
    assert len(list((tmp_path / "connectors").iterdir())) == 1


def test_file_names() -> None:
    assert file_name("us->eu.MirrorSourceConnector") == "us-%3Eeu.MirrorSourceConnector.json"
    long = [file_name("ä" * 300), file_name("ä" * 300 + "b")]
    assert all(len(name) <= 255 for name in long)
    assert long[0] != long[1]


@pytest.mark.parametrize("key", ["topic.filter.class", "replication.policy.class"])
def test_only_listed_classes_are_allowed(tmp_path: Path, key: str) -> None:
    secrets = tmp_path / "names"
    secrets.write_text("class=subprocess:Popen\n")
    files = ConnectorFiles(tmp_path / "connectors", WORKER, {"acme.names:Listed"})
    made = files.make(
        Connectors(
            {
                "listed": {**connector(), key: "acme.names:Listed"},
                "plain": {**connector(), key: "subprocess:Popen"},
                "hidden": {**connector(), key: f"${{file:{secrets}:class}}"},
            }
        )
    )
    assert set(made.failed) == {"plain", "hidden"}
    assert "class not allowed on this worker" in made.failed["plain"]
    assert "references are not allowed" in made.failed["hidden"]
    assert set(made.flow_roles) == {"listed"}
    assert "--plugin subprocess:Popen" in files.problem("x", {**connector(), key: "subprocess:Popen"})


def test_one_alias_for_two_clusters_is_rejected(files: ConnectorFiles) -> None:
    """Aliases left at their defaults: nothing else distinguishes the two sources."""
    asia = connector(source_cluster_bootstrap_servers="asia:9092", topics="x")
    files.make(Connectors({"src": connector()}))
    reason = files.problem("second", asia)
    assert "'src' and 'second' have the same source.cluster.alias (us)" in reason
    assert not files.problem("src", asia), "its own configuration may change"
    assert not files.problem("second", connector(topics="x"))
    check = Checker(declared_providers({}, Problems()), files.problem)
    with pytest.raises(ConnectError, match=r"same source\.cluster\.alias") as refused:
        check("second", {**asia, "name": "second"})
    assert refused.value.status == 400
    made = files.make(Connectors({"src": connector(), "second": asia}))  # accepted by another worker before
    assert list(made.flow_roles) == ["src"]
    assert "same source.cluster.alias" in made.failed["second"]


def test_a_forbidden_override_fails_only_its_connector(tmp_path: Path) -> None:
    """By REST it is rejected with Connect's message; from the config topic, the connector is FAILED."""
    worker = WORKER + b"connector.client.config.override.policy=None\n"
    files = ConnectorFiles(tmp_path / "connectors", worker)
    bad = connector(producer_override_acks="1")
    made = files.make(Connectors({"bad": bad, "src": connector()}))
    message = "The 'None' policy does not allow 'acks' to be overridden in the connector configuration."
    assert (list(made.flow_roles), made.failed) == (["src"], {"bad": message})
    check = Checker(declared_providers({}, Problems()), files.problem)
    check("src", connector(name="src"))
    with pytest.raises(ConnectError, match=r"contains the following 1 error\(s\):\nThe 'None' policy") as caught:
        check("bad", {**bad, "name": "bad"})
    assert caught.value.status == 400
