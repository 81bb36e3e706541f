"""SASL, whatever the mechanism: what a client says to log in, from `sasl.mechanism` and `sasl.jaas.config`.

Knows of no Kafka request. Whoever speaks to the broker carries the bytes:

    exchange = login(config, host)
    token: bytes | None = exchange.first()
    while token is not None:
        token = exchange.next(what the broker answers to it)

Where the broker answers with an error instead, `exchange.refused(its words)` is the LockedError to raise.
"""

from typing import Final, Protocol

from twinlog.config.flows import Client
from twinlog.errors import ConfigError, LockedError
from twinlog.security import gssapi, jaas, oauth, scram
from twinlog.security.jaas import LoginModule, login_module
from twinlog.security.words import one_line

MECHANISMS: Final = ("PLAIN", *scram.MECHANISMS, "OAUTHBEARER", "GSSAPI")

# PLAIN takes ScramLoginModule too: either hands on a name and a password, and with Kafka's client it works.
_MODULES: Final = {
    "PLAIN": (jaas.PLAIN, jaas.SCRAM),
    **dict.fromkeys(scram.MECHANISMS, (jaas.SCRAM,)),
    "OAUTHBEARER": (jaas.OAUTH,),
    "GSSAPI": (jaas.KERBEROS,),
}
_JAVA_CODE: Final = ("sasl.login.class", "sasl.client.callback.handler.class", "sasl.login.callback.handler.class")


class Exchange(Protocol):
    """One login on one connection."""

    @property
    def mechanism(self) -> str:
        """What goes into SaslHandshake."""

    def first(self) -> bytes:
        """What goes into the first SaslAuthenticate."""

    def next(self, challenge: bytes) -> bytes | None:
        """What goes into the next one; None when the login is done. LockedError where it cannot be."""

    def refused(self, reason: str) -> LockedError:
        """The broker said no, in these words: one line with what to check."""


def login(config: Client, host: str) -> Exchange:
    """Everything that a login on a connection to `host` needs. May ask a token endpoint or a KDC, so it may take time.

    ConfigError where the settings cannot work, LockedError where a token or a ticket is not to be had.
    """
    mechanism = config["sasl.mechanism"]
    if mechanism not in MECHANISMS:
        raise ConfigError(f"sasl.mechanism = {mechanism}: expected one of {', '.join(MECHANISMS)}")
    module = login_module(config)
    if module.kind not in _MODULES[mechanism]:
        raise ConfigError(
            f"sasl.jaas.config: {module.short} does not fit sasl.mechanism = {mechanism}: "
            f"expected {_MODULES[mechanism][0]}"
        )
    for key in _JAVA_CODE if mechanism != "OAUTHBEARER" else _JAVA_CODE[:-1]:
        if config[key]:
            raise ConfigError(f"{key} = {config[key]} is Java code, which does not run here: remove it")
    if mechanism == "OAUTHBEARER":
        return oauth.oauth(config, module)
    if mechanism == "GSSAPI":
        return gssapi.gssapi(config, module, host)
    return plain(module) if mechanism == "PLAIN" else scram.scram(mechanism, module)


class Plain:
    """PLAIN (RFC 4616): name and password as they are, so TLS must hide them."""

    mechanism = "PLAIN"

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self._password = password

    def first(self) -> bytes:
        return f"\0{self.user}\0{self._password}".encode(errors="replace")  # as Java does

    def next(self, challenge: bytes) -> None:
        """Whatever an accepting broker says (Kafka: nothing), it is done."""

    def refused(self, reason: str) -> LockedError:
        return LockedError(
            f"PLAIN: user {self.user!r} is refused ({one_line(reason, [self._password])}): "
            "check username and password in sasl.jaas.config"
        )


def plain(module: LoginModule) -> Plain:
    user, password = module.required("username"), module.required("password")
    if "\0" in user + password:
        raise ConfigError("sasl.jaas.config: PLAIN has no room for a zero character in username or password")
    return Plain(user, password)
