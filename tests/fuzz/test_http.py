"""Generated requests to every path of the HTTP port, with and without authentication.

Every request gets an HTTP response without an internal error; unauthorized users see no secrets and change nothing; the
server keeps running. `TWINLOG_FUZZ_EXAMPLES=100000` runs longer.
"""

import base64
import contextlib
import http.client
import io
import json
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.http.conftest import RecordingWorker, send
from twinlog.config.problems import Problems
from twinlog.config.providers import declared_providers
from twinlog.config.setting import rows
from twinlog.config.settings import CONNECTORS, MIRROR
from twinlog.connect.connector_check import Checker
from twinlog.connect.connector_files import ConnectorFiles
from twinlog.http import app
from twinlog.http.server import Server
from twinlog.http.users import User
from twinlog.status.flow import FlowStatus
from twinlog.status.flow_board import FlowBoard

pytestmark = pytest.mark.fuzz

SECRET = "swordfish-in-a-config"
EXAMPLES = int(os.environ.get("TWINLOG_FUZZ_EXAMPLES", "400"))
WORKER = b"""bootstrap.servers=eu:9092
group.id=g
offset.storage.topic=offsets
config.storage.topic=configs
status.storage.topic=status
key.converter=x.Y
value.converter=x.Y
"""
USERS = {"ann": User("ann", "rabbit"), "vic": User("vic", "hole", "viewer")}


class Checked(RecordingWorker):
    """Validates like `twinlog serve`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._check = Checker(declared_providers({}, Problems()), ConnectorFiles(folder, WORKER).problem)

    def create(self, name: str, config: Mapping[str, str | None], initial_state: str | None = None) -> dict[str, Any]:
        self._check(name, config)
        return super().create(name, config, initial_state)

    def put_config(self, name: str, config: Mapping[str, str | None]) -> tuple[bool, dict[str, Any]]:
        self._check(name, config)
        return super().put_config(name, config)


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    login: str

    def content(self, port: int) -> bytes:
        headers = [("Host", f"127.0.0.1:{port}"), ("Connection", "close"), ("Content-Length", str(len(self.body)))]
        if self.login:
            headers.append(("Authorization", "Basic " + base64.b64encode(self.login.encode()).decode()))
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{k}: {v}" for k, v in (*headers, *self.headers))]
        return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + self.body


KEYS = sorted({row.key.name for connector in CONNECTORS.values() for row in rows(connector)})
ODD = st.sampled_from(
    [
        "",
        "0",
        "-1",
        "NaN",
        "null",
        "true",
        "é",
        "\u202e",
        "\x1b[2J",
        "${file:/etc/passwd:x}",
        "*",
        "(",
        "9" * 400,
        "\ud800",
    ]
)
NAMES = st.one_of(
    st.sampled_from(["kept", "none", "MirrorSource", "MirrorCheckpointConnector", "root", "twinlog.http", "0", "..", "%2F", "%00", "%ff", "%", "a%2Fb"]),
    st.text("abc%/.\\;=+&?#~é[]{}<>\"' ", max_size=8).map(lambda text: "".join(c if " " < c <= "~" else "%20" for c in text).replace("#", "")),
)  # fmt: skip
PATHS = [
    "/", "/health", "/connectors", "/connectors/{}", "/connectors/{}/config", "/connectors/{}/status", "/connectors/{}/tasks",
    "/connectors/{}/tasks/{}/status", "/connectors/{}/tasks/{}/restart", "/connectors/{}/pause", "/connectors/{}/resume",
    "/connectors/{}/stop", "/connectors/{}/restart", "/connectors/{}/offsets", "/connectors/{}/topics",
    "/connectors/{}/topics/reset", "/connector-plugins", "/connector-plugins/{}/config", "/connector-plugins/{}/config/validate",
    "/admin/loggers", "/admin/loggers/{}", "/metrics", "/static/{}", "/favicon.ico", "/{}", "/{}/{}",
    *(f"/twinlog/{each}" for each in ("flows", "topics", "partitions", "groups", "events", "lost", "history", "plan", "{}")),
]  # fmt: skip
QUERIES = st.one_of(
    st.just(""),
    st.builds(
        lambda key, value: f"?{key}={value}",
        st.sampled_from(["since", "expand", "flow", "topic", "includeTasks", "scope", "version", "name[]", "connectorsOnly", "%ff"]),
        st.sampled_from(["", "info", "status", "true", "-1", "nan", "inf", "1e999", "%00", "%ff", "x" * 300, "a:1", ":", "us-%3Eeu"]),
    ),
)  # fmt: skip
TEXT = st.one_of(ODD, st.text(max_size=10))
CONFIGS = st.builds(
    lambda kind, more: {"connector.class": MIRROR + kind, "source.cluster.alias": "us", **more},
    st.sampled_from(sorted(CONNECTORS)),
    st.dictionaries(
        st.one_of(st.sampled_from(KEYS), st.sampled_from(["producer.override.acks", "transforms", "name"]), TEXT),
        TEXT,
        max_size=5,
    ),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
JSON = st.one_of(
    CONFIGS,
    st.builds(
        lambda name, config, state: {"name": name, "config": config, "initial_state": state},
        TEXT,
        st.one_of(CONFIGS, VALUES),
        TEXT,
    ),
    st.builds(lambda entries: {"offsets": entries}, VALUES),
    st.builds(lambda level: {"level": level}, TEXT),
    VALUES,
)
BODIES = st.one_of(
    st.just(b""), JSON.map(lambda value: json.dumps(value).encode()), st.binary(max_size=20), st.just(b"[" * 5000)
)
HEADERS = st.lists(
    st.one_of(
        st.tuples(st.just("Content-Type"), st.sampled_from(["application/json", "application/json; charset=x", "text/plain", ""])),
        st.tuples(st.just("Accept"), st.sampled_from(["*/*", "text/html", "application/json", ",;q=", "x/y"])),
        st.tuples(st.just("Accept-Encoding"), st.sampled_from(["gzip", "gzip;q=x", "*;q=0"])),
        st.tuples(st.sampled_from(["Origin", "Sec-Fetch-Site", "If-None-Match", "X-Forwarded-For", "Upgrade", "Expect", "Range"]),
                  st.sampled_from(["", "null", "http://[", "cross-site", "websocket", "100-continue", "\xff", "bytes=0-"])),
    ),
    max_size=3,
)  # fmt: skip
REQUESTS = st.builds(
    Request,
    st.sampled_from(["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "BREW"]),
    st.builds(
        lambda path, one, two, query: path.format(one, two) + query, st.sampled_from(PATHS), NAMES, NAMES, QUERIES
    ),
    HEADERS.flatmap(lambda more: st.sampled_from([more, [("Content-Type", "application/json"), *more[:1]]])),
    BODIES,
    st.sampled_from(["", "", "vic:hole", "ann:rabbit", "ann:rabbit", "ann:wrong", "nobody:x", "é", ":"]),
)


class _Socket:
    """Enough of a socket for http.client to read a response from."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, *_: Any) -> io.BytesIO:
        return io.BytesIO(self._content)


def sent(server: Server, request: Request) -> tuple[int, dict[str, str], bytes]:
    with socket.create_connection((server.host, server.port), 60) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(request.content(server.port))
        received = b""
        with contextlib.suppress(ConnectionError):
            while content := connection.recv(1 << 16):
                received += content
    response = http.client.HTTPResponse(_Socket(received), method=request.method)  # type: ignore[arg-type]
    response.begin()
    return response.status, {key.lower(): value for key, value in response.getheaders()}, response.read()


@pytest.fixture(scope="module", params=["open", "login"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Checked, Server, bool]]:
    worker = Checked(tmp_path_factory.mktemp("fuzz") / "connectors")
    login = request.param == "login"
    built = app.build(
        worker,
        FlowBoard([FlowStatus("run", "us->eu", "us", "eu")]),
        lambda: '{"flows": []}',
        users=USERS if login else None,
        mask=False,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "twinlog.http.logins.delay", lambda _failures: 0.0
        )  # the delay after failed logins would slow the test down
        with Server(built, port=0) as server, _log_levels_restored():
            yield worker, server, login


@contextlib.contextmanager
def _log_levels_restored() -> Iterator[None]:
    """`/admin/loggers` changes the levels of this process."""
    before = {each: each.level for each in _loggers()}
    yield
    for each in _loggers():
        each.setLevel(before.get(each, logging.NOTSET))


def _loggers() -> list[logging.Logger]:
    known = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    return [logging.root, *known]


@settings(
    max_examples=EXAMPLES, deadline=None, derandomize="TWINLOG_FUZZ_EXAMPLES" not in os.environ, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(request=REQUESTS)
def test_every_request_gets_a_valid_response(served: tuple[Checked, Server, bool], request: Request) -> None:
    worker, server, login = served
    config: dict[str, str | None] = {"name": "kept", "source.cluster.sasl.jaas.config": SECRET}
    worker.configs = {"kept": config}
    worker.calls.clear()
    status, headers, body = sent(server, request)
    assert 200 <= status < 600
    assert b"Internal error" not in body, "a bug"
    assert b"Traceback" not in body
    if (
        headers.get("content-type") == "application/json"
        and request.method != "HEAD"
        and "content-encoding" not in headers
    ):
        content = json.loads(body)
        if status >= 400 and not (status == 503 and "status" in content):
            assert content["error_code"] == status
    operator = not login or request.login == "ann:rabbit"
    if not operator:
        assert SECRET.encode() not in body
        assert worker.configs == {"kept": config}
        assert not worker.calls
        if request.login != "vic:hole":
            assert status in (400, 401, 403), "authentication is required"
    if request.method in ("GET", "HEAD", "OPTIONS"):
        assert not worker.calls
    credentials = {"Authorization": "Basic " + base64.b64encode(b"vic:hole").decode()}
    assert send(server.url, "GET", "/health", headers=credentials).status == 503, "this worker is starting"


@settings(max_examples=EXAMPLES // 2, deadline=None, derandomize=True, database=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(noise=st.one_of(st.binary(max_size=200), REQUESTS.map(lambda each: each.content(1)).flatmap(
    lambda content: st.builds(lambda at, more: content[:at] + more + content[at:], st.integers(0, len(content)), st.binary(max_size=5))
)))  # fmt: skip
def test_noise_does_not_affect_other_connections(served: tuple[Checked, Server, bool], noise: bytes) -> None:
    _worker, server, login = served
    with socket.create_connection((server.host, server.port), 60) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(noise)
        connection.shutdown(socket.SHUT_WR)
    assert send(server.url, "GET", "/connectors").status == (401 if login else 200)
