"""Access control: host names, users, origins, sizes, TLS; and errors at start."""

import base64
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.certificates import Authority
from tests.http.conftest import Call, RecordingWorker, send
from twinlog.errors import TwinlogError
from twinlog.http import access_control, app
from twinlog.http.server import Server, is_loopback, tls_context
from twinlog.http.users import plain_users, read_users

Shared = Callable[..., Server]


@pytest.mark.parametrize("host", ["localhost", "localhost:8083", "127.0.0.1:1", "[::1]:8083", "twin.localhost"])
def test_names_of_this_machine_are_accepted(call: Call, host: str) -> None:
    assert call("GET", "/connectors", headers={"Host": host}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8083", "127.0.0.1.evil.example", "10.0.0.1", "[::2]"])
def test_another_host_name_is_rejected_on_loopback(call: Call, host: str) -> None:
    answer = call("GET", "/connectors", headers={"Host": host})
    assert (answer.status, answer.json["error_code"]) == (403, 403)
    assert host in answer.json["message"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 403), ("evil.example:8083", 403), ("10.0.0.1.evil.example", 403), ("evil", 403), ("[", 403),
        ("10.0.0.1", 200), ("10.0.0.1:8083", 200), ("[fd00::1]:8083", 200), ("LOCALHOST:8083", 200),
        ("connect.example", 200), ("Connect.Example:8083", 200), ("connect.example.evil.example", 403),
        (socket.gethostname(), 200), (f"{socket.gethostname()}:8083", 200),
    ],
)  # fmt: skip
def test_an_unknown_host_name_is_rejected_without_a_login(
    worker: RecordingWorker, shared_server: Shared, host: str, status: int
) -> None:
    """DNS rebinding: the browser sends the other site's name."""
    server = shared_server("hosts", local=False, hosts=["connect.example"])
    assert send(server.url, "GET", "/connectors", headers={"Host": host}).status == status
    pause = send(server.url, "PUT", "/connectors/c/pause", headers={"Host": host, "Origin": f"http://{host}"})
    assert pause.status == (202 if status == 200 else 403)
    if status == 403:
        assert "--allowed-host" in pause.json["message"]
    assert bool(worker.calls) == (status == 200)


def test_every_host_name_is_accepted_with_a_login_or_a_wildcard(worker: RecordingWorker) -> None:
    token = base64.b64encode(b"ann:rabbit").decode()
    headers = {"Host": "connect.example", "Authorization": f"Basic {token}"}
    with Server(app.build(worker, local=False, users=plain_users({"ann": "rabbit"})), port=0) as server:
        assert send(server.url, "GET", "/connectors", headers=headers).status == 200
    with Server(app.build(worker, local=False, hosts=["*"]), port=0) as server:
        assert send(server.url, "GET", "/connectors", headers={"Host": "connect.example"}).status == 200


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "http://]", "x" * 2000])
def test_an_invalid_origin_is_rejected(call: Call, worker: RecordingWorker, origin: str) -> None:
    assert call("PUT", "/connectors/c/pause", headers={"Origin": origin}).status == 403
    assert not worker.calls


@pytest.mark.parametrize(
    "given", ["Basic é", "Basic \xff", "é", "Basic", "Basic  ", "Basic =", "Basic 4pyT", "Basic w6k6w7w="]
)
def test_a_malformed_authorization_header_is_rejected(shared_server: Shared, given: str) -> None:
    server = shared_server("alice", users=plain_users({"alice": "rabbit"}))
    assert send(server.url, "GET", "/connectors", headers={"Authorization": given}).status == 401


@pytest.mark.parametrize(("origin", "status"), [("http://evil.example", 403), ("null", 403), ("http://{host}", 202)])
def test_writes_from_another_origin_are_rejected(
    worker: RecordingWorker, shared_server: Shared, origin: str, status: int
) -> None:
    server = shared_server("open")
    host = server.url.removeprefix("http://")
    answer = send(server.url, "PUT", "/connectors/c/pause", headers={"Origin": origin.format(host=host)})
    assert answer.status == status
    assert bool(worker.calls) == (status == 202)
    # Reads are harmless: without CORS headers, the browser does not show the page the response.
    assert send(server.url, "GET", "/connectors", headers={"Origin": origin}).status == 200


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("alice:rabbit hole", 200), ("alice:wrong", 401), ("alice:", 401), ("bob:rabbit hole", 401), ("alice", 401),
        (":", 401), ("", 401), ("é:ü", 200),
    ],
)  # fmt: skip
def test_a_user_needs_the_password(shared_server: Shared, given: str, status: int) -> None:
    server = shared_server("users", users=plain_users({"alice": "rabbit hole", "é": "ü"}))
    token = base64.b64encode(given.encode()).decode()
    answer = send(server.url, "GET", "/connectors", headers={"Authorization": f"Basic {token}"})
    assert answer.status == status
    if status == 401:
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert answer.json["error_code"] == 401
    assert send(server.url, "GET", "/").status == 401
    assert send(server.url, "GET", "/", headers={"Authorization": f"Bearer {token}"}).status == 401
    assert send(server.url, "GET", "/", headers={"Authorization": "Basic %%%"}).status == 401


def test_plain_users_file(tmp_path: Path) -> None:
    file = tmp_path / "users.properties"
    file.write_text("# people\nalice: rabbit hole\nbob=builder\n")
    assert read_users(file) == plain_users({"alice": "rabbit hole", "bob": "builder"})


@pytest.mark.parametrize("text", ["", "# nobody\n", "alice:\n", ": secret\n", "alice: \\u12\n"])
def test_a_file_without_users_or_passwords_is_rejected(tmp_path: Path, text: str) -> None:
    file = tmp_path / "users.properties"
    file.write_text(text)
    with pytest.raises(TwinlogError, match="expected") as caught:
        read_users(file)
    assert "secret" not in str(caught.value)


def test_a_missing_users_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TwinlogError, match=r"nowhere: No such file"):
        read_users(tmp_path / "nowhere")


def test_a_body_that_is_too_large_is_rejected(worker: RecordingWorker) -> None:
    with Server(access_control.AccessControl(app.build(worker), local=True, max_body_bytes=1000), port=0) as server:
        config = {"name": "x", "filler": "y" * 2000}
        assert send(server.url, "PUT", "/connectors/x/config", config).status == 413
        # Chunked: the length is not known in advance.
        chunked = {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
        body = b"7d0\r\n" + b"y" * 2000 + b"\r\n0\r\n\r\n"
        connection = socket.create_connection((server.host, server.port))
        head = "PUT /connectors/x/config HTTP/1.1\r\nHost: localhost\r\n"
        connection.sendall((head + "".join(f"{k}: {v}\r\n" for k, v in chunked.items()) + "\r\n").encode() + body)
        with connection:
            assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
        assert not worker.configs


def test_tls(worker: RecordingWorker, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.server()
    server_side = tls_context(files.certificate, files.key)
    client_side = ssl.create_default_context(cafile=str(authority.ca))
    with Server(app.build(worker), host="localhost", port=0, tls=server_side) as server:
        assert server.url.startswith("https://localhost:")
        assert send(server.url, "GET", "/connectors", tls=client_side).json == []


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "server.pem"
    if content:
        file.write_text(content)
    with pytest.raises(TwinlogError, match=r"server\.pem: (No such file|not a PEM certificate)"):
        tls_context(file)


def test_a_port_in_use_is_reported_in_one_line(worker: RecordingWorker) -> None:
    with (
        Server(app.build(worker), port=0) as server,
        pytest.raises(TwinlogError, match=rf"cannot listen on 127.0.0.1:{server.port}: address already in use; choose"),
    ):
        Server(app.build(worker), port=server.port)


def test_a_stopped_server_frees_its_port(worker: RecordingWorker) -> None:
    with Server(app.build(worker), port=0) as server:
        assert send(server.url, "GET", "/connectors").status == 200
    with pytest.raises(OSError, match="refused"):
        send(server.url, "GET", "/connectors")
    with Server(app.build(worker), port=server.port) as again:
        assert send(again.url, "GET", "/connectors").status == 200


def test_responses_do_not_reveal_the_server_software(call: Call) -> None:
    for path in ("/", "/connectors", "/nowhere", "/connectors/breaks/config"):
        answer = call("GET", path)
        assert "server" not in answer.headers
        assert "uvicorn" not in str(answer.headers).lower()
        assert answer.headers["content-type"] == "application/json"
        assert b"internal details" not in answer.body
        assert b"Traceback" not in answer.body


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.example", False)],
)
def test_loopback_addresses(host: str, local: bool) -> None:
    assert is_loopback(host) == local
