"""OAUTHBEARER (RFC 7628): a token instead of a password, from a file, from a token endpoint, or made up.

Which of them is Kafka's choice: by `sasl.login.callback.handler.class` and `sasl.oauthbearer.jwt.retriever.class`. A
token endpoint without a handler's name is taken at its word; Kafka would make up a token there, and be refused.
"""

import json
import re
import time
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from twinlog.config.flows import Client
from twinlog.errors import ConfigError, LockedError
from twinlog.security import oauth_assertion, oauth_strimzi, oauth_unsecured
from twinlog.security.jaas import KEY, LoginModule
from twinlog.security.oauth_endpoint import Endpoint, Grant, checked_url, form_text
from twinlog.security.oauth_tokens import Keeper, Token, read_token, refresh
from twinlog.security.words import one_line

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
    """One login. `keeper` is who renews the token; none where it comes from a file, say, which is read each time."""

    mechanism = "OAUTHBEARER"

    def __init__(
        self, token: Token, place: str, extensions: dict[str, str], keeper: Keeper | None = None, *, fresh: bool = True
    ) -> None:
        self._token, self._place, self._extensions = token, place, extensions
        self._keeper, self._fresh = keeper, fresh

    def first(self) -> bytes:
        extensions = "".join(f"\1{name}={text}" for name, text in self._extensions.items())
        return f"n,,\1auth=Bearer {self._token.value}{extensions}\1\1".encode()

    def next(self, challenge: bytes) -> None:
        """Kafka answers with nothing, or with why it refuses; what RFC 7628 has the client say then changes nothing."""
        if challenge:
            raise self.refused(challenge.decode(errors="replace"))

    def refused(self, reason: str) -> LockedError:
        if self._keeper is not None:
            self._keeper.drop(self._token)
        whose = f"the token of {one_line(self._token.subject)!r}" if self._token.subject else "the token"
        said = f"OAUTHBEARER: {whose} from {self._place} is refused ({_status(reason)})"
        now = time.time()
        if self._token.expires is not None and self._token.is_over(now):
            return LockedError(f"{said}: it expired {now - self._token.expires:.0f} s ago", heals=True)
        if not self._fresh:
            return LockedError(f"{said}: the next login asks for another", heals=True)
        return LockedError(f"{said}: check that the broker trusts its issuer, expects its audience, and knows the time")


def oauth(config: Client, module: LoginModule) -> OAuth:
    """May ask a token endpoint. LockedError where no token is to be had, ConfigError where none ever will."""
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
            f"{_HANDLER} = {handler} is Java code, which does not run here: with {_SECURED[0]} "
            "tokens come from a file or from a token endpoint"
        )
    return _login(_source(config, module), _extensions(module, "extension_"))


def _login(source: Endpoint | Token | Path, extensions: dict[str, str]) -> OAuth:
    if isinstance(source, Token):
        return OAuth(source, KEY, extensions)
    if isinstance(source, Path):
        return OAuth(read_token(source), str(source), extensions)
    keeper = _keeper(source)
    token, fresh = keeper.token()
    return OAuth(token, source.place, extensions, keeper, fresh=fresh)


@lru_cache(maxsize=256)
def _keeper(endpoint: Endpoint) -> Keeper:
    """One for all connections of all clients with the same settings."""
    return Keeper(endpoint, endpoint.refresh)


def _source(config: Client, module: LoginModule) -> Endpoint | Path:
    """What Kafka's OAuthBearerLoginCallbackHandler would ask."""
    retriever = config[_RETRIEVER].removeprefix(_PACKAGE)
    if retriever not in _RETRIEVERS:
        raise ConfigError(
            f"{_RETRIEVER} = {config[_RETRIEVER]} is Java code, which does not run here: "
            f"expected {_PACKAGE} with {', '.join(_RETRIEVERS)}"
        )
    url = (config[_URL] or "").strip()
    if not url:
        raise ConfigError(f"{_URL} is missing: where is a token to come from?")
    if urlsplit(url).scheme.lower() == "file" and retriever in _RETRIEVERS[:2]:
        return Path(urlsplit(url).path)
    return Endpoint(
        checked_url(_URL, url),
        _bearer(config) if retriever == "JwtBearerJwtRetriever" else _credentials(config, module),
        refresh(config),
        connect_seconds=_seconds(config["sasl.login.connect.timeout.ms"]),
        read_seconds=_seconds(config["sasl.login.read.timeout.ms"]),
        backoff=config["sasl.login.retry.backoff.ms"] / 1000,
        backoff_most=config["sasl.login.retry.backoff.max.ms"] / 1000,
        trust=tuple(sorted((key, text) for key, text in module.options.items() if key.startswith("ssl."))),
        subject=config["sasl.oauthbearer.sub.claim.name"],
    )


def _credentials(config: Client, module: LoginModule) -> Grant:
    scope = _either(config, module, "scope")
    if oauth_assertion.wanted(config):
        client = _either(config, module, "clientId")
        form = "client_assertion_type=" + form_text("urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
        form += "&grant_type=client_credentials" + (f"&client_id={form_text(client)}" if client else "")
        form += f"&scope={form_text(scope)}" if scope else ""
        return Grant(form, assertion=oauth_assertion.assertion(config), assertion_field="client_assertion")
    found = {name: _either(config, module, name) for name in ("clientId", "clientSecret")}
    if missing := [name for name, text in found.items() if not text]:
        raise ConfigError(f"{_SETTING[missing[0]]} is missing (or {missing[0]} in {KEY})")
    # As Kafka does it: without the switch even the scope goes as it stands, so one may have written it encoded.
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
    """A setting, or what was its place before Kafka 4.1, an option of the login module."""
    written = config[_SETTING[option]]
    return (module.options.get(option, "") if written is None else str(written)).strip()


def _extensions(module: LoginModule, prefix: str) -> dict[str, str]:
    found = {key.removeprefix(prefix): text for key, text in module.options.items() if key.startswith(prefix)}
    for name, text in found.items():
        if name == "auth" or not re.fullmatch("[A-Za-z]+", name) or not re.fullmatch(r"[\x21-\x7e \t\r\n]+", text):
            raise ConfigError(f"{KEY}: {prefix}* is for names of letters other than auth, and values that are ASCII")
    return found


def _seconds(setting: int | None) -> float:
    """Kafka waits for ever where nothing is set, and so would a flow."""
    return 10.0 if not setting or setting < 0 else setting / 1000


def _status(reason: str) -> str:
    """The broker's words: JSON with a status (RFC 7628, 3.2.2), or a sentence."""
    try:
        found = json.loads(reason)
        status = found.get("status")
    except (ValueError, RecursionError, AttributeError):
        status = None
    return one_line(status if isinstance(status, str) else reason)
