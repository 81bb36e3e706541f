"""Requests tokens from a token endpoint over HTTP, by client credentials (RFC 6749) and similar grants.

Redirects are not followed: they would send the secret to another server.
"""

import base64
import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard
from urllib.parse import quote_plus, urlsplit

from twinlog.config.flows import Client
from twinlog.config.values import FrozenMap, Origin, Value
from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security import ssl_context
from twinlog.security.jaas import KEY
from twinlog.security.limited_http import NoRedirects, cause_of, read_body
from twinlog.security.oauth_assertion import Assertion
from twinlog.security.oauth_tokens import Refresh, Token, token
from twinlog.text import one_line, redacted_url

# HTTP statuses that Kafka does not retry: the request or its credentials are wrong.
_NOT_RETRIABLE: Final = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505})


@dataclass(frozen=True, slots=True, repr=False)
class Grant:
    """The request: its form, the credentials of its header, and the form field of the assertion, if any."""

    form: str
    basic: str = ""
    assertion: Assertion | None = None
    assertion_field: str = ""
    secrets: tuple[str, ...] = ()  # masked if the endpoint quotes them

    def body(self) -> bytes:
        assertion = f"&{self.assertion_field}={form_text(self.assertion.make())}" if self.assertion else ""
        return (self.form + assertion).encode()

    def headers(self) -> dict[str, str]:
        found = {
            "Accept": "application/json",
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        if self.basic:
            found["Authorization"] = f"Basic {base64.b64encode(self.basic.encode()).decode()}"
        return found


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Everything that a request depends on: equal endpoints share a token."""

    url: str = field(repr=False)
    grant: Grant
    refresh: Refresh
    connect_seconds: float = 10.0
    read_seconds: float = 10.0
    backoff: float = 0.1
    backoff_max: float = 10.0
    trust: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # `ssl.*` settings of this endpoint only
    subject: str = "sub"

    @property
    def redacted_url(self) -> str:
        return redacted_url(self.url)

    def fetch(self) -> Token:
        """Requests a token, and retries with growing pauses for `sasl.login.retry.backoff.max.ms`."""
        end = time.monotonic() + self.backoff_max
        pause = self.backoff
        while True:
            try:
                return self._send()
            except AuthenticationError as error:
                left = end - time.monotonic()
                if not error.retriable or left <= 0:
                    raise
                time.sleep(min(pause, left))
                pause *= 2

    def _send(self) -> Token:
        try:
            request = urllib.request.Request(self.url, self.grant.body(), self.grant.headers())  # noqa: S310  (checked)
            with self._opener().open(request, timeout=self.connect_seconds) as response:
                return self._token(_read(response, self.read_seconds))
        except urllib.error.HTTPError as error:
            with error:
                raise self._failed(error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise AuthenticationError(
                    f"OAUTHBEARER: certificate of token endpoint {self.redacted_url} is not trusted: "
                    f"{one_line(reason.verify_message)}",
                    "set ssl.truststore.* in sasl.jaas.config, they apply to this endpoint only",
                ) from None
            raise AuthenticationError(
                f"OAUTHBEARER: token endpoint {self.redacted_url} is unreachable: {cause_of(error)}",
                "check the URL and the network",
                retriable=True,
            ) from None

    def _opener(self) -> urllib.request.OpenerDirector:
        return urllib.request.build_opener(NoRedirects, _Http(self), _Https(self))

    def context(self) -> ssl.SSLContext:
        """As in Kafka, the cluster's `ssl.*` settings do not apply here; without any, the system's CAs are trusted."""
        written = {key: Value(key, text, Origin("derived", key=f"{KEY}: {key}")) for key, text in self.trust}
        try:
            return ssl_context.context(Client("admin", FrozenMap(written)))
        except ValueError as error:  # a value of the wrong type
            raise ConfigError(f"{KEY}: invalid value of an ssl.* option: {error}", "correct it") from None

    def _token(self, content: bytes) -> Token:
        found = _json(content)
        value = next((found[key] for key in ("access_token", "id_token") if _filled(found.get(key))), None)
        if value is None:
            raise AuthenticationError(
                f"OAUTHBEARER: no token in the response of {self.redacted_url}", "check that it is a token endpoint"
            )
        lifetime = found.get("expires_in")
        known = isinstance(lifetime, int) and 0 < lifetime < 1e9
        return token(value, self.redacted_url, lifetime if known else None, self.subject)

    def _failed(self, error: urllib.error.HTTPError) -> AuthenticationError:
        try:
            found = _json(_read(error, self.read_seconds))
        except (OSError, http.client.HTTPException, AuthenticationError):
            found = {}
        details = [found.get(key) for key in ("error", "error_description", "errorCode", "errorSummary")]
        text = one_line(": ".join(each for each in details if _filled(each)), self.grant.secrets) or "no reason given"
        what = f"OAUTHBEARER: no token from {self.redacted_url}: HTTP {error.code}"
        if 300 <= error.code < 400:
            return AuthenticationError(f"{what} (redirect)", "set the URL of the token endpoint itself")
        if error.code in _NOT_RETRIABLE:
            return AuthenticationError(
                f"{what}, {text}", "check the client's id, secret and scope, and sasl.oauthbearer.token.endpoint.url"
            )
        return AuthenticationError(f"{what}, {text}", "retrying", retriable=True)


def checked_url(key: str, url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{key}: not a URL", "begin with https://, http:// or file://")
    return url


def form_text(text: str) -> str:
    """Encoded as by Java's URLEncoder."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def _set_read_timeout(connection: http.client.HTTPConnection, seconds: float) -> None:
    """Replaces the connect timeout once connected."""
    if connection.sock is not None:
        connection.sock.settimeout(seconds)


class _Http(urllib.request.HTTPHandler):
    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__()
        self._endpoint = endpoint

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        seconds = self._endpoint.read_seconds

        class Connection(http.client.HTTPConnection):
            def connect(self) -> None:
                super().connect()
                _set_read_timeout(self, seconds)

        return self.do_open(Connection, req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__()
        self._endpoint = endpoint

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        seconds = self._endpoint.read_seconds

        class Connection(http.client.HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                _set_read_timeout(self, seconds)

        return self.do_open(Connection, req, context=self._endpoint.context())


def _read(response: Any, seconds: float) -> bytes:
    what = "OAUTHBEARER: response of the token endpoint"
    return read_body(response, time.monotonic() + seconds, what, "check that it is a token endpoint")


def _json(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _filled(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip())
