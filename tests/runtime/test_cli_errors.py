"""What goes wrong is said in one line that names the cluster, the value and the key to change; and by the exit code."""

import contextlib
import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.runtime.conftest import INSIDES, TWINLOG, Pair

from twinlog.lab.broker import ClusterSpec
from twinlog.lab.cluster import Cluster
from twinlog.lab.lab import Lab

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
NOBODY = "127.0.0.1:1"  # no port of that number is ever in use


def run(folder: Path, *arguments: str, more: str = "", us: str = NOBODY, eu: str = NOBODY) -> tuple[int, list[str]]:
    """The exit code and the lines."""
    file = folder / "mm2.properties"
    file.write_text(FILE.format(us=us, eu=eu) + more)
    done = subprocess.run(
        [TWINLOG, "run", file.name, *arguments], capture_output=True, text=True, check=False, timeout=60, cwd=folder
    )
    assert not done.stdout
    assert not [word for word in INSIDES if word in done.stderr], done.stderr
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--flow", "us->asia"], "twinlog: --flow us->asia: no such flow that replicates in mm2.properties; there is: us->eu"),
        (["--flow", "asia->eu"], "twinlog: --flow asia->eu: no such flow that replicates in mm2.properties; there is: us->eu"),
        (["--clusters", "eu,moon"], "twinlog: --clusters moon: no such cluster; there is: asia, eu, us"),
        (["--clusters", "us"], "twinlog: --clusters us: none of the flows that replicate ends there; there is: us->eu"),
        (["--conf", "spark.ui.enabled"], "Error: --conf takes KEY=VALUE, such as spark.ui.enabled=true"),
        (["-"], "Error: twinlog run reads its configuration from files: Spark's processes must read it, too"),
    ],
)  # fmt: skip
def test_a_call_that_makes_no_sense(tmp_path: Path, arguments: list[str], line: str) -> None:
    code, lines = run(tmp_path, *arguments)
    assert code == 2
    assert lines[-1] == line


def test_no_flow_at_all(tmp_path: Path) -> None:
    code, lines = run(tmp_path, more="us->eu.enabled = false\n")
    assert code == 2
    assert lines[-1] == "twinlog: mm2.properties: no flow replicates: set <source>-><target>.enabled = true"


def test_mistakes_in_the_file_are_listed(tmp_path: Path) -> None:
    code, lines = run(tmp_path, more="tasks.max = many\nreplication.policy.separator =\n")
    assert code == 2
    assert any(line.startswith("mm2.properties:11: error: tasks.max") for line in lines), lines
    assert lines[-1].startswith("twinlog: ")
    assert lines[-1].endswith(" in the configuration")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("nowhere.properties", "."):
        done = subprocess.run(
            [TWINLOG, "run", name], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path
        )
        assert done.returncode in {1, 2}
        assert len(done.stderr.splitlines()) <= 2, done.stderr
        assert name in done.stderr
        assert not [word for word in INSIDES if word in done.stderr]


def test_a_cluster_is_down(tmp_path: Path) -> None:
    code, lines = run(tmp_path)
    assert code == 1
    assert lines[-1] == (
        "twinlog: cluster us cannot be reached (127.0.0.1:1: Connection refused): "
        "check us.bootstrap.servers, and that the brokers run"
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
    """Before Spark starts: there the reader would try for ever, and nobody would see why."""
    # Other aliases give other names, of topics that are not there yet.
    tag = key.partition(".")[0]
    text = FILE.format(us=us.bootstrap(), eu=eu.bootstrap()).replace(f"{key} = 1", f"{key} = 3")
    file = tmp_path / "mm2.properties"
    for alias in ("us", "eu"):
        text = text.replace(f"{alias}.boot", f"{alias}-{tag}.boot").replace(f"{alias},", f"{alias}-{tag},")
    file.write_text(text.replace("us->eu", f"us-{tag}->eu-{tag}").replace("->eu.", f"->eu-{tag}."))
    done = subprocess.run([TWINLOG, "run", file], capture_output=True, text=True, check=False, timeout=60)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert f"does not create topic {topic.format(tag)}" in last
    assert last.endswith(f"{key} to at most the number of brokers")
    assert "Spark" not in done.stderr


@pytest.mark.broker
def test_a_cluster_that_forbids_it(tmp_path: Path, lab: Lab, us: Cluster) -> None:
    locked = lab.clusters(ClusterSpec(name="locked", users=("alice",), authorizer=True))[0]
    try:
        code, lines = run(tmp_path, us=us.bootstrap(), eu=locked.bootstrap())
        assert code == 1
        assert lines[-1].startswith("twinlog: cluster eu does not create topic mm2-offsets.us.internal: ")
        assert "uthorization" in lines[-1]
    finally:
        lab.discard(locked)


@pytest.mark.broker
@pytest.mark.spark
def test_what_cannot_be_copied_is_named_and_the_rest_is_copied(pair: Pair, us: Cluster, eu: Cluster) -> None:
    for topic in ("factor-a", "factor-b"):
        us.create_topic(topic)
        pair.put(topic, 0, b"a record")
    eu.create_topic("us.factor-b")
    secret = "hunter2"
    events = pair.folder / "events"
    events.mkdir()
    settings = {
        "topics": "factor.*",
        "replication.factor": "3",
        "us->eu.admin.sasl.jaas.config": f'org.apache.Login required username="me" password="{secret}";',
        "eu.consumer.ssl.key.password": secret,
    }
    # Spark is made to tell all it knows.
    file = pair.file(settings, "factor")
    conf = {"enabled": "true", "compress": "false", "dir": events.as_uri()}
    twin = pair.run(
        file, "--once", *(word for key, value in conf.items() for word in ("--conf", f"spark.eventLog.{key}={value}"))
    )
    seen = b""
    while twin.running:
        files = [Path(folder) / name for folder, _, names in os.walk(twin.scratch) for name in names]
        files += [Path(f"/proc/{pid}/{name}") for pid in twin.family() for name in ("cmdline", "environ")]
        for each in files:
            with contextlib.suppress(OSError):  # it is gone already
                seen += each.read_bytes()
        time.sleep(0.5)
    assert twin.wait() == 1
    line = "cluster eu does not create topic us.factor-a: "
    assert [said for said in twin.lines if said.startswith(f"us->eu: {line}")]
    assert twin.lines[-1].startswith(f"twinlog: not all is copied: us->eu: {line}")
    assert twin.lines[-1].endswith(": set replication.factor to at most the number of brokers")
    pair.assert_equal("factor-b")
    told = b"".join(each.read_bytes() for each in events.rglob("*") if each.is_file())
    assert b"physicalPlanDescription" in told, "its plans are there"
    for text in (seen, told, twin.said.encode()):
        assert secret.encode() not in text
