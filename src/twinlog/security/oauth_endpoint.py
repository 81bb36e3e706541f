"""A token endpoint, asked over HTTP: for client credentials (RFC 6749) and its relatives.

Nothing is followed elsewhere: a redirected request would carry the secret to whoever answers there.
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
from twinlog.errors import ConfigError, LockedError
from twinlog.security import tls
from twinlog.security.jaas import KEY
from twinlog.security.oauth_assertion import Assertion
from twinlog.security.oauth_tokens import LARGEST, Refresh, Token, token
from twinlog.security.words import one_line

# What no waiting cures, by Kafka's list: our request, or who we are, is wrong.
_FINAL: Final = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505})


@dataclass(frozen=True, slots=True, repr=False)
class Grant:
    """What is posted: the form, what goes into its header, and in which field an assertion is, if there is one."""

    form: str
    basic: str = ""
    assertion: Assertion | None = None
    assertion_field: str = ""
    secrets: tuple[str, ...] = ()  # not to be seen, should an endpoint quote them

    def body(self) -> bytes:
        made = f"&{self.assertion_field}={form_text(self.assertion.make())}" if self.assertion else ""
        return (self.form + made).encode()

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
    """Equal endpoints share a token, so this holds all that a request depends on."""

    url: str = field(repr=False)
    grant: Grant
    refresh: Refresh
    connect_seconds: float = 10.0
    read_seconds: float = 10.0
    backoff: float = 0.1
    backoff_most: float = 10.0
    trust: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # `ssl.*` settings for this endpoint alone
    subject: str = "sub"

    @property
    def place(self) -> str:
        """For messages: without what may stand before the host or behind the path."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def fetch(self) -> Token:
        """Asks, and asks again with growing pauses until `sasl.login.retry.backoff.max.ms` is over."""
        end = time.monotonic() + self.backoff_most
        pause = self.backoff
        while True:
            try:
                return self._ask()
            except LockedError as error:
                left = end - time.monotonic()
                if not error.heals or left <= 0:
                    raise
                time.sleep(min(pause, left))
                pause *= 2

    def _ask(self) -> Token:
        try:
            request = urllib.request.Request(self.url, self.grant.body(), self.grant.headers())  # noqa: S310  (checked)
            with self._opener().open(request, timeout=self.connect_seconds) as answer:
                return self._token(_read(answer, self.read_seconds))
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise LockedError(
                    f"OAUTHBEARER: {self.place}: its certificate is not trusted ({one_line(reason.verify_message)}): "
                    "check ssl.truststore.* inside sasl.jaas.config, which is for this endpoint alone"
                ) from None
            what = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
            raise LockedError(
                f"OAUTHBEARER: the token endpoint {self.place} does not answer ({one_line(what)})", heals=True
            ) from None

    def _opener(self) -> urllib.request.OpenerDirector:
        return urllib.request.build_opener(_NoRedirects, _Http(self), _Https(self))

    def context(self) -> ssl.SSLContext:
        """By Kafka's rule the `ssl.*` of the cluster do not count here; where none are given, the system's CAs do."""
        written = {key: Value(key, text, Origin("derived", key=f"{KEY}: {key}")) for key, text in self.trust}
        try:
            return tls.context(Client("admin", FrozenMap(written)))
        except ValueError as error:  # a value of a type that Kafka refuses
            raise ConfigError(f"{KEY}: a value of ssl.* is wrong: {error}") from None

    def _token(self, content: bytes) -> Token:
        found = _json(content)
        value = next((found[key] for key in ("access_token", "id_token") if _filled(found.get(key))), None)
        if value is None:
            raise LockedError(f"OAUTHBEARER: {self.place} answers without a token: is it a token endpoint?")
        life = found.get("expires_in")
        known = isinstance(life, int) and 0 < life < 1e9
        return token(value, self.place, life if known else None, self.subject)

    def _refused(self, error: urllib.error.HTTPError) -> LockedError:
        try:
            found = _json(_read(error, self.read_seconds))
        except (OSError, http.client.HTTPException, LockedError):
            found = {}
        told = [found.get(key) for key in ("error", "error_description", "errorCode", "errorSummary")]
        said = one_line(": ".join(text for text in told if _filled(text)), self.grant.secrets) or "without a reason"
        if 300 <= error.code < 400:
            return LockedError(f"OAUTHBEARER: {self.place} sends us elsewhere (HTTP {error.code}): correct the address")
        if error.code in _FINAL:
            return LockedError(
                f"OAUTHBEARER: {self.place} refuses a token (HTTP {error.code}, {said}): check the client's id, "
                "secret and scope, and sasl.oauthbearer.token.endpoint.url"
            )
        return LockedError(f"OAUTHBEARER: {self.place} has no token now (HTTP {error.code}, {said})", heals=True)


def checked_url(key: str, url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{key} is not an address that begins with https://, http:// or file://")
    return url


def form_text(text: str) -> str:
    """As Java's URLEncoder writes it."""
    return quote_plus(text, safe="*").replace("~", "%7E")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        """So the answer is an error like any other."""


def _reading(connection: http.client.HTTPConnection, seconds: float) -> None:
    """Once it is connected, another limit counts."""
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
                _reading(self, seconds)

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
                _reading(self, seconds)

        return self.do_open(Connection, req, context=self._endpoint.context())


def _read(answer: Any, seconds: float) -> bytes:
    """The body: not more than a token may have, and not for longer than it may take."""
    deadline = time.monotonic() + seconds
    found = b""
    while piece := answer.read1(1 << 16):
        found += piece
        if len(found) > LARGEST or time.monotonic() > deadline:
            raise LockedError("OAUTHBEARER: a token endpoint's answer is too long, or takes too long", heals=True)
    return found


def _json(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _filled(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip())
