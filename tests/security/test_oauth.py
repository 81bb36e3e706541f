"""Tokens: where they come from, when they are renewed, what is said when there is none; on a real broker too."""

import base64
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from tests.security.driver import client, jaas, knock

from twinlog.errors import ConfigError, LockedError
from twinlog.lab.certificates import PASSWORD, Authority
from twinlog.lab.cluster import Cluster
from twinlog.lab.jvm import KafkaJvm
from twinlog.lab.listeners import OAUTH, OAUTH_TLS, Listener
from twinlog.lab.ports import free_port
from twinlog.lab.tokens import TokenIssuer
from twinlog.security import oauth_strimzi, oauth_tokens
from twinlog.security.oauth_tokens import Keeper, Refresh, Token, renewal
from twinlog.security.sasl import login

PACKAGE = "org.apache.kafka.common.security.oauthbearer."
QUICK = {"sasl.login.retry.backoff.ms": "5", "sasl.login.retry.backoff.max.ms": "40"}


def jwt(**claims: object) -> str:
    made = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (*made, b"signature"))


def parts(token: str) -> list[dict[str, Any]]:
    return [json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2]]


def settings(url: str, options: dict[str, str] | None = None, **more: str) -> dict[str, str]:
    found = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": jaas("oauthbearer.OAuthBearer", **(options or {})),
        "sasl.login.callback.handler.class": f"{PACKAGE}OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": url,
        **QUICK,
    }
    return found | {key.replace("_", "."): text for key, text in more.items()}


ALICE = {"clientId": "alice", "clientSecret": "hunter2"}


def bearer(properties: dict[str, str]) -> str:
    """The token that a broker would get."""
    said = login(client(properties), "h").first()
    assert said.startswith(b"n,,\1auth=Bearer ")
    assert said.endswith(b"\1\1")
    return said.decode().removeprefix("n,,\1auth=Bearer ").partition("\1")[0]


class Desk:
    """A token endpoint that answers what it is told to, one answer after the other, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.asked: list[tuple[dict[str, str], str]] = []
        desk = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                desk.asked.append((dict(self.headers), body))
                status, content = desk.answers.pop(0) if len(desk.answers) > 1 else desk.answers[0]
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", f"{desk.url}/elsewhere")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def gives(self, *answers: tuple[int, Any]) -> None:
        self.answers = [
            (status, content if isinstance(content, bytes) else json.dumps(content).encode())
            for status, content in answers
        ]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()


# When a token is renewed


@pytest.mark.parametrize(
    ("issued", "expires", "luck", "due"),
    [
        (0.0, 3600.0, 0.0, 2880.0),  # 80 % of its life
        (0.0, 3600.0, 1.0, 3060.0),
        (None, 3600.0, 0.0, 2880.0),
        (-3000.0, 600.0, 0.0, 60.0),  # 80 % of its life are over, but not more often than once a minute
        (0.0, 1200.0, 1.0, 900.0),  # 300 s before its end
        (0.0, 300.0, 0.0, 240.0),  # too short for margins
        (None, None, 0.0, 300.0),
    ],
)
def test_renewal_is_kafkas(issued: float | None, expires: float | None, luck: float, due: float) -> None:
    assert renewal(Token("t", "", issued, expires), 0.0, Refresh(), luck) == pytest.approx(due)


class Spring:
    """A source whose tokens live for 100 s of a clock that stands still."""

    def __init__(self) -> None:
        self.now = 0.0
        self.fetched = 0
        self.dry = False

    def clock(self) -> float:
        return self.now

    def fetch(self) -> Token:
        if self.dry:
            raise LockedError("no water", heals=True)
        self.fetched += 1
        return Token(f"token-{self.fetched}", expires=self.now + 100)

    def keeper(self) -> Keeper:
        return Keeper(self, Refresh(jitter=0.0), self.clock)


def test_a_token_is_shared_until_it_is_due() -> None:
    spring = Spring()
    keeper = spring.keeper()
    first, fresh = keeper.token()
    assert fresh
    spring.now = 79
    assert keeper.token() == (first, False)
    spring.now = 81
    assert keeper.token() == (Token("token-2", expires=181), True)


def test_a_renewal_that_fails_leaves_the_old_token_in_use() -> None:
    spring = Spring()
    keeper = spring.keeper()
    first, _ = keeper.token()
    spring.now, spring.dry = 81, True
    assert keeper.token() == (first, False)
    spring.now, spring.dry = 85, False
    assert keeper.token() == (first, False)  # not asked again so soon
    spring.now = 92
    assert keeper.token()[0].value == "token-2"
    spring.now, spring.dry = 300, True
    with pytest.raises(LockedError, match="no water"):
        keeper.token()


def test_a_refused_token_is_not_used_again() -> None:
    keeper = Spring().keeper()
    first, _ = keeper.token()
    keeper.drop(first)
    second, fresh = keeper.token()
    assert (second.value, fresh) == ("token-2", True)
    keeper.drop(first)  # somebody was late
    assert keeper.token() == (second, False)


def test_many_threads_ask_once_and_fail_once() -> None:
    spring = Spring()
    gate = threading.Event()
    calls = []

    class Slow:
        def fetch(self) -> Token:
            calls.append(1)
            gate.wait(10)
            spring.now += 1
            return spring.fetch()

    for dry in (False, True):
        gate.clear()
        calls.clear()
        spring.dry = dry
        keeper = Keeper(Slow(), Refresh(), spring.clock)
        found: list[object] = []

        def ask(keeper: Keeper = keeper, found: list[object] = found) -> None:
            try:
                found.append(keeper.token()[0].value)
            except LockedError as error:
                found.append(str(error))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        while not calls:
            time.sleep(0.001)
        gate.set()
        for thread in threads:
            thread.join(10)
        assert len(found) == 8
        assert len(set(found)) == 1


# From a file


def test_a_file_is_read_for_every_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    given = settings(f"file://{file}")
    for name in ("alice", "bob"):
        file.write_text(f"\n{jwt(sub=name, exp=1)}\n")
        assert bearer(given) == jwt(sub=name, exp=1)
    given["sasl.oauthbearer.jwt.retriever.class"] = f"{PACKAGE}FileJwtRetriever"
    assert bearer(given) == jwt(sub="bob", exp=1)


@pytest.mark.parametrize("content", [None, b"", b"two tokens", b"tok\1en", b"\xff", b"x" * (1 << 19)])
def test_a_file_without_a_token(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(LockedError) as caught:
        login(client(settings(f"file:{file}")), "h")
    assert str(file) in str(caught.value)
    assert len(str(caught.value)) < 300
    assert caught.value.heals  # whoever writes it may be late


# From a token endpoint


def test_client_credentials_are_asked_for_as_kafka_does(desk: Desk) -> None:
    desk.gives((200, {"access_token": jwt(sub="alice", exp=time.time() + 3600)}))
    token = bearer(settings(desk.url, {**ALICE, "scope": "a b"}))
    assert parts(token)[1]["sub"] == "alice"
    headers, body = desk.asked[0]
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"alice:hunter2").decode()
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert headers["Accept"] == "application/json"
    assert body == "grant_type=client_credentials&scope=a b"
    assert bearer(settings(desk.url, {**ALICE, "scope": "a b"})) == token
    assert len(desk.asked) == 1  # shared


def test_newer_settings_beat_jaas_options(desk: Desk) -> None:
    desk.gives((201, {"id_token": jwt(sub="bob", exp=time.time() + 3600)}))
    given = settings(desk.url, {**ALICE, "scope": "old"}) | {
        "sasl.oauthbearer.client.credentials.client.id": "b:b ",
        "sasl.oauthbearer.client.credentials.client.secret": "s~*/ü",
        "sasl.oauthbearer.scope": "api://x",
        "sasl.oauthbearer.header.urlencode": "true",
        "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}ClientCredentialsJwtRetriever",
    }
    bearer(given)
    headers, body = desk.asked[0]
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"b%3Ab:s%7E*%2F%C3%BC"
    assert body == "grant_type=client_credentials&scope=api%3A%2F%2Fx"


def test_a_handler_need_not_be_named(desk: Desk) -> None:
    desk.gives((200, {"access_token": "opaque", "expires_in": 60}))
    given = settings(desk.url, ALICE)
    del given["sasl.login.callback.handler.class"]
    assert bearer(given) == "opaque"


@pytest.mark.parametrize(
    ("answer", "said", "heals", "asked"),
    [
        ((401, {"error": "invalid_client", "error_description": "not\nhunter2"}), "refuses a token (HTTP 401, invalid_client: not ********)", False, False),
        ((400, {"errorCode": "E1", "errorSummary": "no"}), "refuses a token (HTTP 400, E1: no)", False, False),
        ((404, b"<html>"), "refuses a token (HTTP 404, without a reason)", False, False),
        ((302, b""), "sends us elsewhere (HTTP 302)", False, False),
        ((503, b"[" * 100_000), "has no token now (HTTP 503, without a reason)", True, True),
        ((429, {"error": 5}), "has no token now (HTTP 429", True, True),
        ((200, b""), "answers without a token", False, False),
        ((200, {"access_token": 5, "id_token": " "}), "answers without a token", False, False),
        ((200, {"access_token": "a\1b"}), "is not a token", True, True),
        ((200, b"x" * (1 << 20)), "answer is too long", True, True),
    ],
)  # fmt: skip
def test_an_endpoint_that_gives_no_token(
    desk: Desk, answer: tuple[int, Any], said: str, heals: bool, asked: bool
) -> None:
    desk.gives(answer)
    with pytest.raises(LockedError) as caught:
        login(client(settings(f"{desk.url}/token?secret=hunter2", ALICE)), "h")
    assert said in str(caught.value)
    assert caught.value.heals is heals
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert (len(desk.asked) > 1) is asked  # retried where time may heal it


def test_an_endpoint_that_recovers(desk: Desk) -> None:
    desk.gives((500, b""), (200, {"access_token": "opaque"}))
    assert bearer(settings(desk.url, ALICE)) == "opaque"


def test_nobody_answers() -> None:
    with pytest.raises(LockedError, match=r"http://127\.0\.0\.1:\d+/ does not answer \(Connection refused\)") as caught:
        login(client(settings(f"http://127.0.0.1:{free_port()}/", ALICE)), "h")
    assert caught.value.heals


def test_somebody_listens_and_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        url = f"http://127.0.0.1:{door.getsockname()[1]}/"
        given = settings(url, ALICE) | {"sasl.login.read.timeout.ms": "50", "sasl.login.retry.backoff.max.ms": "5"}
        with pytest.raises(LockedError, match=r"does not answer \(timed out\)") as caught:
            login(client(given), "h")
    assert caught.value.heals


def test_over_tls_with_the_trust_of_the_login_module(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ours")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server().certificate, authority.server().key)
    issuer = TokenIssuer({"alice": "hunter2"}, context=context)
    try:
        trust = {"ssl.truststore.type": "PKCS12", "ssl.truststore.password": PASSWORD}
        given = {**ALICE, **trust, "ssl.truststore.location": str(authority.truststore)}
        assert parts(bearer(settings(issuer.endpoints.token, given)))[1]["sub"] == "alice"
        for other in ({}, {**trust, "ssl.truststore.location": str(Authority(tmp_path / "other").truststore)}):
            with pytest.raises(LockedError, match="its certificate is not trusted") as caught:
                login(client(settings(issuer.endpoints.token, {**ALICE, **other})), "h")
            assert not caught.value.heals
    finally:
        issuer.close()


# With an assertion


@pytest.fixture(params=["RS256", "ES256"])
def key(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Any, Path]:
    made: Any = (
        rsa.generate_private_key(65537, 2048) if request.param == "RS256" else ec.generate_private_key(ec.SECP256R1())
    )
    file = tmp_path / "key.pem"
    lock = BestAvailableEncryption(b"open sesame")
    file.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock))
    return request.param, made.public_key(), file


def check(algorithm: str, public: Any, assertion: str) -> None:
    content, _, signature = assertion.rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    if algorithm == "RS256":
        public.verify(raw, content.encode(), padding.PKCS1v15(), hashes.SHA256())
    else:
        numbers = (int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
        public.verify(encode_dss_signature(*numbers), content.encode(), ec.ECDSA(hashes.SHA256()))


def assertion_settings(url: str, algorithm: str, file: Path, **more: str) -> dict[str, str]:
    prefix = "sasl.oauthbearer.assertion."
    return settings(url) | {
        f"{prefix}algorithm": algorithm,
        f"{prefix}private.key.file": str(file),
        f"{prefix}private.key.passphrase": "open sesame",
        f"{prefix}claim.iss": "twinlog",
        f"{prefix}claim.jti.include": "true",
        **{prefix + name.replace("_", "."): text for name, text in more.items()},
    }


def test_a_signed_assertion_instead_of_a_secret(desk: Desk, key: tuple[str, Any, Path], tmp_path: Path) -> None:
    algorithm, public, file = key
    desk.gives((200, {"access_token": "opaque"}))
    template = tmp_path / "template.json"
    template.write_text('{"header": {"kid": "k1"}, "payload": {"iss": "overruled", "tenant": 7}}')
    given = assertion_settings(desk.url, algorithm, file, template_file=str(template), claim_aud="https://x")
    bearer(given | {"sasl.oauthbearer.scope": "a b", "sasl.oauthbearer.client.credentials.client.id": "c"})
    headers, body = desk.asked[0]
    assert "Authorization" not in headers
    form = {name: values[0] for name, values in parse_qs(body).items()}
    assertion = form.pop("client_assertion")
    assert form == {
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "grant_type": "client_credentials",
        "client_id": "c",
        "scope": "a b",
    }
    check(algorithm, public, assertion)
    header, payload = parts(assertion)
    assert header == {"kid": "k1", "alg": algorithm, "typ": "JWT"}
    assert payload["exp"] - payload["iat"] == 300
    assert payload["iat"] - payload["nbf"] == 60
    assert (payload["iss"], payload["aud"], payload["tenant"]) == ("overruled", "https://x", 7)
    assert payload["jti"]


def test_the_jwt_bearer_grant(desk: Desk, key: tuple[str, Any, Path]) -> None:
    algorithm, public, file = key
    desk.gives((200, {"access_token": "opaque"}))
    retriever = {"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}JwtBearerJwtRetriever"}
    bearer(assertion_settings(desk.url, algorithm, file) | retriever)
    form = {name: values[0] for name, values in parse_qs(desk.asked[0][1]).items()}
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    check(algorithm, public, form["assertion"])


def test_an_assertion_from_a_file(desk: Desk, tmp_path: Path) -> None:
    desk.gives((200, {"access_token": "opaque"}))
    file = tmp_path / "assertion"
    file.write_text(jwt(iss="x") + "\n")
    bearer(settings(desk.url) | {"sasl.oauthbearer.assertion.file": str(file)})
    assert parse_qs(desk.asked[0][1])["client_assertion"] == [jwt(iss="x")]


def test_keys_that_cannot_sign(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    given = assertion_settings(desk.url, "RS256", file)
    with pytest.raises(ConfigError, match="No such file"):
        login(client(given), "h")
    file.write_text("hunter2")
    with pytest.raises(ConfigError, match=r"is no PKCS#8 key in PEM, or the passphrase is wrong") as caught:
        login(client(given), "h")
    assert "hunter2" not in str(caught.value)
    wrong = ec.generate_private_key(ec.SECP256R1())
    file.write_bytes(wrong.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    del given["sasl.oauthbearer.assertion.private.key.passphrase"]
    with pytest.raises(ConfigError, match="has no key for RS256"):
        login(client(given), "h")


# Settings that cannot work


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": ""}, ALICE, "sasl.oauthbearer.token.endpoint.url is missing"),
        ({"sasl.oauthbearer.token.endpoint.url": "ftp://hunter2@x/"}, ALICE, "is not an address that begins with"),
        ({"sasl.oauthbearer.token.endpoint.url": "https:///x"}, ALICE, "is not an address that begins with"),
        ({"sasl.oauthbearer.jwt.retriever.class": "com.acme.R"}, ALICE, "com.acme.R is Java code"),
        ({"sasl.login.callback.handler.class": "com.acme.H"}, ALICE, "com.acme.H is Java code"),
        ({"sasl.client.callback.handler.class": "com.acme.H"}, ALICE, "com.acme.H is Java code"),
        ({}, {"clientId": "alice"}, "client.secret is missing (or clientSecret in sasl.jaas.config)"),
        ({}, {"clientSecret": "hunter2", "clientId": " "}, "client.id is missing (or clientId in sasl.jaas.config)"),
        ({}, {**ALICE, "extension_auth": "hunter2"}, "extension_* is for names of letters other than auth"),
        ({}, {**ALICE, "extension_a1": "hunter2"}, "extension_* is for names of letters"),
        ({}, {**ALICE, "extension_a": "ü"}, "values that are ASCII"),
        ({"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}JwtBearerJwtRetriever"}, ALICE, "assertion.private.key.file is missing"),
    ],
)  # fmt: skip
def test_settings_that_cannot_work(change: dict[str, str], options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        login(client(settings("https://example.invalid/", options) | change), "h")
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


# What goes to the broker, judged by Kafka's own classes


def test_extensions_go_along(desk: Desk) -> None:
    desk.gives((200, {"access_token": "opaque"}))
    said = login(
        client(settings(desk.url, {**ALICE, "extension_cluster": "lkc-1", "extension_pool": "p q"})), "h"
    ).first()
    assert said == b"n,,\1auth=Bearer opaque\1cluster=lkc-1\1pool=p q\1\1"


@pytest.mark.java
def test_kafka_understands_what_a_broker_is_sent(kafka_jvm: KafkaJvm, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(jwt(sub="alice", exp=1))
    said = login(client(settings(f"file://{file}", {"extension_a": "x=y"})), "h").first()
    read = kafka_jvm.jvm.org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerClientInitialResponse(said)
    assert read.tokenValue() == jwt(sub="alice", exp=1)
    assert kafka_jvm.strings(read.extensions().map()) == {"a": "x=y"}


UNSIGNED = {
    "unsecuredLoginStringClaim_sub": "alice",
    "unsecuredLoginNumberClaim_level": "7",
    "unsecuredLoginListClaim_scope": "|a|b",
    "unsecuredLoginLifetimeSeconds": "60",
    "unsecuredLoginExtension_trace": "1",
}


@pytest.mark.java
def test_kafkas_server_takes_an_unsigned_token(kafka_jvm: KafkaJvm) -> None:
    given = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas("oauthbearer.OAuthBearer", **UNSIGNED)}
    said = login(client(given), "h").first()
    java, internals = kafka_jvm.jvm.java.util, kafka_jvm.jvm.org.apache.kafka.common.security.oauthbearer.internals
    response = internals.OAuthBearerClientInitialResponse(said)
    assert kafka_jvm.strings(response.extensions().map()) == {"trace": "1"}
    token = internals.unsecured.OAuthBearerUnsecuredJws(response.tokenValue(), "sub", "scope")
    assert token.principalName() == "alice"
    assert sorted(token.scope()) == ["a", "b"]
    assert token.lifetimeMs() - token.startTimeMs() == 60_000
    handler = internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler()
    entry = kafka_jvm.jvm.javax.security.auth.login.AppConfigurationEntry
    flag = (
        kafka_jvm._class("javax.security.auth.login.AppConfigurationEntry$LoginModuleControlFlag")
        .getField("REQUIRED")
        .get(None)
    )
    handler.configure(java.HashMap(), "OAUTHBEARER", java.List.of(entry("x", flag, kafka_jvm.map({"a": "b"}))))
    callback = kafka_jvm.jvm.org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback(
        response.tokenValue()
    )
    callbacks = kafka_jvm._gateway.new_array(kafka_jvm.jvm.javax.security.auth.callback.Callback, 1)
    callbacks[0] = callback
    handler.handle(callbacks)
    assert callback.errorStatus() is None
    assert callback.token().principalName() == "alice"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "OAUTHBEARER has no token: set sasl.oauthbearer.token.endpoint.url"),
        ({"unsecuredLoginStringClaim_name": "alice"}, 'unsecuredLoginStringClaim_sub="..."'),
        ({**UNSIGNED, "unsecuredLoginStringClaim_exp": "1"}, "iat and exp are reckoned"),
        ({**UNSIGNED, "unsecuredLoginNumberClaim_level": "high"}, "are numbers"),
        ({**UNSIGNED, "unsecuredLoginLifetimeSeconds": "1h"}, "are numbers"),
    ],
)
def test_unsigned_tokens_that_cannot_be(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        login(
            client({"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas("oauthbearer.OAuthBearer", **options)}),
            "h",
        )
    assert said in str(caught.value)


# Strimzi's handler


def strimzi(**options: str) -> dict[str, str]:
    named = {f"oauth.{name.replace('_', '.')}": text for name, text in options.items()}
    return settings("") | {
        "sasl.jaas.config": jaas("oauthbearer.OAuthBearer", **named),
        "sasl.login.callback.handler.class": oauth_strimzi.HANDLER,
    }


@pytest.mark.parametrize(
    ("options", "authorization", "form"),
    [
        (
            {"client_secret": "hunter2", "scope": "s t", "audience": "kafka"},
            "Basic YWxpY2U6aHVudGVyMg==",
            {"grant_type": "client_credentials", "scope": "s t", "audience": "kafka"},
        ),
        ({"refresh_token": "r"}, None, {"grant_type": "refresh_token", "refresh_token": "r", "client_id": "alice"}),
        (
            {"password_grant_username": "u", "password_grant_password": "p"},
            None,
            {"grant_type": "password", "username": "u", "password": "p", "client_id": "alice"},
        ),
        (
            {"client_assertion": "a.b.c"},
            None,
            {
                "grant_type": "client_credentials",
                "client_assertion": "a.b.c",
                "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                "client_id": "alice",
            },
        ),
    ],
)
def test_strimzis_grants(desk: Desk, options: dict[str, str], authorization: str | None, form: dict[str, str]) -> None:
    desk.gives((200, {"access_token": "opaque"}))
    assert bearer(strimzi(token_endpoint_uri=desk.url, client_id="alice", **options)) == "opaque"
    headers, body = desk.asked[0]
    assert headers.get("Authorization") == authorization
    assert {name: values[0] for name, values in parse_qs(body).items()} == form


def test_strimzis_ready_tokens(tmp_path: Path) -> None:
    assert bearer(strimzi(access_token="abc")) == "abc"
    (tmp_path / "token").write_text("def")
    assert bearer(strimzi(access_token_location=str(tmp_path / "token"))) == "def"
    with pytest.raises(ConfigError, match=r"oauth\.token\.endpoint\.uri is missing"):
        login(client(strimzi(client_id="alice")), "h")
    with pytest.raises(ConfigError, match=r"oauth\.client\.secret is missing"):
        login(client(strimzi(client_id="alice", token_endpoint_uri="http://x/")), "h")


# On a real broker


@pytest.mark.broker
@pytest.mark.parametrize("listener", [OAUTH, OAUTH_TLS], ids=lambda listener: listener.name)
def test_a_broker_lets_us_in(secure: Cluster, listener: Listener) -> None:
    lifetime = knock(secure, listener, secure.client_properties(listener, "alice"))
    assert 0 < lifetime <= 3600_000  # not longer than the token lives


@pytest.mark.broker
def test_a_broker_takes_a_token_from_a_file(secure: Cluster, tmp_path: Path) -> None:
    assert secure.issuer is not None
    file = tmp_path / "token"
    file.write_text(secure.issuer.token("bob"))
    assert knock(secure, OAUTH, settings(f"file://{file}")) > 0


@pytest.mark.broker
def test_a_wrong_secret_gets_no_token(secure: Cluster) -> None:
    given = secure.client_properties(OAUTH, "alice")
    given["sasl.jaas.config"] = given["sasl.jaas.config"].replace("alice-secret", "hunter2")
    with pytest.raises(LockedError, match=r"refuses a token \(HTTP 401, invalid_client\)") as caught:
        knock(secure, OAUTH, given)
    assert not caught.value.heals


@pytest.mark.broker
def test_an_expired_token(secure: Cluster, tmp_path: Path) -> None:
    assert secure.issuer is not None
    file = tmp_path / "token"
    file.write_text(secure.issuer.token("bob", lifetime=-600))
    with pytest.raises(LockedError) as caught:
        knock(secure, OAUTH, settings(f"file://{file}"))
    assert f"the token of 'bob' from {file} is refused (invalid_token): it expired 60" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.heals  # the file may be written anew


@pytest.mark.broker
def test_a_token_of_another_issuer(secure: Cluster) -> None:
    stranger = TokenIssuer({"alice": "alice-secret"})
    try:
        given = secure.client_properties(OAUTH, "alice") | {
            "sasl.oauthbearer.token.endpoint.url": stranger.endpoints.token
        }
        with pytest.raises(LockedError) as caught:
            knock(secure, OAUTH, given)
    finally:
        stranger.close()
    assert "the token of 'alice' from http://127.0.0.1:" in str(caught.value)
    assert "is refused (invalid_token): check that the broker trusts its issuer" in str(caught.value)
    assert not caught.value.heals


@pytest.mark.broker
def test_a_token_that_was_good_before_is_asked_for_anew(secure: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert secure.issuer is not None
    given = secure.client_properties(OAUTH, "carol")
    tokens: Callable[[str], str] = secure.issuer.token
    stranger = TokenIssuer({})
    stranger.close()
    monkeypatch.setattr(secure.issuer, "token", stranger.token)
    exchange = login(client(given), "h")  # not sent, but kept: as if the broker's keys were changed after it was
    monkeypatch.setattr(secure.issuer, "token", tokens)
    with pytest.raises(LockedError, match="the next login asks for another") as caught:
        knock(secure, OAUTH, given)
    assert caught.value.heals
    assert knock(secure, OAUTH, given) > 0
    assert exchange.mechanism == "OAUTHBEARER"


def test_nothing_shows_a_secret(desk: Desk) -> None:
    desk.gives((200, {"access_token": "s3cret-token"}))
    given = settings(desk.url, ALICE)
    exchange = login(client(given), "h")
    shown = f"{exchange!r} {vars(exchange)!r} {oauth_tokens.token('s3cret-token', 'x')!r}"
    assert "s3cret-token" not in shown
    assert "hunter2" not in shown
