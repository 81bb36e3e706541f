"""OAuth tokens: their sources, renewal and errors; also on a real broker."""

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

from lab.certificates import PASSWORD, Authority
from lab.cluster import Cluster
from lab.kafka_classes import KafkaJvm
from lab.listeners import OAUTH, OAUTH_TLS, Listener
from lab.oauth_server import TokenIssuer
from lab.ports import free_port
from tests.security.driver import authenticate, client, jaas
from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security import oauth_strimzi, oauth_tokens
from twinlog.security.oauth_tokens import Refresh, Token, TokenCache, renewal
from twinlog.security.sasl import login

PACKAGE = "org.apache.kafka.common.security.oauthbearer."
QUICK = {"sasl.login.retry.backoff.ms": "5", "sasl.login.retry.backoff.max.ms": "400"}


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
    message = login(client(properties), "h").first()
    assert message.startswith(b"n,,\1auth=Bearer ")
    assert message.endswith(b"\1\1")
    return message.decode().removeprefix("n,,\1auth=Bearer ").partition("\1")[0]


class FakeEndpoint:
    """A token endpoint with prepared responses, one after the other; it records its requests."""

    def __init__(self) -> None:
        self.responses: list[tuple[int, bytes]] = []
        self.requests: list[tuple[dict[str, str], str]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.requests.append((dict(self.headers), body))
                status, content = endpoint.responses.pop(0) if len(endpoint.responses) > 1 else endpoint.responses[0]
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", f"{endpoint.url}/elsewhere")
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

    def respond_with(self, *responses: tuple[int, Any]) -> None:
        self.responses = [
            (status, content if isinstance(content, bytes) else json.dumps(content).encode())
            for status, content in responses
        ]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    made = FakeEndpoint()
    yield made
    made.close()


# When a token is renewed


@pytest.mark.parametrize(
    ("issued", "expires", "spread", "due"),
    [
        (0.0, 3600.0, 0.0, 2880.0),  # 80 % of its life
        (0.0, 3600.0, 1.0, 3060.0),
        (None, 3600.0, 0.0, 2880.0),
        (-3000.0, 600.0, 0.0, 60.0),  # more than 80 % of its lifetime has passed, but at most one renewal per minute
        (0.0, 1200.0, 1.0, 900.0),  # 300 s before its end
        (0.0, 300.0, 0.0, 240.0),  # too short for margins
        (None, None, 0.0, 300.0),
    ],
)
def test_renewal_is_kafkas(issued: float | None, expires: float | None, spread: float, due: float) -> None:
    assert renewal(Token("t", "", issued, expires), 0.0, Refresh(), spread) == pytest.approx(due)


class FakeSource:
    """A source of tokens valid for 100 s, with a manual clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.fetched = 0
        self.failing = False

    def clock(self) -> float:
        return self.now

    def fetch(self) -> Token:
        if self.failing:
            raise AuthenticationError("no token", retriable=True)
        self.fetched += 1
        return Token(f"token-{self.fetched}", expires=self.now + 100)

    def cache(self) -> TokenCache[Token]:
        return TokenCache(self, Refresh(jitter=0.0), self.clock)


def test_a_token_is_shared_until_it_is_due() -> None:
    source = FakeSource()
    cache = source.cache()
    first, fresh = cache.token()
    assert fresh
    source.now = 79
    assert cache.token() == (first, False)
    source.now = 81
    assert cache.token() == (Token("token-2", expires=181), True)


def test_a_renewal_that_fails_leaves_the_old_token_in_use() -> None:
    source = FakeSource()
    cache = source.cache()
    first, _ = cache.token()
    source.now, source.failing = 81, True
    assert cache.token() == (first, False)
    source.now, source.failing = 85, False
    assert cache.token() == (first, False)  # not asked again so soon
    source.now = 92
    assert cache.token()[0].value == "token-2"
    source.now, source.failing = 300, True
    with pytest.raises(AuthenticationError, match="no token"):
        cache.token()


def test_a_refused_token_is_not_used_again() -> None:
    cache = FakeSource().cache()
    first, _ = cache.token()
    cache.drop(first)
    second, fresh = cache.token()
    assert (second.value, fresh) == ("token-2", True)
    cache.drop(first)  # of another connection, later
    assert cache.token() == (second, False)


def test_many_threads_fetch_once_and_fail_once() -> None:
    source = FakeSource()
    gate = threading.Event()
    calls = []

    class Slow:
        def fetch(self) -> Token:
            calls.append(1)
            gate.wait(10)
            source.now += 1
            return source.fetch()

    for failing in (False, True):
        gate.clear()
        calls.clear()
        source.failing = failing
        cache = TokenCache(Slow(), Refresh(), source.clock)
        found: list[object] = []

        def ask(cache: TokenCache[Token] = cache, found: list[object] = found) -> None:
            try:
                found.append(cache.token()[0].value)
            except AuthenticationError as error:
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
    with pytest.raises(AuthenticationError) as caught:
        login(client(settings(f"file:{file}")), "h")
    assert str(file) in str(caught.value)
    assert len(str(caught.value)) < 300
    assert caught.value.retriable  # it may be written later


# From a token endpoint


def test_client_credentials_are_requested_as_by_kafka(endpoint: FakeEndpoint) -> None:
    endpoint.respond_with((200, {"access_token": jwt(sub="alice", exp=time.time() + 3600)}))
    token = bearer(settings(endpoint.url, {**ALICE, "scope": "a b"}))
    assert parts(token)[1]["sub"] == "alice"
    headers, body = endpoint.requests[0]
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"alice:hunter2").decode()
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert headers["Accept"] == "application/json"
    assert body == "grant_type=client_credentials&scope=a b"
    assert bearer(settings(endpoint.url, {**ALICE, "scope": "a b"})) == token
    assert len(endpoint.requests) == 1  # shared


def test_newer_settings_override_jaas_options(endpoint: FakeEndpoint) -> None:
    endpoint.respond_with((201, {"id_token": jwt(sub="bob", exp=time.time() + 3600)}))
    given = settings(endpoint.url, {**ALICE, "scope": "old"}) | {
        "sasl.oauthbearer.client.credentials.client.id": "b:b ",
        "sasl.oauthbearer.client.credentials.client.secret": "s~*/ü",
        "sasl.oauthbearer.scope": "api://x",
        "sasl.oauthbearer.header.urlencode": "true",
        "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}ClientCredentialsJwtRetriever",
    }
    bearer(given)
    headers, body = endpoint.requests[0]
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"b%3Ab:s%7E*%2F%C3%BC"
    assert body == "grant_type=client_credentials&scope=api%3A%2F%2Fx"


def test_without_a_handler_class(endpoint: FakeEndpoint) -> None:
    endpoint.respond_with((200, {"access_token": "opaque", "expires_in": 60}))
    given = settings(endpoint.url, ALICE)
    del given["sasl.login.callback.handler.class"]
    assert bearer(given) == "opaque"


@pytest.mark.parametrize(
    ("answer", "message", "retriable", "asked"),
    [
        ((401, {"error": "invalid_client", "error_description": "not\nhunter2"}), "token: HTTP 401, invalid_client: not ********; check", False, False),
        ((400, {"errorCode": "E1", "errorSummary": "no"}), "HTTP 400, E1: no; check", False, False),
        ((404, b"<html>"), "HTTP 404, no reason given; check", False, False),
        ((302, b""), "HTTP 302 (redirect)", False, False),
        ((503, b"[" * 100_000), "HTTP 503, no reason given; retrying", True, True),
        ((429, {"error": 5}), "HTTP 429", True, True),
        ((200, b""), "no token in the response of", False, False),
        ((200, {"access_token": 5, "id_token": " "}), "no token in the response of", False, False),
        ((200, {"access_token": "a\1b"}), "no valid token from", True, True),
        ((200, b"x" * (1 << 20)), "too large or too slow", True, True),
    ],
)  # fmt: skip
def test_an_endpoint_that_gives_no_token(
    endpoint: FakeEndpoint, answer: tuple[int, Any], message: str, retriable: bool, asked: bool
) -> None:
    endpoint.respond_with(answer)
    with pytest.raises(AuthenticationError) as caught:
        login(client(settings(f"{endpoint.url}/token?secret=hunter2", ALICE)), "h")
    assert message in str(caught.value)
    assert caught.value.retriable is retriable
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert (len(endpoint.requests) > 1) is asked  # retriable errors are retried


def test_an_endpoint_that_recovers(endpoint: FakeEndpoint) -> None:
    endpoint.respond_with((500, b""), (200, {"access_token": "opaque"}))
    assert bearer(settings(endpoint.url, ALICE)) == "opaque"


def test_an_unreachable_endpoint() -> None:
    with pytest.raises(
        AuthenticationError, match=r"http://127\.0\.0\.1:\d+/ is unreachable: Connection refused"
    ) as caught:
        login(client(settings(f"http://127.0.0.1:{free_port()}/", ALICE)), "h")
    assert caught.value.retriable


def test_an_endpoint_that_does_not_respond() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        given = settings(url, ALICE) | {"sasl.login.read.timeout.ms": "50", "sasl.login.retry.backoff.max.ms": "5"}
        with pytest.raises(AuthenticationError, match=r"is unreachable: timed out") as caught:
            login(client(given), "h")
    assert caught.value.retriable


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
            with pytest.raises(AuthenticationError, match=r"certificate of token endpoint .* is not trusted") as caught:
                login(client(settings(issuer.endpoints.token, {**ALICE, **other})), "h")
            assert not caught.value.retriable
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


def test_a_signed_assertion_instead_of_a_secret(
    endpoint: FakeEndpoint, key: tuple[str, Any, Path], tmp_path: Path
) -> None:
    algorithm, public, file = key
    endpoint.respond_with((200, {"access_token": "opaque"}))
    template = tmp_path / "template.json"
    template.write_text('{"header": {"kid": "k1"}, "payload": {"iss": "overruled", "tenant": 7}}')
    given = assertion_settings(endpoint.url, algorithm, file, template_file=str(template), claim_aud="https://x")
    bearer(given | {"sasl.oauthbearer.scope": "a b", "sasl.oauthbearer.client.credentials.client.id": "c"})
    headers, body = endpoint.requests[0]
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


def test_the_jwt_bearer_grant(endpoint: FakeEndpoint, key: tuple[str, Any, Path]) -> None:
    algorithm, public, file = key
    endpoint.respond_with((200, {"access_token": "opaque"}))
    retriever = {"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}JwtBearerJwtRetriever"}
    bearer(assertion_settings(endpoint.url, algorithm, file) | retriever)
    form = {name: values[0] for name, values in parse_qs(endpoint.requests[0][1]).items()}
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    check(algorithm, public, form["assertion"])


def test_an_assertion_from_a_file(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    endpoint.respond_with((200, {"access_token": "opaque"}))
    file = tmp_path / "assertion"
    file.write_text(jwt(iss="x") + "\n")
    bearer(settings(endpoint.url) | {"sasl.oauthbearer.assertion.file": str(file)})
    assert parse_qs(endpoint.requests[0][1])["client_assertion"] == [jwt(iss="x")]


def test_keys_that_cannot_sign(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    given = assertion_settings(endpoint.url, "RS256", file)
    with pytest.raises(ConfigError, match="No such file"):
        login(client(given), "h")
    file.write_text("hunter2")
    with pytest.raises(ConfigError, match=r"not a PKCS#8 key in PEM, or wrong passphrase") as caught:
        login(client(given), "h")
    assert "hunter2" not in str(caught.value)
    wrong = ec.generate_private_key(ec.SECP256R1())
    file.write_bytes(wrong.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    del given["sasl.oauthbearer.assertion.private.key.passphrase"]
    with pytest.raises(ConfigError, match="wrong key type for RS256"):
        login(client(given), "h")


# Settings that cannot work


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": ""}, ALICE, "sasl.oauthbearer.token.endpoint.url is missing"),
        ({"sasl.oauthbearer.token.endpoint.url": "ftp://hunter2@x/"}, ALICE, "not a URL; begin with"),
        ({"sasl.oauthbearer.token.endpoint.url": "https:///x"}, ALICE, "not a URL; begin with"),
        ({"sasl.oauthbearer.jwt.retriever.class": "com.acme.R"}, ALICE, "com.acme.R: Java classes cannot be run"),
        ({"sasl.login.callback.handler.class": "com.acme.H"}, ALICE, "com.acme.H: Java classes cannot be run"),
        ({"sasl.client.callback.handler.class": "com.acme.H"}, ALICE, "com.acme.H: Java classes cannot be run"),
        ({}, {"clientId": "alice"}, "client.secret is missing; set it, or clientSecret in sasl.jaas.config"),
        ({}, {"clientSecret": "hunter2", "clientId": " "}, "client.id is missing; set it, or clientId in sasl.jaas.config"),
        ({}, {**ALICE, "extension_auth": "hunter2"}, "invalid SASL extension extension_*; use letters (but not auth)"),
        ({}, {**ALICE, "extension_a1": "hunter2"}, "invalid SASL extension extension_*"),
        ({}, {**ALICE, "extension_a": "ü"}, "printable ASCII as its value"),
        ({"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}JwtBearerJwtRetriever"}, ALICE, "assertion.private.key.file is missing"),
    ],
)  # fmt: skip
def test_settings_that_cannot_work(change: dict[str, str], options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        login(client(settings("https://example.invalid/", options) | change), "h")
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)


# What is sent to the broker, checked by Kafka's own classes


def test_extensions_are_sent(endpoint: FakeEndpoint) -> None:
    endpoint.respond_with((200, {"access_token": "opaque"}))
    message = login(
        client(settings(endpoint.url, {**ALICE, "extension_cluster": "lkc-1", "extension_pool": "p q"})), "h"
    ).first()
    assert message == b"n,,\1auth=Bearer opaque\1cluster=lkc-1\1pool=p q\1\1"


@pytest.mark.java
def test_kafka_understands_what_a_broker_is_sent(kafka_jvm: KafkaJvm, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(jwt(sub="alice", exp=1))
    message = login(client(settings(f"file://{file}", {"extension_a": "x=y"})), "h").first()
    read = kafka_jvm.jvm.org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerClientInitialResponse(
        message
    )
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
    message = login(client(given), "h").first()
    java, internals = kafka_jvm.jvm.java.util, kafka_jvm.jvm.org.apache.kafka.common.security.oauthbearer.internals
    response = internals.OAuthBearerClientInitialResponse(message)
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
    ("options", "message"),
    [
        ({}, "OAUTHBEARER has no token source; set sasl.oauthbearer.token.endpoint.url"),
        ({"unsecuredLoginStringClaim_name": "alice"}, 'unsecuredLoginStringClaim_sub="..."'),
        ({**UNSIGNED, "unsecuredLoginStringClaim_exp": "1"}, "iat and exp are computed"),
        ({**UNSIGNED, "unsecuredLoginNumberClaim_level": "high"}, "is not a number"),
        ({**UNSIGNED, "unsecuredLoginLifetimeSeconds": "1h"}, "is not a number"),
    ],
)
def test_unsigned_tokens_with_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        login(
            client({"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas("oauthbearer.OAuthBearer", **options)}),
            "h",
        )
    assert message in str(caught.value)


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
def test_strimzis_grants(
    endpoint: FakeEndpoint, options: dict[str, str], authorization: str | None, form: dict[str, str]
) -> None:
    endpoint.respond_with((200, {"access_token": "opaque"}))
    assert bearer(strimzi(token_endpoint_uri=endpoint.url, client_id="alice", **options)) == "opaque"
    headers, body = endpoint.requests[0]
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
def test_login(secure: Cluster, listener: Listener) -> None:
    lifetime = authenticate(secure, listener, secure.client_properties(listener, "alice"))
    assert 0 < lifetime <= 3600_000  # not longer than the token lives


@pytest.mark.broker
def test_a_broker_takes_a_token_from_a_file(secure: Cluster, tmp_path: Path) -> None:
    assert secure.issuer is not None
    file = tmp_path / "token"
    file.write_text(secure.issuer.token("bob"))
    assert authenticate(secure, OAUTH, settings(f"file://{file}")) > 0


@pytest.mark.broker
def test_a_wrong_secret_gets_no_token(secure: Cluster) -> None:
    given = secure.client_properties(OAUTH, "alice")
    given["sasl.jaas.config"] = given["sasl.jaas.config"].replace("alice-secret", "hunter2")
    with pytest.raises(AuthenticationError, match=r"no token from .*: HTTP 401, invalid_client") as caught:
        authenticate(secure, OAUTH, given)
    assert not caught.value.retriable


@pytest.mark.broker
def test_an_expired_token(secure: Cluster, tmp_path: Path) -> None:
    assert secure.issuer is not None
    file = tmp_path / "token"
    file.write_text(secure.issuer.token("bob", lifetime=-600))
    with pytest.raises(AuthenticationError) as caught:
        authenticate(secure, OAUTH, settings(f"file://{file}"))
    assert f"token of 'bob' from {file} rejected: invalid_token (expired 60" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.retriable  # the file may be renewed


@pytest.mark.broker
def test_a_token_of_another_issuer(secure: Cluster) -> None:
    other_issuer = TokenIssuer({"alice": "alice-secret"})
    try:
        given = secure.client_properties(OAUTH, "alice") | {
            "sasl.oauthbearer.token.endpoint.url": other_issuer.endpoints.token
        }
        with pytest.raises(AuthenticationError) as caught:
            authenticate(secure, OAUTH, given)
    finally:
        other_issuer.close()
    assert "token of 'alice' from http://127.0.0.1:" in str(caught.value)
    assert "rejected: invalid_token; check that the broker trusts the token's issuer" in str(caught.value)
    assert not caught.value.retriable


@pytest.mark.broker
def test_a_cached_token_that_is_rejected_is_replaced(secure: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert secure.issuer is not None
    given = secure.client_properties(OAUTH, "carol")
    tokens: Callable[[str], str] = secure.issuer.token
    other_issuer = TokenIssuer({})
    other_issuer.close()
    monkeypatch.setattr(secure.issuer, "token", other_issuer.token)
    exchange = login(client(given), "h")  # not sent, but kept: as if the broker's keys were changed after it was
    monkeypatch.setattr(secure.issuer, "token", tokens)
    with pytest.raises(AuthenticationError, match="retrying with a new token") as caught:
        authenticate(secure, OAUTH, given)
    assert caught.value.retriable
    assert authenticate(secure, OAUTH, given) > 0
    assert exchange.mechanism == "OAUTHBEARER"


def test_nothing_shows_a_secret(endpoint: FakeEndpoint) -> None:
    endpoint.respond_with((200, {"access_token": "s3cret-token"}))
    given = settings(endpoint.url, ALICE)
    exchange = login(client(given), "h")
    shown = f"{exchange!r} {vars(exchange)!r} {oauth_tokens.token('s3cret-token', 'x')!r}"
    assert "s3cret-token" not in shown
    assert "hunter2" not in shown
