"""What a run with secrets leaves behind, and shows while it lasts: nowhere is a secret to be found."""

import contextlib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import certificates
from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.lab import Lab
from lab.listeners import MUTUAL_TLS, OAUTH_TLS, PLAINTEXT, SCRAM_512_TLS
from lab.mirrormaker import mirror_properties
from lab.ports import HOST, free_port
from lab.waiting import until
from tests.runtime.conftest import Pair, Twin
from twinlog.config.properties import properties_text

pytestmark = [pytest.mark.broker, pytest.mark.spark]

USER, OTHER = "dora", "emil"
PAGES = ("jobs/", "stages/", "environment/", "executors/", "SQL/", "StreamingQuery/", "storage/")


@pytest.fixture
def vault(lab: Lab) -> Iterator[Cluster]:
    listeners = (PLAINTEXT, MUTUAL_TLS, SCRAM_512_TLS, OAUTH_TLS)
    cluster = lab.clusters(ClusterSpec(name="vault", listeners=listeners, users=(USER, OTHER)))[0]
    yield cluster
    lab.discard(cluster)


def test_no_secret_is_to_be_found(vault: Cluster, tmp_path: Path) -> None:
    properties, secrets = configuration(vault, tmp_path)
    file = tmp_path / "mm2.properties"
    file.write_text(properties_text(properties))
    events, port = tmp_path / "events", free_port()
    events.mkdir()
    spark = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.logBlockUpdates.enabled": "true",
    }
    pair = Pair(vault, vault, tmp_path)
    try:
        vault.create_topic("gold", 2)
        pair.feed("gold").flow()
        options = [word for key, text in spark.items() for word in ("--conf", f"{key}={text}")]
        twin = pair.run(file, *options)
        twin.wait_for("relaying", 120)
        pair.wait_for_more(twin, "gold", alias="front")
        found = {**shown_by_processes(twin), **shown_by_spark(port), **files(twin.scratch)}
        assert len(found) > 10, sorted(found)
        assert twin.terminate(60) == 0  # its page takes its time to close
        logged = files(events)
        assert any(b"physicalPlanDescription" in content for content in logged.values()), "Spark logs its plans"
        found |= {**logged, **files(twin.scratch)}
        found |= {str(path): path.read_bytes() for path in tmp_path.glob("twinlog-*.*")}
        found |= {f"topic {name}": content for name, content in topics(vault)}
    finally:
        pair.close()
    for where, content in found.items():
        for secret in secrets:
            assert secret.encode() not in content, f"{secret} is in {where}"


def configuration(vault: Cluster, folder: Path) -> tuple[dict[str, str], list[str]]:
    """Three clients, three kinds of secrets: in the file itself, in another file, in keystores."""
    front = vault.client_properties(SCRAM_512_TLS, USER)
    side = vault.client_properties(OAUTH_TLS, OTHER)
    back = vault.client_properties(MUTUAL_TLS, USER)
    outside = folder / "secrets.properties"
    outside.write_text(f"jaas={side['sasl.jaas.config']}\n".replace("\\", "\\\\"))
    found = {**mirror_properties([], []), "clusters": "front, back", "front->back.enabled": "true", "topics": "gold"}
    found |= {"heartbeats.replication.enabled": "false", "config.providers": "file"}
    found["config.providers.file.class"] = "org.apache.kafka.common.config.provider.FileConfigProvider"
    found |= {f"front.{key}": text for key, text in front.items()}
    found |= {f"back.{key}": text for key, text in back.items()}
    found |= {f"front.admin.{key}": text for key, text in side.items()}
    found["front.admin.sasl.jaas.config"] = f"${{file:{outside}:jaas}}"
    return found, [certificates.PASSWORD, f"{USER}-secret", f"{OTHER}-secret"]


def shown_by_processes(twin: Twin) -> dict[str, bytes]:
    """What other users, or at least `ps`, can read of them."""
    found = {}
    for pid in twin.processes():
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                found[f"{name} of {pid}"] = Path(f"/proc/{pid}/{name}").read_bytes()
    return found


def files(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # a folder, or it is gone already
            found[str(path)] = path.read_bytes()
    return found


def shown_by_spark(port: int) -> dict[str, bytes]:
    base = f"http://{HOST}:{port}"
    seen = f"{base}/StreamingQuery/"
    until(lambda: b"front" in page(seen), "Spark shows the query", seconds=60, logs=lambda: page(seen).decode()[-3000:])
    application = page(f"{base}/api/v1/applications").decode().split('"id" : "')[1].split('"')[0]
    api = f"{base}/api/v1/applications/{application}"
    paths = [
        *(f"{base}/{each}" for each in PAGES),
        f"{base}/SQL/execution/?id=0",
        f"{base}/stages/stage/?id=0&attempt=0",
    ]
    paths += [
        f"{api}/{each}" for each in ("environment", "sql?details=true", "jobs", "stages?details=true", "executors")
    ]
    return {path: page(path) for path in paths}


def page(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return bytes(answer.read())


def topics(cluster: Cluster) -> Iterator[tuple[str, bytes]]:
    """Every topic as it is stored."""
    for file in cluster.brokers[0].data.rglob("*.log"):
        yield str(file), file.read_bytes()
