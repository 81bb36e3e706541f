"""Users of the HTTP port: roles, hashed passwords, failed logins, and the log of changes."""

import base64
import logging
import socket
import ssl
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.certificates import Authority
from tests.http.conftest import Answer, RecordingWorker, send
from twinlog.cli.main import cli
from twinlog.errors import ConfigError
from twinlog.http import app, setup
from twinlog.http.logins import Failures, delay, network
from twinlog.http.options import HttpOptions
from twinlog.http.server import Server, tls_context
from twinlog.http.users import User, hashed_password, plain_users, read_users
from twinlog.status.flow_board import FlowBoard

SECRET = "swordfish"


def as_user(server: Server, method: str, path: str, given: str, body: object = None) -> Answer:
    token = base64.b64encode(given.encode()).decode()
    return send(server.url, method, path, body, headers={"Authorization": f"Basic {token}"})


@pytest.fixture
def users(tmp_path: Path) -> dict[str, User]:
    file = tmp_path / "users"
    lines = [
        f"ann: {hashed_password('rabbit')}",
        f"vic: {{viewer}}{hashed_password('hole')}",
        "bob: {viewer}builder",
        "old: {",
    ]
    file.write_text("\n".join(lines))
    return read_users(file)


def test_roles_and_hashes_in_a_file(users: dict[str, User]) -> None:
    assert [(user.name, user.role, user.hashed) for user in users.values()] == [
        ("ann", "operator", True), ("vic", "viewer", True), ("bob", "viewer", False), ("old", "operator", False),
    ]  # fmt: skip
    assert users["ann"].has("rabbit")
    assert not users["ann"].has("hole")
    assert users["bob"].has("builder")
    assert not users["bob"].has("{viewer}builder")
    assert "builder" not in repr(users)


@pytest.mark.parametrize(
    "value",
    [
        "{bcrypt}x", "{viewer}", "{viewer} ", "{admin}x", "{scrypt}", "{scrypt}15$8$1$AAAA$AAAA", "{scrypt}rabbit",
        "{scrypt}30$8$1$" + "A" * 22 + "==$" + "A" * 43 + "=", "{scrypt}01$8$1$" + "A" * 22 + "==$" + "A" * 43 + "=",
    ],
)  # fmt: skip
def test_an_invalid_line_is_not_taken_for_a_password(tmp_path: Path, value: str) -> None:
    (tmp_path / "users").write_text(f"ann: {value}\n")
    with pytest.raises(ConfigError, match=r"users: user ann: ") as caught:
        read_users(tmp_path / "users")
    assert "rabbit" not in str(caught.value)


def test_users_file_of_connect(tmp_path: Path) -> None:
    (tmp_path / "users").write_bytes("ann={viewer}rabbit\nb\\:c=\xfc".encode("latin-1"))
    assert read_users(tmp_path / "users", of_connect=True) == plain_users({"ann": "{viewer}rabbit", "b:c": "ü"})


def test_hash_password_prints_a_line_of_the_file(tmp_path: Path) -> None:
    made = CliRunner().invoke(cli, ["hash-password", "é =", "--role", "viewer"], input="pass word\n")
    assert made.exit_code == 0, made.output
    (tmp_path / "users").write_text(made.stdout)
    (user,) = read_users(tmp_path / "users").values()
    assert (user.name, user.role, user.has("pass word")) == ("é =", "viewer", True)
    assert CliRunner().invoke(cli, ["hash-password", "a:b"], input="x\n").exit_code == 2
    assert CliRunner().invoke(cli, ["hash-password", "a"], input="\n").exit_code == 2


def test_a_viewer_can_read_but_not_change(
    worker: RecordingWorker, users: dict[str, User], caplog: pytest.LogCaptureFixture
) -> None:
    worker.configs["c"] = {"name": "c", "source.cluster.sasl.jaas.config": SECRET}
    caplog.set_level(logging.INFO, "twinlog.http")
    with Server(app.build(worker, FlowBoard([]), users=users, mask=False), port=0) as server:
        for path in ("/connectors", "/metrics", "/twinlog/flows", "/connectors/c/status", "/"):
            assert as_user(server, "GET", path, "vic:hole").status == 200, path
        for method, path in (
            ("PUT", "/connectors/c/pause"), ("DELETE", "/connectors/c"), ("PATCH", "/connectors/c/config"),
            ("DELETE", "/connectors/a%2Fconfig%2Fvalidate"), ("PUT", "/admin/loggers/x%2Fconfig%2Fvalidate"),
            ("PUT", "/admin/loggers/%2Fconnector-plugins%2Fx%2Fconfig%2Fvalidate"),
            ("POST", "/connectors"), ("PUT", "/admin/loggers/root"), ("DELETE", "/connectors/c/offsets"),
        ):  # fmt: skip
            answer = as_user(server, method, path, "vic:hole", {})
            assert (answer.status, answer.json["message"]) == (
                403,
                "user vic: role viewer is read-only; changes need the role operator",
            )
        assert as_user(server, "PUT", "/connector-plugins/MirrorSource/config/validate", "vic:hole", {}).status == 500
        assert not worker.calls
        assert not [each for each in caplog.records if " by vic " in each.getMessage()]
        for path in ("/connectors/c", "/connectors/c/config", "/connectors?expand=info"):
            assert SECRET not in as_user(server, "GET", path, "bob:builder").body.decode()
            assert SECRET in as_user(server, "GET", path, "ann:rabbit").body.decode()
        assert as_user(server, "PUT", "/connectors/c/pause", "ann:rabbit").status == 202
    assert "PUT /connectors/c/pause by ann from 127.0.0.1: 202" in [each.getMessage() for each in caplog.records]


def test_changes_without_a_login_are_logged(worker: RecordingWorker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "twinlog.http")
    with Server(app.build(worker), port=0) as server:
        send(server.url, "GET", "/connectors")
        send(server.url, "PUT", "/connector-plugins/MirrorSource/config/validate", {})
        send(server.url, "PUT", "/connectors/c%0Ad/pause")
    messages = [each.getMessage() for each in caplog.records if each.name == "twinlog.http"]
    assert messages == ["PUT /connectors/c%0Ad/pause by anonymous (no login) from 127.0.0.1: 202"]


@pytest.mark.parametrize("hashed", [False, True])
def test_failed_logins_are_delayed_and_logged(
    worker: RecordingWorker,
    users: dict[str, User],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    hashed: bool,
) -> None:
    monkeypatch.setattr("twinlog.http.logins.delay", lambda failures: 1000.0 if failures >= 3 else 0.0)
    known = users if hashed else plain_users({"ann": "rabbit", "vic": "hole"})
    with Server(app.build(worker, users=known), port=0) as server:
        found = [as_user(server, "GET", "/connectors", f"ann:{SECRET}").status for _ in range(4)]
        assert found == [401, 401, 401, 429]
        refused = as_user(server, "GET", "/connectors", "ann:rabbit")
        assert refused.status == 429, "otherwise the delay would reveal that a guess was right"
        assert int(refused.headers["retry-after"]) > 900
        assert as_user(server, "GET", "/connectors", "vic:hole").status == 200, (
            "other users at that address are not delayed"
        )
        found = [as_user(server, "GET", "/connectors", f"{SECRET}{n}:x").status for n in range(4)]
        assert found == [401, 401, 401, 429], "unknown names share one delay"
        assert send(server.url, "GET", "/connectors").status == 401
    messages = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert messages[0] == "login failed: user ann from 127.0.0.1: wrong user name or password (1 in a row)"
    assert messages[3] == "login failed: unknown user from 127.0.0.1: wrong user name or password (1 in a row)"
    assert len(messages) == 6
    assert SECRET not in caplog.text


def test_delays_grow_to_a_maximum() -> None:
    assert [delay(n) for n in (0, 4, 5, 6, 8, 20, 5000)] == [0, 0, 1, 2, 8, 30, 30]
    failures = Failures()
    who = ("10.0.0.1", "ann")
    assert [failures.add(who, 100.0) for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert failures.wait(who, 101.0) == 1.0
    assert failures.wait(("10.0.0.2", "ann"), 101.0) == 0
    assert failures.wait(who, 102.0) == 0
    assert failures.add(who, 2000.0) == 1, "long ago"
    failures.clear(who)
    assert failures.add(who, 2001.0) == 1
    for n in range(20_000):
        failures.add((str(n), ""), 3000.0)
    assert len(failures._known) == 10_000


@pytest.mark.parametrize(
    ("address", "found"),
    [("10.0.0.1", "10.0.0.1"), ("fd00::1:2:3:4", "fd00::/64"), ("::ffff:10.0.0.1", "10.0.0.1"), ("x", "x")],
)
def test_an_ipv6_address_counts_as_its_network(address: str, found: str) -> None:
    assert network(address) == found


def test_logins_off_loopback_need_tls(worker: RecordingWorker, tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("ann: rabbit\n")
    with pytest.raises(ConfigError, match=r"logins on 0\.0\.0\.0 without TLS.*--tls-cert, or --insecure-http"):
        setup.server(worker, FlowBoard([]), None, HttpOptions("0.0.0.0", 0, users=file))
    with pytest.raises(ConfigError, match="without TLS"):
        setup.server(worker, FlowBoard([]), None, HttpOptions("0.0.0.0", 0), file_users=file)
    for options in (
        HttpOptions("127.0.0.1", 0, users=file),
        HttpOptions("0.0.0.0", 0, users=file, insecure=True),
    ):
        with setup.server(worker, FlowBoard([]), None, options) as server:
            assert send(f"http://127.0.0.1:{server.port}", "GET", "/connectors").status == 401


def test_users_and_admin_setting_of_the_worker_file(worker: RecordingWorker, tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("ann={viewer}rabbit\n")
    options = HttpOptions(port=0)
    with setup.server(worker, FlowBoard([]), None, options, file_users=file, admin=False) as server:
        assert as_user(server, "GET", "/connectors", "ann:rabbit").status == 401
        assert as_user(server, "PUT", "/connectors/c/pause", "ann:{viewer}rabbit").status == 202
        assert as_user(server, "GET", "/admin/loggers", "ann:{viewer}rabbit").status == 404


def test_mtls_requires_a_client_certificate(
    worker: RecordingWorker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog.http")
    authority = Authority(tmp_path)
    files, client = authority.server(), authority.client("carol")
    context = tls_context(files.certificate, files.key, authority.ca)
    without_certificate = ssl.create_default_context(cafile=str(authority.ca))
    carol = ssl.create_default_context(cafile=str(authority.ca))
    carol.load_cert_chain(client.certificate, client.key)
    with Server(app.build(worker), host="localhost", port=0, tls=context) as server:
        with pytest.raises((ssl.SSLError, ConnectionError, socket.error)):
            send(server.url, "GET", "/connectors", tls=without_certificate)
        assert send(server.url, "PUT", "/connectors/c/pause", tls=carol).status == 202
    assert any("by CN=carol" in each.getMessage() for each in caplog.records), caplog.text


def test_client_certificates_require_tls(worker: RecordingWorker, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--tls-client-ca requires --tls-cert"):
        setup.server(worker, FlowBoard([]), None, HttpOptions(port=0, client_ca=tmp_path / "ca.pem"))
