"""Who may come in: names, users, origins, sizes, TLS; and what a server says when it cannot begin."""

import base64
import socket
import ssl
from pathlib import Path

import pytest
from tests.surface.http.conftest import Call, Remembers, ask

from twinlog.errors import TwinlogError
from twinlog.lab.certificates import Authority
from twinlog.surface.http import app, guard
from twinlog.surface.http.server import Server, is_loopback, tls_context


@pytest.mark.parametrize("host", ["localhost", "localhost:8083", "127.0.0.1:1", "[::1]:8083", "twin.localhost"])
def test_this_machines_names_are_served(call: Call, host: str) -> None:
    assert call("GET", "/connectors", headers={"Host": host}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8083", "127.0.0.1.evil.example", "10.0.0.1", "[::2]"])
def test_a_foreign_name_is_refused_on_loopback(call: Call, host: str) -> None:
    answer = call("GET", "/connectors", headers={"Host": host})
    assert (answer.status, answer.json["error_code"]) == (403, 403)
    assert host in answer.json["message"]


def test_beyond_loopback_every_name_is_served(worker: Remembers) -> None:
    with Server(app.build(worker, local=False), port=0) as server:
        assert ask(server.url, "GET", "/connectors", headers={"Host": "connect.example"}).status == 200


@pytest.mark.parametrize(("origin", "status"), [("http://evil.example", 403), ("null", 403), ("http://{host}", 202)])
def test_a_page_of_another_site_cannot_write(worker: Remembers, origin: str, status: int) -> None:
    with Server(app.build(worker), port=0) as server:
        host = server.url.removeprefix("http://")
        answer = ask(server.url, "PUT", "/connectors/c/pause", headers={"Origin": origin.format(host=host)})
        assert answer.status == status
        assert bool(worker.asked) == (status == 202)
        # Reading is harmless: without our leave its browser does not show it the answer.
        assert ask(server.url, "GET", "/connectors", headers={"Origin": origin}).status == 200


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("alice:rabbit hole", 200), ("alice:wrong", 401), ("alice:", 401), ("bob:rabbit hole", 401), ("alice", 401),
        (":", 401), ("", 401), ("é:ü", 200),
    ],
)  # fmt: skip
def test_a_user_needs_the_password(worker: Remembers, given: str, status: int) -> None:
    with Server(app.build(worker, users={"alice": "rabbit hole", "é": "ü"}), port=0) as server:
        token = base64.b64encode(given.encode()).decode()
        answer = ask(server.url, "GET", "/connectors", headers={"Authorization": f"Basic {token}"})
        assert answer.status == status
        if status == 401:
            assert answer.headers["www-authenticate"].startswith("Basic ")
            assert answer.json["error_code"] == 401
        assert ask(server.url, "GET", "/").status == 401
        assert ask(server.url, "GET", "/", headers={"Authorization": f"Bearer {token}"}).status == 401
        assert ask(server.url, "GET", "/", headers={"Authorization": "Basic %%%"}).status == 401


def test_users_are_read_as_connect_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "users.properties"
    file.write_text("# people\nalice: rabbit hole\nbob=builder\n")
    assert guard.read_users(file) == {"alice": "rabbit hole", "bob": "builder"}


@pytest.mark.parametrize("text", ["", "# nobody\n", "alice:\n", ": secret\n", "alice: \\u12\n"])
def test_a_file_that_would_let_everybody_in_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "users.properties"
    file.write_text(text)
    with pytest.raises(TwinlogError, match="expected") as caught:
        guard.read_users(file)
    assert "secret" not in str(caught.value)


def test_a_file_of_users_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(TwinlogError, match=r"nowhere: No such file"):
        guard.read_users(tmp_path / "nowhere")


def test_a_body_that_is_too_large_is_refused(worker: Remembers) -> None:
    with Server(guard.Guard(app.build(worker), local=True, largest=1000), port=0) as server:
        config = {"name": "x", "filler": "y" * 2000}
        assert ask(server.url, "PUT", "/connectors/x/config", config).status == 413
        # In chunks: how long it is turns out on the way.
        chunked = {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
        body = b"7d0\r\n" + b"y" * 2000 + b"\r\n0\r\n\r\n"
        connection = socket.create_connection((server.host, server.port))
        head = "PUT /connectors/x/config HTTP/1.1\r\nHost: localhost\r\n"
        connection.sendall((head + "".join(f"{k}: {v}\r\n" for k, v in chunked.items()) + "\r\n").encode() + body)
        with connection:
            assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
        assert not worker.configs


def test_tls(worker: Remembers, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.server()
    server_side = tls_context(files.certificate, files.key)
    client_side = ssl.create_default_context(cafile=str(authority.ca))
    with Server(app.build(worker), host="localhost", port=0, tls=server_side) as server:
        assert server.url.startswith("https://localhost:")
        assert ask(server.url, "GET", "/connectors", tls=client_side).json == []


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "server.pem"
    if content:
        file.write_text(content)
    with pytest.raises(TwinlogError, match=r"server\.pem: (No such file|not a PEM certificate)"):
        tls_context(file)


def test_a_port_that_is_taken_is_said_in_one_line(worker: Remembers) -> None:
    with (
        Server(app.build(worker), port=0) as server,
        pytest.raises(TwinlogError, match=rf"cannot listen on 127.0.0.1:{server.port}: address already in use: choose"),
    ):
        Server(app.build(worker), port=server.port)


def test_a_stopped_server_frees_its_port_and_may_be_followed_by_another(worker: Remembers) -> None:
    with Server(app.build(worker), port=0) as server:
        assert ask(server.url, "GET", "/connectors").status == 200
    with pytest.raises(OSError, match="refused"):
        ask(server.url, "GET", "/connectors")
    with Server(app.build(worker), port=server.port) as again:
        assert ask(again.url, "GET", "/connectors").status == 200


def test_answers_do_not_say_what_serves_them(call: Call) -> None:
    for path in ("/", "/connectors", "/nowhere", "/connectors/breaks/config"):
        answer = call("GET", path)
        assert "server" not in answer.headers
        assert "uvicorn" not in str(answer.headers).lower()
        assert answer.headers["content-type"] == "application/json"
        assert b"insides" not in answer.body
        assert b"Traceback" not in answer.body


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.example", False)],
)
def test_loopback_is_known_by_its_address(host: str, local: bool) -> None:
    assert is_loopback(host) == local
