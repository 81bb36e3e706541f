"""The server stays available to other clients, whatever one client does."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from lab.waiting import until
from tests.http.conftest import Call, RecordingWorker, send
from twinlog.errors import ReplicationError
from twinlog.http import app
from twinlog.http.connection_limits import Limits
from twinlog.http.server import Server
from twinlog.status.flow_board import FlowBoard

THREADS = 40  # of the pool for request handlers


class BlockedWorker(RecordingWorker):
    """A worker whose cluster does not respond until `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.waiting = 0

    def status(self, name: str) -> dict[str, object]:
        self.waiting += 1
        self.go.wait(60)
        return super().status(name)


def test_health_responds_when_all_threads_are_busy() -> None:
    worker = BlockedWorker()
    with Server(app.build(worker), port=0) as server:
        clients = [
            threading.Thread(target=send, args=(server.url, "GET", "/connectors/c/status")) for _ in range(THREADS + 5)
        ]
        for each in clients:
            each.start()
        try:
            until(lambda: worker.waiting >= THREADS, "all threads should wait", seconds=60)
            assert send(server.url, "GET", "/health").status == 503, "the status of this worker"
        finally:
            worker.go.set()
            for each in clients:
                each.join()


class SlowPlan:
    def __init__(self) -> None:
        self.go = threading.Event()
        self.made = 0
        self.error: Exception | None = None

    def __call__(self) -> str:
        self.made += 1
        assert self.go.wait(60)
        if self.error:
            raise self.error
        return f'{{"made": {self.made}}}'


def test_concurrent_requests_share_one_plan(worker: RecordingWorker) -> None:
    plans = SlowPlan()
    found: list[object] = []
    with Server(app.build(worker, FlowBoard([]), plans), port=0) as server:
        clients = [
            threading.Thread(target=lambda: found.append(send(server.url, "GET", "/twinlog/plan").json))
            for _ in range(THREADS + 5)
        ]
        for each in clients:
            each.start()
        until(lambda: plans.made > 0, "a plan should be made", seconds=60)
        # A client that disconnects does not cancel the plan for the others.
        with socket.create_connection((server.host, server.port)) as gone:
            gone.sendall(b"GET /twinlog/plan HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert send(server.url, "GET", "/twinlog/flows").status == 200, "no thread is blocked"
        assert send(server.url, "GET", "/connectors").status == 200
        until(lambda: len(server._server.server_state.tasks) >= THREADS + 5, "all should have asked", seconds=60)
        plans.go.set()
        for each in clients:
            each.join()
        assert found == [{"made": 1}] * (THREADS + 5)
        assert send(server.url, "GET", "/twinlog/plan").json == {"made": 2}, "later requests get a new plan"
        plans.error = ReplicationError("us: not reachable")
        refused = send(server.url, "GET", "/twinlog/plan")
        assert (refused.status, refused.json["message"]) == (500, "us: not reachable")
        plans.error = None
        assert send(server.url, "GET", "/twinlog/plan").json == {"made": 4}


@contextlib.contextmanager
def opened(server: Server, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(socket.create_connection((server.host, server.port), 30)) for _ in range(count)]
        for each in made:
            each.sendall(sent)
        yield made


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("limits", [Limits(connections=5), Limits(per_address=5)])
def test_idle_connections_are_closed_for_new_ones(worker: RecordingWorker, limits: Limits) -> None:
    with Server(app.build(worker), port=0, limits=limits) as server:
        known = server._server.server_state.connections
        with opened(server, 20, b"GET /conn") as idle:
            until(lambda: len(known) == 5, "excess connections should be closed", seconds=60)
            assert send(server.url, "GET", "/connectors").status == 200
            assert is_closed(idle[0]), "the longest idle connection"
            assert len(known) <= 5


def test_a_request_in_progress_is_not_closed() -> None:
    worker = BlockedWorker()
    request = b"GET /connectors/c/status HTTP/1.1\r\nHost: localhost\r\n\r\n"
    limits = Limits(connections=3)
    with Server(app.build(worker), port=0, limits=limits) as server, opened(server, 3, request) as busy:
        until(lambda: worker.waiting == 3, "all should be in progress", seconds=60)
        with opened(server, 1) as (late,):
            assert is_closed(late)
        worker.go.set()
        for each in busy:
            assert each.recv(100).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "sent", [b"", b"GET /connectors HTTP/1.1\r\nHost: loc", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET"]
)
def test_incomplete_headers_time_out(worker: RecordingWorker, sent: bytes) -> None:
    server = Server(app.build(worker), port=0, limits=Limits(head_seconds=0.2))
    server._server.config.timeout_keep_alive = 1
    with server, opened(server, 1, sent) as (slow,):
        while not is_closed(slow):
            pass
        assert send(server.url, "GET", "/connectors").status == 200


def test_headers_that_are_too_large_are_rejected(worker: RecordingWorker) -> None:
    with Server(app.build(worker), port=0, limits=Limits(head_bytes=1000)) as server, opened(server, 1) as (large,):
        with contextlib.suppress(ConnectionError):
            large.sendall(b"GET /connectors HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 2000)
        assert large.recv(100).startswith(b"HTTP/1.1 400 ")


def test_an_incomplete_body_times_out(worker: RecordingWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinlog.http.access_control._BODY_TIMEOUT_S", 0.2)
    head = b"PUT /connectors/c/config HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    with Server(app.build(worker), port=0) as server, opened(server, 1, head) as (slow,):
        assert slow.recv(100).startswith(b"HTTP/1.1 408 ")
        assert send(server.url, "PUT", "/connectors/c/config", {"name": "c"}).status == 201


NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize(
    ("method", "path", "site", "more", "status"),
    [
        ("GET", "/connectors", "cross-site", {}, 403),
        ("GET", "/twinlog/plan", "cross-site", {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403),
        ("GET", "/", "cross-site", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
        ("PUT", "/connectors/c/pause", "cross-site", {}, 403),
        ("PUT", "/connectors/c/pause", "cross-site", NAVIGATION, 403),
        ("GET", "/", "cross-site", NAVIGATION, 200),
        ("GET", "/connectors", "same-origin", {}, 200),
        ("GET", "/connectors", "none", {}, 200),
        ("PUT", "/connectors/c/pause", "same-origin", {}, 202),
    ],
)
def test_cross_site_requests_are_rejected(
    call: Call, worker: RecordingWorker, method: str, path: str, site: str, more: dict[str, str], status: int
) -> None:
    assert call(method, path, headers={"Sec-Fetch-Site": site, **more}).status == status
    assert bool(worker.calls) == (status == 202)
