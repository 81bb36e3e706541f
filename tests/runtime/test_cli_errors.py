"""Errors are one line that names the cluster, the value and the key to change; and an exit code."""

import subprocess
from pathlib import Path

import pytest

from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.lab import Lab
from tests.cli.conftest import call
from tests.runtime.conftest import INSIDES, TWINLOG

FILE = """\
clusters = us, eu, asia
us.bootstrap.servers = {us}
eu.bootstrap.servers = {eu}
asia.bootstrap.servers = 127.0.0.1:9
us->eu.enabled = true
asia->eu.emit.heartbeats.enabled = true
replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
"""
UNUSED = "127.0.0.1:1"  # a port that is never in use


def run(folder: Path, *arguments: str, more: str = "", us: str = UNUSED, eu: str = UNUSED) -> tuple[int, list[str]]:
    """The exit code and the lines."""
    file = folder / "mm2.properties"
    file.write_text(FILE.format(us=us, eu=eu) + more)
    done = call("run", file.name, *arguments, cwd=folder)
    assert not done.stdout
    assert not [word for word in INSIDES if word in done.stderr], done.stderr
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--flow", "us->asia"], "twinlog: --flow us->asia: no such replicating flow in mm2.properties; choose one of: us->eu"),
        (["--flow", "asia->eu"], "twinlog: --flow asia->eu: no such replicating flow in mm2.properties; choose one of: us->eu"),
        (["--clusters", "eu,moon"], "twinlog: --clusters moon: no such cluster; choose from: asia, eu, us"),
        (["--flow", "us->eu", "--clusters", "us"], "twinlog: --clusters us: not the target of a replicating flow; flows: us->eu"),
        (["--conf", "spark.ui.enabled"], "Error: --conf must be KEY=VALUE, such as spark.ui.enabled=true"),
        (["-"], "Error: CONFIG cannot be - here: Spark's processes must read the files, too"),
    ],
)  # fmt: skip
def test_invalid_arguments(tmp_path: Path, arguments: list[str], line: str) -> None:
    code, lines = run(tmp_path, *arguments)
    assert code == 2
    assert lines[-1] == line


def test_no_flow_at_all(tmp_path: Path) -> None:
    code, lines = run(tmp_path, more="us->eu.enabled = false\n")
    assert code == 2
    assert lines[-1] == "twinlog: mm2.properties: no replicating flow; set <source>-><target>.enabled = true"


def test_mistakes_in_the_file_are_listed(tmp_path: Path) -> None:
    code, lines = run(tmp_path, more="tasks.max = many\nreplication.policy.separator =\n")
    assert code == 2
    assert any(line.startswith("mm2.properties:11: error: tasks.max") for line in lines), lines
    assert lines[-1].startswith("twinlog: ")
    assert lines[-1].endswith(" in the configuration")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("nowhere.properties", "."):
        done = call("run", name, cwd=tmp_path)
        assert done.returncode in {1, 2}
        assert len(done.stderr.splitlines()) <= 2, done.stderr
        assert name in done.stderr
        assert not [word for word in INSIDES if word in done.stderr]


def test_a_worker_file_is_for_serve(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("bootstrap.servers = 127.0.0.1:1\ngroup.id = connect-cluster\n")
    done = call("run", file)
    assert done.returncode == 2
    assert done.stderr.endswith(
        "no flow, only a cluster; use twinlog serve for a Connect worker file, or name the JSON files of its connectors, too\n"
    )


def test_a_cluster_is_down(tmp_path: Path) -> None:
    code, lines = run(tmp_path)
    assert code == 1
    assert lines[-1] == (
        "twinlog: cluster us cannot be reached: 127.0.0.1:1: Connection refused; "
        "check us.bootstrap.servers and that the brokers are running"
    )
    assert len(lines) == 2


@pytest.mark.broker
def test_the_target_is_down(tmp_path: Path, us: Cluster) -> None:
    code, lines = run(tmp_path, us=us.bootstrap())
    assert code == 1
    assert lines[-1].startswith("twinlog: cluster eu cannot be reached")


@pytest.mark.broker
@pytest.mark.parametrize(
    ("key", "topic"),
    [
        ("offset.storage.replication.factor", "mm2-offsets.us-{}.internal"),
        ("status.storage.replication.factor", "mm2-twinlog.us-{}.internal"),
        ("offset-syncs.topic.replication.factor", "mm2-offset-syncs.eu-{}.internal"),
    ],
)
def test_too_many_replicas_of_an_internal_topic(tmp_path: Path, us: Cluster, eu: Cluster, key: str, topic: str) -> None:
    """Reported before Spark starts: the reader would retry forever, and its log is hard to find."""
    # Other aliases, so that the topics do not exist yet.
    tag = key.partition(".")[0]
    text = FILE.format(us=us.bootstrap(), eu=eu.bootstrap()).replace(f"{key} = 1", f"{key} = 3")
    file = tmp_path / "mm2.properties"
    for alias in ("us", "eu"):
        text = text.replace(f"{alias}.boot", f"{alias}-{tag}.boot").replace(f"{alias},", f"{alias}-{tag},")
    file.write_text(text.replace("us->eu", f"us-{tag}->eu-{tag}").replace("->eu.", f"->eu-{tag}."))
    done = subprocess.run([TWINLOG, "run", file], capture_output=True, text=True, check=False, timeout=60)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert f"cannot create topic {topic.format(tag)}" in last
    assert last.endswith(f"{key} to at most the number of brokers")
    assert "Spark" not in done.stderr


@pytest.mark.broker
def test_no_permission_to_create_internal_topics(tmp_path: Path, lab: Lab, us: Cluster) -> None:
    secured = lab.clusters(ClusterSpec(name="secured", users=("alice",), authorizer=True))[0]
    try:
        code, lines = run(tmp_path, us=us.bootstrap(), eu=secured.bootstrap())
        assert code == 1
        assert lines[-1].startswith("twinlog: cluster eu: cannot create topic mm2-offsets.us.internal: ")
        assert "uthorization" in lines[-1]
    finally:
        lab.discard(secured)
