"""examples/connect-rest: its files, the compose file, and the whole example."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
HOME = ROOT / "examples" / "connect-rest"
SEED = ROOT / "tests" / "config" / "seeds" / "connectors"
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"

# Additions to the original files: replication factors for two brokers, one policy, and that merging is intended.
MORE = {
    "cpc": {
        "replication.policy.class": IDENTITY,
        "checkpoints.topic.replication.factor": "2",
        "offset-syncs.topic.replication.factor": "2",
    },
    "hbc": {"heartbeats.topic.replication.factor": "2"},
    "msc": {"offset-syncs.topic.replication.factor": "2", "twinlog.foreign.records": "expect"},
}


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.skipif(shutil.which("jq") is None or shutil.which("curl") is None, reason="needs Debian's curl and jq")
def test_example(run_example: Callable[..., str]) -> None:
    output = run_example("connect-rest", "--seconds", "2")
    for source in ("source-0", "source-1"):
        assert f"$ ./mm2.sh deploy {source}" in output
        assert f"$ ./mm2.sh undeploy {source}" in output
        assert re.search(rf"test on {source}: [\d,]+ records, all in test on target-0", output)
        assert f'twinlog_lag_records{{flow="{source}->target-0",topic="test",partition="4"}} 0' in output
    assert "$ ./mm2.sh redeploy source-0" in output
    assert output.count('connector: "RUNNING"') == 6
    assert "once each" in output


@pytest.mark.parametrize("kind", MORE)
def test_the_connectors_extend_the_originals(kind: str) -> None:
    seed = json.loads((SEED / f"mm2-{kind}-source-0.json").read_text()) | MORE[kind]
    assert json.loads((HOME / "mm2" / f"mm2-{kind}-source-0.json").read_text()) == seed
    other = seed | {
        "name": f"mm2-{kind}-source-1",
        "source.cluster.alias": "source-1",
        "source.cluster.bootstrap.servers": "kafka-source-2:9092,kafka-source-3:9092",
    }
    assert json.loads((HOME / "mm2" / f"mm2-{kind}-source-1.json").read_text()) == other


def test_the_worker_file_is_the_original() -> None:
    name = "connect-distributed.properties"
    assert (HOME / name).read_text() == (SEED / name).read_text()


class TestCompose:
    @pytest.fixture
    def compose(self) -> Any:
        return yaml.safe_load((HOME / "docker-compose.yml").read_text())

    def test_every_mounted_file_exists(self, compose: Any) -> None:
        mounts = [each for service in compose["services"].values() for each in service.get("volumes", ())]
        for host, *_ in (mount.split(":") for mount in mounts):
            if host.startswith("."):
                assert (HOME / host).resolve().exists(), host
            else:
                assert host in compose["volumes"]

    def test_every_address_is_a_service(self, compose: Any) -> None:
        services = compose["services"]
        files = [*HOME.glob("mm2/*.json"), *HOME.rglob("*.yml"), HOME / "connect-distributed.properties"]
        named = set()
        for file in files:
            named |= set(re.findall(r"\b((?:kafka|twinlog|prometheus)[\w-]*):\d{4}\b", file.read_text()))
        assert {name for name in named if name not in services} == set()
        assert len(named) == 8
        for service in services.values():
            assert set(service.get("depends_on", ())) <= set(services)

    def test_brokers_know_each_other(self, compose: Any) -> None:
        for name, service in compose["services"].items():
            env = service.get("environment", {})
            if name.startswith(("kafka-source", "kafka-target")):
                assert f"{env['KAFKA_NODE_ID']}@{name}:9093" in env["KAFKA_CONTROLLER_QUORUM_VOTERS"]
                assert f"//{name}:" in env["KAFKA_ADVERTISED_LISTENERS"]

    def test_ports_are_bound_to_loopback(self, compose: Any) -> None:
        ports = [port for service in compose["services"].values() for port in service.get("ports", ())]
        assert ports
        assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.tools
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Debian's prometheus")
def test_the_prometheus_file_is_valid(tmp_path: Path) -> None:
    for file in (HOME / "prometheus" / "prometheus.yml", ROOT / "monitoring" / "prometheus" / "twinlog-rules.yml"):
        shutil.copy(file, tmp_path)
    done = subprocess.run(
        ["promtool", "check", "config", str(tmp_path / "prometheus.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
