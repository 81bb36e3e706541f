"""SASL logins of every mechanism, from `sasl.mechanism` and `sasl.jaas.config`.

Independent of Kafka's requests: the caller exchanges the bytes with the broker.

    exchange = login(config, host)
    token: bytes | None = exchange.first()
    while token is not None:
        token = exchange.next(the broker's response)

If the broker responds with an error, raise `exchange.refused(its message)`.
"""

from typing import Final, Protocol

from twinlog.config.flows import Client
from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security import gssapi, jaas, msk_iam, oauth, scram
from twinlog.security.jaas import LoginModule, login_module
from twinlog.text import one_line

MECHANISMS: Final = ("PLAIN", *scram.MECHANISMS, "OAUTHBEARER", "GSSAPI", msk_iam.MECHANISM)

# PLAIN also accepts ScramLoginModule, as in Kafka's client: both supply a username and a password.
_MODULES: Final = {
    "PLAIN": (jaas.PLAIN, jaas.SCRAM),
    **dict.fromkeys(scram.MECHANISMS, (jaas.SCRAM,)),
    "OAUTHBEARER": (jaas.OAUTH,),
    "GSSAPI": (jaas.KERBEROS,),
    msk_iam.MECHANISM: (jaas.AWS,),
}
_JAVA_CODE: Final = ("sasl.login.class", "sasl.client.callback.handler.class", "sasl.login.callback.handler.class")


class Exchange(Protocol):
    """One login on one connection."""

    @property
    def mechanism(self) -> str:
        """For the SaslHandshake request."""

    def first(self) -> bytes:
        """For the first SaslAuthenticate request."""

    def next(self, challenge: bytes) -> bytes | None:
        """For the next one; None when the login is complete. AuthenticationError if it cannot succeed."""

    def refused(self, reason: str) -> AuthenticationError:
        """The error for the broker's rejection, with what to check."""


def login(config: Client, host: str) -> Exchange:
    """A login on a connection to `host`.

    May contact a token endpoint, AWS or a KDC, so it may take time.
    ConfigError if the settings cannot work, AuthenticationError if there is no token or ticket.
    """
    mechanism = config["sasl.mechanism"]
    if mechanism not in MECHANISMS:
        raise ConfigError(f"sasl.mechanism = {mechanism}: not supported", f"use one of {', '.join(MECHANISMS)}")
    module = login_module(config)
    if module.kind not in _MODULES[mechanism]:
        raise ConfigError(
            f"sasl.jaas.config: {module.short} does not fit sasl.mechanism = {mechanism}",
            f"use {_MODULES[mechanism][0]}",
        )
    for key in _JAVA_CODE if mechanism != "OAUTHBEARER" else _JAVA_CODE[:-1]:
        if config[key] and not (mechanism == msk_iam.MECHANISM and msk_iam.is_handler(config[key])):
            raise ConfigError(f"{key} = {config[key]}: Java classes cannot be run", "remove it")
    if mechanism == "OAUTHBEARER":
        return oauth.oauth(config, module)
    if mechanism == msk_iam.MECHANISM:
        return msk_iam.msk_iam(config, module, host)
    if mechanism == "GSSAPI":
        return gssapi.gssapi(config, module, host)
    return plain(module) if mechanism == "PLAIN" else scram.scram(mechanism, module)


class Plain:
    """PLAIN (RFC 4616): username and password in clear text, to be protected by TLS."""

    mechanism = "PLAIN"

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self._password = password

    def first(self) -> bytes:
        return f"\0{self.user}\0{self._password}".encode(errors="replace")  # as Java does

    def next(self, challenge: bytes) -> None:
        """None: the login is complete, whatever the broker's response (Kafka's is empty)."""

    def refused(self, reason: str) -> AuthenticationError:
        return AuthenticationError(
            f"PLAIN: authentication failed for user {self.user!r}: {one_line(reason, [self._password])}",
            "check username and password in sasl.jaas.config",
        )


def plain(module: LoginModule) -> Plain:
    user, password = module.required("username"), module.required("password")
    if "\0" in user + password:
        raise ConfigError("sasl.jaas.config: PLAIN cannot send a NUL character in username or password", "remove it")
    return Plain(user, password)
