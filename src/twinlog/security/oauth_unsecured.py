"""Unsigned tokens from `unsecuredLogin*` options, for brokers configured to accept them (development only)."""

import time
from collections.abc import Mapping
from typing import Any, Final

from twinlog.errors import ConfigError
from twinlog.security.jaas import KEY
from twinlog.security.oauth_tokens import Token, json_part

_STRING: Final = "unsecuredLoginStringClaim_"
_NUMBER: Final = "unsecuredLoginNumberClaim_"
_LIST: Final = "unsecuredLoginListClaim_"


def token(options: Mapping[str, str]) -> Token:
    """Created as by Kafka's OAuthBearerUnsecuredLoginCallbackHandler."""
    name = options.get("unsecuredLoginPrincipalClaimName", "").strip() or "sub"
    claims: dict[str, Any] = {}
    now = time.time()
    try:
        expires = now + int(options.get("unsecuredLoginLifetimeSeconds", "3600"))
        for option, text in options.items():
            if claim := option.removeprefix(_STRING) if option.startswith(_STRING) else "":
                claims[claim] = text
            elif claim := option.removeprefix(_NUMBER) if option.startswith(_NUMBER) else "":
                claims[claim] = float(text)
            elif claim := option.removeprefix(_LIST) if option.startswith(_LIST) else "":
                claims[claim] = _list(text)
    except ValueError:
        raise ConfigError(f"{KEY}: {_NUMBER}* or unsecuredLoginLifetimeSeconds is not a number", "correct it") from None
    if {"iat", "exp"} & set(claims):
        raise ConfigError(f"{KEY}: the claims iat and exp are computed", "remove them")
    subject = claims.get(name)
    if not isinstance(subject, str) or not subject:
        raise ConfigError(
            f"{KEY}: OAUTHBEARER has no token source",
            "set sasl.oauthbearer.token.endpoint.url, or "
            f'{_STRING}{name}="..." for brokers that accept unsigned tokens',
        )
    unsigned = f"{json_part({'alg': 'none'})}.{json_part({'exp': expires, 'iat': now, **claims})}."
    return Token(unsigned, subject, now, expires)


def _list(text: str) -> list[str]:
    """The first character is the separator: `|a|b`."""
    return text[1:].split(text[0]) if len(text) > 1 else []
