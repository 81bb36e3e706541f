"""Connectors as files: who may read them, and that a bad one never keeps the others from running."""

from pathlib import Path

import pytest

from twinlog.connect.generations import Generations, file_name
from twinlog.connect.topics import Connectors

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
def generations(tmp_path: Path) -> Generations:
    return Generations(tmp_path / "connectors", WORKER)


def test_three_connectors_are_one_flow(generations: Generations) -> None:
    made = generations.make(
        Connectors(
            {"src": connector(), "cpc": connector("MirrorCheckpoint"), "hbc": connector("MirrorHeartbeat")},
            {"cpc": "PAUSED", "hbc": "STOPPED"},
        )
    )
    (flow,) = made.flows
    assert str(flow) == "us->eu"
    assert (flow.replicates, flow.emits_checkpoints, flow.emits_heartbeats) == (True, False, False)
    assert {name: place.role for name, place in made.places.items()} == {
        "src": "source", "cpc": "checkpoint", "hbc": "heartbeat",
    }  # fmt: skip


def test_what_did_not_change_is_equal(generations: Generations) -> None:
    one = generations.make(Connectors({"src": connector()}))
    two = generations.make(Connectors({"src": connector(), "second": connector(topics="x")}))
    assert two.flows[0] == one.flows[0], "so it is left alone"
    assert [str(flow) for flow in two.flows] == ["us->eu", "us->eu (second)"]
    assert one.paths != two.paths


def test_a_bad_one_keeps_nobody_else(generations: Generations) -> None:
    made = generations.make(
        Connectors(
            {
                "bad": connector(tasks_max="many"),
                "src": connector(),
                "sink": {"connector.class": "io.example.Sink", "topics": "t"},
                "locked": connector(source_cluster_sasl_jaas_config="${file:/nowhere:key}"),
            }
        )
    )
    assert list(made.places) == ["src"]
    assert "tasks.max" in made.failed["bad"]
    assert "only MM2's three connectors" in made.failed["sink"]
    assert "/nowhere" in made.failed["locked"]


def test_nobody_else_may_read_them(generations: Generations, tmp_path: Path) -> None:
    made = generations.make(Connectors({"a/b->c": connector()}))
    paths = [Path(path) for path in made.paths]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in paths)
    assert all(path.parent.stat().st_mode & 0o777 == 0o700 for path in paths)
    assert (tmp_path / "connectors").stat().st_mode & 0o777 == 0o700


def test_secrets_stay_references_in_the_files(generations: Generations, tmp_path: Path) -> None:
    secret = tmp_path / "secret.properties"
    secret.write_text("jaas=org.apache.kafka.common.security.plain.PlainLoginModule required password='swordfish';\n")
    text = f"${{file:{secret}:jaas}}"
    made = generations.make(Connectors({"src": connector(source_cluster_sasl_jaas_config=text)}))
    assert not made.failed
    assert not any("swordfish" in Path(path).read_text() for path in made.paths)


def test_what_nobody_uses_is_swept(generations: Generations, tmp_path: Path) -> None:
    first = generations.make(Connectors({"src": connector()}))
    second = generations.make(Connectors({"src": connector(topics="x")}))
    generations.sweep([*first.paths, *second.paths])
    assert Path(first.paths[0]).exists()
    generations.sweep(first.paths)
    assert Path(second.paths[0]).exists(), "one that is newer may be in the making"
    generations.sweep(second.paths)
    assert not Path(first.paths[0]).exists()
    assert Path(second.paths[0]).exists()
    assert generations.wrong("src", connector(topics="[")), "a try leaves nothing behind"
    assert len(list((tmp_path / "connectors").iterdir())) == 1


def test_any_name_is_a_file() -> None:
    assert file_name("us->eu.MirrorSourceConnector") == "us-%3Eeu.MirrorSourceConnector.json"
    long = [file_name("ä" * 300), file_name("ä" * 300 + "b")]
    assert all(len(name) <= 255 for name in long)
    assert long[0] != long[1]
