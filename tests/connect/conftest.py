"""A real Connect worker with MM2's connectors, and `twinlog serve`: both get the same requests."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.lab import Lab
from lab.ports import free_port
from lab.process import cleanup
from lab.waiting import until
from tests.http.conftest import Answer, send
from twinlog.config.properties import properties_text

MIRROR = "org.apache.kafka.connect.mirror."
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
TWINLOG = Path(sys.executable).with_name("twinlog")

# Values that differ between the two workers: ids, versions, times, and texts.
_OWN = ("worker_id", "workerId", "version", "commit", "documentation", "last_modified", "trace", "message")


class Side:
    """One of the two workers."""

    def __init__(self, name: str, url: str, log: Path | None = None) -> None:
        self.name, self.url, self.log = name, url, log

    def send(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        return send(self.url, method, path, body, headers)

    def states(self, connector: str) -> list[str]:
        """States of the connector and its tasks; empty before it has a status."""
        answer = self.send("GET", f"/connectors/{connector}/status")
        if answer.status != 200:
            return []
        return [answer.json["connector"]["state"], *(task["state"] for task in answer.json["tasks"])]

    def wait_for(self, connector: str, *states: str, first: bool = False) -> None:
        """Waits for the states of the connector and its tasks; `first`: of the connector only. No states: deleted."""
        until(
            lambda: self.states(connector)[: 1 if first else None] == list(states),
            f"{self.name}: {connector} should be {states}",
            seconds=120,
            logs=lambda: f"; it is {self.states(connector)}",
        )

    def delete(self, connector: str) -> None:
        self.send("DELETE", f"/connectors/{connector}")
        until(lambda: not self.states(connector), f"{self.name}: {connector} should be gone", seconds=120)


class Both:
    """Sends the same request to both workers; all differences are reported at the end of the test."""

    def __init__(self, real: Side, ours: Side) -> None:
        self.real, self.ours = real, ours
        self.differences: list[str] = []

    def same(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        words: bool = False,
        seconds: float = 0,
    ) -> None:
        """`words`: compare messages, too. `seconds`: how long to retry while states still change."""
        keep = ("message",) if words else ()
        deadline = time.monotonic() + seconds
        while True:
            theirs = _after_rebalance(lambda: self.real.send(method, path, body, headers))
            ours = self.ours.send(method, path, body, headers)
            if comparable(theirs, keep) == comparable(ours, keep):
                return
            if time.monotonic() >= deadline:
                break
            time.sleep(0.5)
        request = f"{method} {path} {body if body is not None else ''}"
        self.differences.append(f"{request}\n  Connect: {text_of(theirs)}\n  ours:    {text_of(ours)}")

    def wait_for(self, connector: str, *states: str) -> None:
        for side in (self.real, self.ours):
            side.wait_for(connector, *states)

    def delete(self, connector: str) -> None:
        for side in (self.real, self.ours):
            side.delete(connector)


def _after_rebalance(send: Callable[[], Answer]) -> Answer:
    """Retries while the real worker rebalances, during which it rejects many requests."""
    deadline = time.monotonic() + 60
    while b"rebalance" in (answer := send()).body and answer.status in (409, 500) and time.monotonic() < deadline:
        time.sleep(0.5)
    return answer


def comparable(answer: Answer, keep: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """Status, relevant headers, and the content without values that must differ.

    For unknown paths, Connect's JSON has no content type; ours always has one.
    """
    content = answer.headers.get("content-type", "application/json" if answer.body else "")
    location = answer.headers.get("location", "").partition("://")[2].partition("/")[2]
    return answer.status, content, location, plain(answer.json, keep) if answer.body else None


def plain(content: Any, keep: tuple[str, ...] = ()) -> Any:
    if isinstance(content, dict):
        return {
            key: type(value).__name__ if key in _OWN and key not in keep else plain(value, keep)
            for key, value in content.items()
        }
    if isinstance(content, list):  # after a restart, Connect lists tasks in any order
        content = sorted(
            content, key=lambda each: _number(each["id"]) if isinstance(each, dict) and "id" in each else 0
        )
        return [plain(each, keep) for each in content]
    return content


def _number(task: Any) -> int:
    number: int = task["task"] if isinstance(task, dict) else task
    return number


def text_of(answer: Answer) -> str:
    headers = {key: answer.headers[key] for key in ("content-type", "location") if key in answer.headers}
    return f"{answer.status} {headers} {answer.body.decode()[:1000]}"


@pytest.fixture(scope="session")
def real(lab: Lab, eu: Cluster) -> Side:
    return Side("Connect", lab.connect_worker(eu.client_properties()).url)


@pytest.fixture(scope="session")
def ours(eu: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """`twinlog serve` with a Connect worker file."""
    folder = tmp_path_factory.mktemp("serve")
    port = free_port()
    properties = {**eu.client_properties(), "group.id": "twinlog-connect", "offset.flush.interval.ms": "1000"}
    properties |= {"key.converter": BYTES, "value.converter": BYTES}
    for kind in ("config", "offset", "status"):
        properties[f"{kind}.storage.topic"] = f"twinlog-connect-{kind}s"
        properties[f"{kind}.storage.replication.factor"] = "1"
    for kind in ("offset", "status"):
        properties[f"{kind}.storage.partitions"] = "1"
    file = folder / "connect.properties"
    file.write_text(properties_text(properties))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [TWINLOG, "serve", str(file), "--port", str(port)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )  # fmt: skip
    cleanup.add_process(process.pid)
    side = Side("twinlog serve", f"http://127.0.0.1:{port}", folder / "log")
    try:
        until(
            lambda: _healthy(side),
            "twinlog serve should respond",
            seconds=120,
            failed=lambda: None if process.poll() is None else "it ended",
            logs=lambda: ":\n" + (folder / "log").read_text(),
        )
        yield side
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        cleanup.remove_process(process.pid)


def _healthy(side: Side) -> bool:
    try:
        return side.send("GET", "/health").status == 200
    except OSError:
        return False


@pytest.fixture
def both(real: Side, ours: Side) -> Iterator[Both]:
    both = Both(real, ours)
    yield both
    assert not both.differences, "\n" + "\n".join(both.differences)


Config = Callable[..., dict[str, Any]]


@pytest.fixture
def config(us: Cluster, eu: Cluster) -> Config:
    """The configuration of a connector that selects nothing by default."""

    def config(connector: str = "MirrorSourceConnector", **settings: Any) -> dict[str, Any]:
        return {
            "connector.class": MIRROR + connector,
            "source.cluster.alias": "us",
            "target.cluster.alias": "eu",
            "source.cluster.bootstrap.servers": us.bootstrap(),
            "target.cluster.bootstrap.servers": eu.bootstrap(),
            "topics": "nothing-of-that-name",
            "groups": "nobody",
            **dict.fromkeys(FACTORS, "1"),
            **{key.replace("_", "."): value for key, value in settings.items()},
        }

    return config


FACTORS = (
    "replication.factor",
    "offset-syncs.topic.replication.factor",
    "checkpoints.topic.replication.factor",
    "heartbeats.topic.replication.factor",
)
