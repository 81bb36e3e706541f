"""The `oauth.*` options of Strimzi's login handler, used by a KafkaMirrorMaker2 with `type: oauth`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from twinlog.errors import ConfigError
from twinlog.security.jaas import KEY
from twinlog.security.oauth_assertion import Assertion
from twinlog.security.oauth_endpoint import Endpoint, Grant, checked_url, form_text
from twinlog.security.oauth_tokens import Refresh, Token, token

HANDLER: Final = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
_URL: Final = "oauth.token.endpoint.uri"
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def source(options: Mapping[str, str], refresh: Refresh) -> Endpoint | Token | Path:
    """The token's source: the first that is set of a token, a refresh token, a client, a user."""
    if written := options.get("oauth.access.token"):
        return token(written, KEY)
    if location := options.get("oauth.access.token.location"):
        return Path(location)
    if not (url := options.get(_URL, "")):
        raise ConfigError(f"{KEY}: {_URL} is missing", "set it, or oauth.access.token")
    pause = _number(options, "oauth.http.retry.pause.millis", 0.0) / 1000
    return Endpoint(
        checked_url(f"{KEY}: {_URL}", url),
        _grant(options),
        refresh,
        connect_seconds=_number(options, "oauth.connect.timeout.seconds", 60.0),
        read_seconds=_number(options, "oauth.read.timeout.seconds", 60.0),
        backoff=pause,
        backoff_max=pause * _number(options, "oauth.http.retries", 0.0),
        trust=tuple(
            sorted((key.removeprefix("oauth."), text) for key, text in options.items() if key.startswith("oauth.ssl."))
        ),
    )


def _grant(options: Mapping[str, str]) -> Grant:
    client, secret = options.get("oauth.client.id", ""), options.get("oauth.client.secret", "")
    if not client:
        raise ConfigError(f"{KEY}: oauth.client.id is missing", "set it")
    form: dict[str, str] = {}
    assertion = None
    if refresh_token := options.get("oauth.refresh.token"):
        form |= {"grant_type": "refresh_token", "refresh_token": refresh_token}
    elif user := options.get("oauth.password.grant.username"):
        form |= {"grant_type": "password", "username": user}
        form |= {"password": options.get("oauth.password.grant.password", "")}
    else:
        form["grant_type"] = options.get("oauth.client.credentials.grant.type") or "client_credentials"
        written, location = options.get("oauth.client.assertion"), options.get("oauth.client.assertion.location")
        if not secret and (written or location):
            form["client_assertion_type"] = options.get("oauth.client.assertion.type") or _ASSERTION_TYPE
            form |= {"client_assertion": written} if written else {}
            assertion = None if written else Assertion(file=location or "")
        elif not secret:
            raise ConfigError(
                f"{KEY}: oauth.client.secret is missing",
                "set it, or oauth.client.assertion, oauth.refresh.token or oauth.password.grant.*",
            )
    if not secret:
        form["client_id"] = client
    form |= {name: text for name in ("scope", "audience") if (text := options.get(f"oauth.{name}"))}
    hidden = [secret, *(form.get(key, "") for key in ("refresh_token", "password", "client_assertion"))]
    return Grant(
        "&".join(f"{key}={form_text(text)}" for key, text in form.items()),
        f"{client}:{secret}" if secret else "",
        assertion,
        "client_assertion",
        tuple(filter(None, hidden)),
    )


def _number(options: Mapping[str, str], option: str, default: float) -> float:
    try:
        found = float(options.get(option) or default)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e6:
        raise ConfigError(f"{KEY}: {option} is not a number of 0 or more", "correct it")
    return found
