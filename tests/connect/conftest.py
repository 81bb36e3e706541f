"""A real Connect worker with MM2's connectors and `twinlog serve`, side by side: the same requests, the same answers."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.surface.http.conftest import Answer, ask

from twinlog.config.properties import properties_text
from twinlog.lab.cluster import Cluster
from twinlog.lab.lab import Lab
from twinlog.lab.ports import free_port
from twinlog.lab.process import guardian
from twinlog.lab.waiting import until

MIRROR = "org.apache.kafka.connect.mirror."
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
TWINLOG = Path(sys.executable).with_name("twinlog")

# What must differ: who answers, of which version, when; and each has its own sentences for its documentation.
_OWN = ("worker_id", "workerId", "version", "commit", "documentation", "last_modified", "trace", "message")


class Side:
    """One of the two workers."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self.url = name, url

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        return ask(self.url, method, path, body, headers)

    def states(self, connector: str) -> list[str]:
        """Of the connector and its tasks; none before it has a status."""
        answer = self.ask("GET", f"/connectors/{connector}/status")
        if answer.status != 200:
            return []
        return [answer.json["connector"]["state"], *(task["state"] for task in answer.json["tasks"])]

    def wait_for(self, connector: str, *states: str, first: bool = False) -> None:
        """Of the connector and its tasks; only of the `first` of these where tasks do not matter. None: it is gone."""
        until(
            lambda: self.states(connector)[: 1 if first else None] == list(states),
            f"{self.name}: {connector} should be {states}",
            seconds=120,
            logs=lambda: f"; it is {self.states(connector)}",
        )

    def delete(self, connector: str) -> None:
        self.ask("DELETE", f"/connectors/{connector}")
        until(lambda: not self.states(connector), f"{self.name}: {connector} should be gone", seconds=120)


class Both:
    """Asks both sides the same; what differs is told when the test ends, all of it at once."""

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
        """`words`: the messages, too. `seconds`: how long it may take until they are, where states still change."""
        keep = ("message",) if words else ()
        deadline = time.monotonic() + seconds
        while True:
            theirs = _balanced(lambda: self.real.ask(method, path, body, headers))
            ours = self.ours.ask(method, path, body, headers)
            if seen(theirs, keep) == seen(ours, keep):
                return
            if time.monotonic() >= deadline:
                break
            time.sleep(0.5)
        asked = f"{method} {path} {body if body is not None else ''}"
        self.differences.append(f"{asked}\n  Connect: {told(theirs)}\n  ours:    {told(ours)}")

    def wait_for(self, connector: str, *states: str) -> None:
        for side in (self.real, self.ours):
            side.wait_for(connector, *states)

    def delete(self, connector: str) -> None:
        for side in (self.real, self.ours):
            side.delete(connector)


def _balanced(ask: Callable[[], Answer]) -> Answer:
    """A real worker refuses much while it shares out its work anew, and says so."""
    deadline = time.monotonic() + 60
    while b"rebalance" in (answer := ask()).body and answer.status in (409, 500) and time.monotonic() < deadline:
        time.sleep(0.5)
    return answer


def seen(answer: Answer, keep: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """What a client goes by: status, the headers that tell it something, the content without what must differ.

    Connect's JSON about paths that there are not comes without a type; ours always has one.
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
    if isinstance(content, list):  # after a restart Connect lists tasks in any order
        content = sorted(content, key=lambda each: each["id"] if isinstance(each, dict) and "id" in each else 0)
        return [plain(each, keep) for each in content]
    return content


def told(answer: Answer) -> str:
    headers = {key: answer.headers[key] for key in ("content-type", "location") if key in answer.headers}
    return f"{answer.status} {headers} {answer.body.decode()[:1000]}"


@pytest.fixture(scope="session")
def real(lab: Lab, eu: Cluster) -> Side:
    return Side("Connect", lab.connect_worker(eu.client_properties()).url)


@pytest.fixture(scope="session")
def ours(eu: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """The command, with the file of a Connect worker."""
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
    guardian.hold_process(process.pid)
    side = Side("twinlog serve", f"http://127.0.0.1:{port}")
    try:
        until(
            lambda: _healthy(side),
            "twinlog serve should answer",
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
        guardian.drop_process(process.pid)


def _healthy(side: Side) -> bool:
    try:
        return side.ask("GET", "/health").status == 200
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
    """Of a connector that finds nothing to do, unless told otherwise."""

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
