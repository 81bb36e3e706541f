"""The HTTP server with a worker that only records calls: for the format of responses, not for a worker's behaviour."""

import http.client
import json
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from twinlog.connect.errors import ConnectError
from twinlog.http import app
from twinlog.http.server import Server


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def send(
    url: str,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Sent unchanged: no library normalizes the path or the headers."""
    scheme, _, address = url.partition("://")
    host, _, port = address.rpartition(":")
    connection = (
        http.client.HTTPSConnection(host, int(port), timeout=30, context=tls)
        if scheme == "https"
        else http.client.HTTPConnection(host, int(port), timeout=30)
    )
    sent = {"Content-Type": "application/json"} if body is not None else {}
    content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    try:
        connection.request(method, path, content, {**sent, **(headers or {})})
        answer = connection.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


@dataclass
class RecordingWorker:
    """Stores configurations as sent, and records every other change."""

    configs: dict[str, dict[str, str | None]] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def info(self) -> dict[str, Any]:
        return {"version": "1", "commit": "2", "kafka_cluster_id": "3"}

    def health(self) -> tuple[int, dict[str, Any]]:
        return 503, {"status": "starting", "message": "not yet"}

    def names(self) -> list[str]:
        return list(self.configs)

    def create(self, name: str, config: Mapping[str, str | None], initial_state: str | None = None) -> dict[str, Any]:
        self.calls.append(("create", name, initial_state))
        self.configs[name] = dict(config)
        return self.connector(name)

    def put_config(self, name: str, config: Mapping[str, str | None]) -> tuple[bool, dict[str, Any]]:
        created = name not in self.configs
        self.configs[name] = dict(config)
        return created, self.connector(name)

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> dict[str, Any]:
        self.configs[name] = {k: v for k, v in {**self.config(name), **patch}.items() if v is not None}
        return self.connector(name)

    def connector(self, name: str) -> dict[str, Any]:
        return {"name": name, "config": self.config(name), "tasks": [], "type": "source"}

    def config(self, name: str) -> dict[str, Any]:
        if name == "breaks":
            raise RuntimeError("internal details")
        if name not in self.configs:
            raise ConnectError(404, f"Connector {name} not found")
        return dict(self.configs[name])

    def status(self, name: str) -> dict[str, Any]:
        if name == "new":
            raise ConnectError(404, "No status found for connector new")
        return {"name": name, "connector": {"state": "RUNNING", "worker_id": "w"}, "tasks": [], "type": "source"}

    def tasks(self, name: str) -> list[dict[str, Any]]:
        return [{"id": {"connector": name, "task": 0}, "config": {}}]

    def task_status(self, name: str, task: int) -> dict[str, Any]:
        return {"id": task, "state": "RUNNING", "worker_id": name}

    def _record(self, *call: Any) -> None:
        self.calls.append(call)

    def pause(self, name: str) -> None:
        self._record("pause", name)

    def resume(self, name: str) -> None:
        self._record("resume", name)

    def stop(self, name: str) -> None:
        self._record("stop", name)

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> dict[str, Any] | None:
        self._record("restart", name, include_tasks, only_failed)
        return self.status(name) if include_tasks or only_failed else None

    def restart_task(self, name: str, task: int) -> None:
        self._record("restart_task", name, task)

    def delete(self, name: str) -> None:
        self.config(name)
        del self.configs[name]

    def offsets(self, name: str) -> dict[str, Any]:
        return {"offsets": [{"partition": {"topic": name}, "offset": {"offset": 1}}]}

    def alter_offsets(self, name: str, entries: Sequence[Mapping[str, Any]] | None) -> dict[str, Any]:
        self._record("alter_offsets", name, entries)
        return {"message": "altered"}

    def reset_offsets(self, name: str) -> dict[str, Any]:
        self._record("reset_offsets", name)
        return {"message": "reset"}

    def topics(self, name: str) -> dict[str, Any]:
        return {name: {"topics": []}}

    def reset_topics(self, name: str) -> None:
        self._record("reset_topics", name)


Call = Callable[..., Answer]


@pytest.fixture(scope="session")
def _served() -> Iterator[tuple[RecordingWorker, Server]]:
    worker = RecordingWorker()
    with Server(app.build(worker), port=0) as server:
        yield worker, server


@pytest.fixture(scope="session")
def shared_server(_served: tuple[RecordingWorker, Server]) -> Iterator[Callable[..., Server]]:
    """A server of the shared worker, by name: started once, with the options of the first call. A start takes 0.2 s."""
    known: dict[str, Server] = {}
    with ExitStack() as stack:

        def shared(name: str, **options: Any) -> Server:
            if name not in known:
                known[name] = stack.enter_context(Server(app.build(_served[0], **options), port=0))
            return known[name]

        yield shared


@pytest.fixture
def worker(_served: tuple[RecordingWorker, Server]) -> RecordingWorker:
    """The shared worker, emptied."""
    worker, _ = _served
    worker.configs.clear()
    worker.calls.clear()
    return worker


@pytest.fixture
def call(worker: RecordingWorker, _served: tuple[RecordingWorker, Server]) -> Call:
    """Sends a request to the shared server."""
    assert not worker.configs
    return lambda *arguments, **named: send(_served[1].url, *arguments, **named)
