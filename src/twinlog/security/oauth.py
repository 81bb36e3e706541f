"""SASL OAUTHBEARER (RFC 7628): authentication by a token from a file or a token endpoint, or by an unsigned token.

The source is selected as in Kafka, by `sasl.login.callback.handler.class` and `sasl.oauthbearer.jwt.retriever.class`,
with one exception: a token endpoint is also used without a handler class, where Kafka would send an unsigned token.
"""

import json
import re
import time
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from twinlog.config.flows import Client
from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security import oauth_assertion, oauth_strimzi, oauth_unsecured
from twinlog.security.jaas import KEY, LoginModule
from twinlog.security.oauth_endpoint import Endpoint, Grant, checked_url, form_text
from twinlog.security.oauth_tokens import Token, TokenCache, read_token, refresh
from twinlog.text import one_line

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
_HANDLER: Final = "sasl.login.callback.handler.class"
_SECURED: Final = (f"{_PACKAGE}OAuthBearerLoginCallbackHandler", f"{_PACKAGE}secured.OAuthBearerLoginCallbackHandler")
_UNSECURED: Final = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
_RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
_RETRIEVERS: Final = (
    "DefaultJwtRetriever",
    "FileJwtRetriever",
    "ClientCredentialsJwtRetriever",
    "JwtBearerJwtRetriever",
)
_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_SETTING: Final = {
    "clientId": "sasl.oauthbearer.client.credentials.client.id",
    "clientSecret": "sasl.oauthbearer.client.credentials.client.secret",
    "scope": "sasl.oauthbearer.scope",
}


class OAuth:
    """One login. `cache` renews the token; None for a source without renewal, such as a file, which is always read."""

    mechanism = "OAUTHBEARER"

    def __init__(
        self,
        token: Token,
        origin: str,
        extensions: dict[str, str],
        cache: TokenCache[Token] | None = None,
        *,
        fresh: bool = True,
    ) -> None:
        self._token, self._origin, self._extensions = token, origin, extensions
        self._cache, self._fresh = cache, fresh

    def first(self) -> bytes:
        extensions = "".join(f"\1{name}={text}" for name, text in self._extensions.items())
        return f"n,,\1auth=Bearer {self._token.value}{extensions}\1\1".encode()

    def next(self, challenge: bytes) -> None:
        """Kafka responds with nothing or with an error; the client's reply to an error (RFC 7628) is not needed."""
        if challenge:
            raise self.refused(challenge.decode(errors="replace"))

    def refused(self, reason: str) -> AuthenticationError:
        if self._cache is not None:
            self._cache.drop(self._token)
        token = f"token of {one_line(self._token.subject)!r}" if self._token.subject else "token"
        what = f"OAUTHBEARER: {token} from {self._origin} rejected: {_status(reason)}"
        now = time.time()
        if self._token.expires is not None and self._token.is_expired(now):
            age = now - self._token.expires
            return AuthenticationError(f"{what} (expired {age:.0f} s ago)", "retrying with a new token", retriable=True)
        if not self._fresh:
            return AuthenticationError(what, "retrying with a new token", retriable=True)
        return AuthenticationError(
            what, "check that the broker trusts the token's issuer, expects its audience, and has the right time"
        )


def oauth(config: Client, module: LoginModule) -> OAuth:
    """May contact a token endpoint. AuthenticationError if there is no token, ConfigError if there cannot be one."""
    handler = config[_HANDLER]
    claims = any(option.startswith("unsecuredLogin") for option in module.options)
    if handler == _UNSECURED or (handler is None and (claims or not config[_URL])):
        extensions = _extensions(module, "unsecuredLoginExtension_")
        return OAuth(oauth_unsecured.token(module.options), KEY, extensions)
    if handler == oauth_strimzi.HANDLER:
        source = oauth_strimzi.source(module.options, refresh(config))
        return _login(source, _extensions(module, "oauth.sasl.extension."))
    if handler is not None and handler not in _SECURED:
        raise ConfigError(
            f"{_HANDLER} = {handler}: Java classes cannot be run",
            f"use {_SECURED[0]} with a token file or a token endpoint",
        )
    return _login(_source(config, module), _extensions(module, "extension_"))


def _login(source: Endpoint | Token | Path, extensions: dict[str, str]) -> OAuth:
    if isinstance(source, Token):
        return OAuth(source, KEY, extensions)
    if isinstance(source, Path):
        return OAuth(read_token(source), str(source), extensions)
    cache = _cache(source)
    token, fresh = cache.token()
    return OAuth(token, source.redacted_url, extensions, cache, fresh=fresh)


@lru_cache(maxsize=256)
def _cache(endpoint: Endpoint) -> TokenCache[Token]:
    """Shared by all connections of all clients with the same settings."""
    return TokenCache(endpoint, endpoint.refresh)


def _source(config: Client, module: LoginModule) -> Endpoint | Path:
    """The source that Kafka's OAuthBearerLoginCallbackHandler would use."""
    retriever = config[_RETRIEVER].removeprefix(_PACKAGE)
    if retriever not in _RETRIEVERS:
        raise ConfigError(
            f"{_RETRIEVER} = {config[_RETRIEVER]}: Java classes cannot be run",
            f"use {', '.join(_RETRIEVERS)} of {_PACKAGE}*",
        )
    url = (config[_URL] or "").strip()
    if not url:
        raise ConfigError(f"{_URL} is missing", "set it to a token endpoint (https://) or a token file (file://)")
    if urlsplit(url).scheme.lower() == "file" and retriever in _RETRIEVERS[:2]:
        return Path(urlsplit(url).path)
    return Endpoint(
        checked_url(_URL, url),
        _bearer(config) if retriever == "JwtBearerJwtRetriever" else _credentials(config, module),
        refresh(config),
        connect_seconds=_seconds(config["sasl.login.connect.timeout.ms"]),
        read_seconds=_seconds(config["sasl.login.read.timeout.ms"]),
        backoff=config["sasl.login.retry.backoff.ms"] / 1000,
        backoff_max=config["sasl.login.retry.backoff.max.ms"] / 1000,
        trust=tuple(sorted((key, text) for key, text in module.options.items() if key.startswith("ssl."))),
        subject=config["sasl.oauthbearer.sub.claim.name"],
    )


def _credentials(config: Client, module: LoginModule) -> Grant:
    scope = _either(config, module, "scope")
    if oauth_assertion.is_configured(config):
        client = _either(config, module, "clientId")
        form = "client_assertion_type=" + form_text("urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
        form += "&grant_type=client_credentials" + (f"&client_id={form_text(client)}" if client else "")
        form += f"&scope={form_text(scope)}" if scope else ""
        return Grant(form, assertion=oauth_assertion.assertion(config), assertion_field="client_assertion")
    found = {name: _either(config, module, name) for name in ("clientId", "clientSecret")}
    if missing := [name for name, text in found.items() if not text]:
        raise ConfigError(f"{_SETTING[missing[0]]} is missing", f"set it, or {missing[0]} in {KEY}")
    # As in Kafka: without the switch the scope is not encoded either, since it may have been configured encoded.
    encode = form_text if config["sasl.oauthbearer.header.urlencode"] else str
    form = "grant_type=client_credentials" + (f"&scope={encode(scope)}" if scope else "")
    basic = f"{encode(found['clientId'])}:{encode(found['clientSecret'])}"
    return Grant(form, basic, secrets=(found["clientSecret"],))


def _bearer(config: Client) -> Grant:
    scope = (config[_SETTING["scope"]] or "").strip()
    form = "grant_type=" + form_text("urn:ietf:params:oauth:grant-type:jwt-bearer")
    form += f"&scope={form_text(scope)}" if scope else ""
    return Grant(form, assertion=oauth_assertion.assertion(config), assertion_field="assertion")


def _either(config: Client, module: LoginModule, option: str) -> str:
    """A setting, or the option of the login module that preceded it (before Kafka 4.1)."""
    written = config[_SETTING[option]]
    return (module.options.get(option, "") if written is None else str(written)).strip()


def _extensions(module: LoginModule, prefix: str) -> dict[str, str]:
    found = {key.removeprefix(prefix): text for key, text in module.options.items() if key.startswith(prefix)}
    for name, text in found.items():
        if name == "auth" or not re.fullmatch("[A-Za-z]+", name) or not re.fullmatch(r"[\x21-\x7e \t\r\n]+", text):
            raise ConfigError(
                f"{KEY}: invalid SASL extension {prefix}*",
                "use letters (but not auth) as its name and printable ASCII as its value",
            )
    return found


def _seconds(setting: int | None) -> float:
    """10 seconds if not set: Kafka would wait indefinitely, and so would a flow."""
    return 10.0 if not setting or setting < 0 else setting / 1000


def _status(reason: str) -> str:
    """The broker's error: the status of its JSON (RFC 7628, 3.2.2), or its text."""
    try:
        found = json.loads(reason)
        status = found.get("status")
    except (ValueError, RecursionError, AttributeError):
        status = None
    return one_line(status if isinstance(status, str) else reason)
