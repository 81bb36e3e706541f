"""The real MM2, in dedicated mode and as connectors on a real Connect worker, for comparison with Twinlog."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from lab.errors import LabError
from lab.java_process import SMALL, JavaProcess, oauth_urls
from lab.ports import HOST, free_port
from lab.waiting import until
from twinlog.config.properties import properties_text

CONNECTORS = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")
_PACKAGE = "org.apache.kafka.connect.mirror."

# Intervals of a second instead of minutes, and one replica, for clusters of one broker.
TEST_SETTINGS = {
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "sync.topic.acls.interval.seconds": "1",
    "emit.heartbeats.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "offset.flush.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",  # reassigns a killed worker's tasks at once
}


def mirror_properties(
    clusters: Iterable[Cluster],
    flows: Iterable[tuple[Cluster, Cluster]],
    settings: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """A dedicated-mode file for these flows, with each cluster's first listener. `settings` override TEST_SETTINGS."""
    all_clusters = list(clusters)
    properties = {"clusters": ", ".join(cluster.name for cluster in all_clusters), **TEST_SETTINGS}
    for cluster in all_clusters:
        properties |= {f"{cluster.name}.{key}": value for key, value in cluster.client_properties().items()}
    properties |= {f"{source.name}->{target.name}.enabled": "true" for source, target in flows}
    return properties | dict(settings or {})


class MirrorMaker:
    """MM2 in dedicated mode."""

    def __init__(
        self, properties: Mapping[str, str], folder: Path, name: str = "mm2", flags: Sequence[str] = SMALL
    ) -> None:
        self.properties = dict(properties)
        file = folder / "mm2.properties"
        file.write_text(properties_text(self.properties))
        self.process = JavaProcess(
            name,
            folder / "mm2.log",
            main=_PACKAGE + "MirrorMaker",
            arguments=[str(file)],
            role="connect",
            flags=flags,
            urls=oauth_urls(self.properties),
        )

    def start(self) -> None:
        self._read_from = self.process.log.stat().st_size if self.process.log.exists() else 0
        self.process.start()

    def wait_until_running(self, seconds: float = 120) -> None:
        """Returns when every connector of every flow has been started."""
        self.process.wait_until_up(self._all_started, seconds)

    def _all_started(self) -> bool:
        """Dedicated mode has no status API, so the log is read.

        MM2 runs a herder per flow, and one per opposite direction unless heartbeats are disabled; each herder starts
        all three connectors.
        """
        with self.process.log.open("rb") as log:
            log.seek(self._read_from)
            text = log.read().decode(errors="replace")
        herders = re.search(r"MirrorMaker starting with (\d+) herders", text)
        started = [text.count(f"Finished creating connector {connector}") for connector in CONNECTORS]
        return herders is not None and min(started) >= int(herders[1])

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()


class ConnectWorker:
    """A distributed Connect worker and a minimal client of its REST API."""

    def __init__(self, properties: Mapping[str, str], folder: Path, name: str = "connect") -> None:
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        defaults = {
            "listeners": self.url,
            "group.id": name,
            "plugin.discovery": "service_load",
            "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "scheduled.rebalance.max.delay.ms": "0",
            "offset.flush.interval.ms": "1000",
        }
        for kind in ("config", "offset", "status"):
            defaults[f"{kind}.storage.topic"] = f"{name}-{kind}s"
            defaults[f"{kind}.storage.replication.factor"] = "1"
        for kind in ("offset", "status"):
            defaults[f"{kind}.storage.partitions"] = "1"
        self.properties = defaults | dict(properties)
        file = folder / "connect.properties"
        file.write_text(properties_text(self.properties))
        self.process = JavaProcess(
            name,
            folder / "connect.log",
            main="org.apache.kafka.connect.cli.ConnectDistributed",
            arguments=[str(file)],
            role="connect",
            urls=oauth_urls(self.properties),
        )

    def start(self, seconds: float = 120) -> None:
        self.process.start()
        self.process.wait_until_up(self._is_up, seconds)

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Creates the connector, or changes its configuration."""
        self.call("PUT", f"/connectors/{name}/config", dict(config))

    def get(self, name: str) -> dict[str, str]:
        return dict(self.call("GET", f"/connectors/{name}")["config"])

    def delete(self, name: str) -> None:
        self.call("DELETE", f"/connectors/{name}")

    def connectors(self) -> list[str]:
        return list(self.call("GET", "/connectors"))

    def status(self, name: str) -> dict[str, Any]:
        return dict(self.call("GET", f"/connectors/{name}/status"))

    def wait_until_running(self, *names: str, seconds: float = 120) -> None:
        """Returns when these connectors and all their tasks (at least one each) are running."""
        until(
            lambda: all(self._is_running(name) for name in names),
            f"{self.process.name}: waiting for {', '.join(names)}",
            seconds=seconds,
            logs=self.process.log_excerpt,
            failed=lambda: self.process.exit_report() or next(filter(None, map(self._failure, names)), None),
        )

    def call(self, method: str, path: str, body: object = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310  (always our own http address)
            self.url + path, content, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
                text = response.read()
        except urllib.error.HTTPError as error:
            with error:
                raise LabError(f"{self.process.name}: {method} {path}: {error.read().decode()}") from error
        except OSError as error:
            raise LabError(f"{self.process.name}: {method} {path}: {error}") from error
        return json.loads(text) if text else None

    def _is_up(self) -> bool:
        try:
            self.call("GET", "/connectors")
        except LabError:
            return False
        return True

    def _states(self, name: str) -> list[dict[str, Any]]:
        try:
            status = self.status(name)
        except LabError:  # not known yet
            return []
        return [status["connector"], *status["tasks"]]

    def _is_running(self, name: str) -> bool:
        states = self._states(name)
        return len(states) > 1 and all(each["state"] == "RUNNING" for each in states)

    def _failure(self, name: str) -> str | None:
        failed = next((each for each in self._states(name) if each["state"] == "FAILED"), None)
        return f"{self.process.name}: {name} failed: {failed.get('trace', '')}" if failed else None
