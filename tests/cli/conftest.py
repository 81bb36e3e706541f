"""`twinlog plan` as an operator calls it, on clusters that are looked at before and after by a client that is not ours."""

import io
import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    ResourcePatternFilter,
    ResourceType,
)

from lab import batches
from lab.cluster import Cluster
from lab.mirrormaker import mirror_properties
from lab.raw_protocol import RawProtocol
from twinlog import logs
from twinlog.cli.main import main
from twinlog.config.properties import properties_text

TWINLOG = Path(sys.executable).with_name("twinlog")
NOBODY = "127.0.0.1:1"  # no port of that number is ever in use


def call(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`twinlog` without a new process, which would take half a second. An unexpected exception is raised."""
    words, argv, out, errors = [str(TWINLOG), *map(str, arguments)], sys.argv, io.StringIO(), io.StringIO()
    levels = {logger: logger.level for logger in map(logging.getLogger, logs.OURS)}
    code: object = 0
    with redirect_stdout(out), redirect_stderr(errors), chdir(cwd or Path.cwd()):
        sys.argv = words
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.argv = argv
            for logger, level in levels.items():
                logger.setLevel(level)
    assert isinstance(code, int)
    return subprocess.CompletedProcess(words, code, out.getvalue(), errors.getvalue())


def twinlog(*arguments: str | Path, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    run = subprocess.run([TWINLOG, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=seconds)
    assert "Traceback" not in run.stderr, run.stderr
    return run


def planned(file: Path, flow: str = "us->eu") -> dict[str, Any]:
    run = twinlog("plan", file, "--flow", flow, "--json")
    assert run.returncode == 0, run.stderr
    (found,) = json.loads(run.stdout)["flows"]
    return dict(found)


def fill(cluster: Cluster, topic: str, partition: int, records: int, size: int = 100) -> None:
    with RawProtocol(cluster.client_properties()) as wire:
        now = int(time.time() * 1000)
        some = [batches.Record(now, b"%d" % n, b"*" * size) for n in range(records)]
        wire.produce(topic, partition, batches.encode(some))


def commit(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({**cluster.librdkafka_properties(), "group.id": group, "enable.auto.commit": False})
    try:
        consumer.commit(offsets=[Place(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def everything(cluster: Cluster) -> dict[str, Any]:
    """All that an operator could see of a cluster, by a client that is not ours."""
    with cluster.admin() as admin:
        topics = sorted(admin.list_topics())
        wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in topics]
        groups = admin.list_groups()
        return {
            "topics": {each["name"]: len(each["partitions"]) for each in admin.describe_topics(topics)},
            "configs": json.dumps(admin.describe_configs(wanted), default=str, sort_keys=True) if wanted else "",
            "groups": sorted(str(each) for each in groups),
            "acls": sorted(map(repr, _acls(admin)[0])) if cluster.spec.authorizer else [],
        }


def _acls(admin: Any) -> Any:
    pattern = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    return admin.describe_acls(ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern))


@contextmanager
def unchanged(*clusters: Cluster) -> Iterator[None]:
    before = [everything(cluster) for cluster in clusters]
    yield
    assert [everything(cluster) for cluster in clusters] == before


def write(folder: Path, **servers: str) -> Path:
    file = folder / "mm2.properties"
    lines = [f"clusters = {', '.join(servers)}", *(f"{name}.bootstrap.servers = {at}" for name, at in servers.items())]
    first, second = servers
    file.write_text("\n".join([*lines, f"{first}->{second}.enabled = true"]))
    return file


def settings_file(folder: Path, source: Cluster, target: Cluster, settings: Mapping[str, str]) -> Path:
    file = folder / "mm2.properties"
    settings = {"heartbeats.replication.enabled": "false", **settings}
    file.write_text(properties_text(mirror_properties([source, target], [(source, target)], settings)))
    return file
