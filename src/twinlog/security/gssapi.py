"""SASL GSSAPI (RFC 4752): Kerberos authentication by the options of Java's Krb5LoginModule, without a security layer.

The Kerberos library renews tickets from a keytab after half of their lifetime. A ticket cache is renewed externally
(`kinit -R`), so it is read at every login.
"""

import hashlib
from typing import Final

from twinlog.config.flows import Client
from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security.jaas import KEY, LoginModule
from twinlog.security.libgssapi import Context, Credentials, GssError
from twinlog.text import one_line

_NO_LAYER: Final = 1
_MAX_BYTES: Final = 1 << 20

_NO_TICKETS: Final = frozenset({141, 195})  # the ticket cache is empty
# Kerberos error codes that may go away: not yet valid, expired, replayed, clock skew, KDC unreachable, no ticket.
_RETRIABLE: Final = frozenset({21, 32, 33, 34, 37, 154, 156}) | _NO_TICKETS
_ACTIONS: Final = {
    6: "check the principal, the KDC does not know it",
    7: "check sasl.kerberos.service.name and the host name in the address, the KDC does not know the broker",
    24: "export the keytab again, its key differs from the KDC's",
    31: "export the keytab again, its key differs from the KDC's",
    32: "run kinit, or configure a keytab",
    37: "synchronize the clocks of this machine and the KDC",
}
_DEFAULT_ACTION: Final = "check krb5.conf and the options of Krb5LoginModule"


class Gssapi:
    """One login: the exchange of Kerberos tokens, then the choice of the security layer."""

    mechanism = "GSSAPI"

    def __init__(self, context: Context, who: str, service: str) -> None:
        self._context, self._who, self._service = context, who, service
        self._layer_sent = False

    def first(self) -> bytes:
        return self._step(b"")

    def next(self, challenge: bytes) -> bytes | None:
        if self._layer_sent:
            return None
        if len(challenge) > _MAX_BYTES:
            raise AuthenticationError(
                "GSSAPI: malformed response from the broker (too long)",
                "check the listener's SASL mechanism",
                retriable=True,
            )
        if not self._context.done:
            return self._step(challenge)
        try:
            offer = self._context.unwrap(challenge)
            if len(offer) != 4:
                raise AuthenticationError(
                    "GSSAPI: malformed response from the broker (security layers)",
                    "check the listener's SASL mechanism",
                    retriable=True,
                )
            if not offer[0] & _NO_LAYER:
                raise AuthenticationError(
                    "GSSAPI: broker requires a security layer, which Kafka does not support", "use SASL_SSL"
                )
            self._layer_sent = True
            return self._context.wrap(bytes((_NO_LAYER, 0, 0, 0)))
        except GssError as error:
            raise _failed(self._who, error) from None

    def refused(self, reason: str) -> AuthenticationError:
        return AuthenticationError(
            f"GSSAPI: authentication failed for {self._who}: {one_line(reason)}",
            f"check that the broker's keytab has {self._service}",
        )

    def _step(self, token: bytes) -> bytes:
        try:
            return self._context.step(token)
        except GssError as error:
            raise _failed(f"{self._who}, to {self._service}", error) from None


def gssapi(config: Client, module: LoginModule, host: str) -> Gssapi:
    """May contact a KDC. AuthenticationError if it issues no ticket."""
    service = _service(config, module)
    principal = module.options.get("principal", "")
    who = f"principal {principal!r}" if principal else "the default principal"
    try:
        credentials = _credentials(module, principal)
        return Gssapi(Context(credentials, service, host), who, f"{service}/{host}")
    except GssError as error:
        raise _failed(who, error) from None


def _credentials(module: LoginModule, principal: str) -> Credentials:
    """As Krb5LoginModule: the ticket cache if enabled and not empty, else the keytab."""
    keytab = module.options.get("keyTab", "") if module.flag("useKeyTab") else ""
    if module.flag("useTicketCache"):
        ticket_cache = module.options.get("ticketCache", "")
        try:
            return Credentials(principal, {"ccache": ticket_cache} if ticket_cache else {})
        except GssError:
            if not module.flag("useKeyTab"):
                raise
    if not module.flag("useKeyTab"):
        raise ConfigError(
            f"{KEY}: Krb5LoginModule has no credentials", 'set useKeyTab="true" with keyTab, or useTicketCache="true"'
        )
    # Tickets stay in this process, in one memory cache per keytab and principal; the environment is not changed.
    cache_name = hashlib.sha256(f"{keytab}\0{principal}".encode()).hexdigest()[:16]
    store = {"ccache": f"MEMORY:twinlog-{cache_name}"}
    try:
        return Credentials(principal, {"client_keytab": keytab, **store} if keytab else store)
    except GssError as error:
        if error.code not in _NO_TICKETS:
            raise
        where = f"keyTab {keytab}" if keytab else "the system's client keytab"
        raise GssError(f"{where} is missing, unreadable, or has no key for this principal", -1) from None


def _service(config: Client, module: LoginModule) -> str:
    written, setting = module.options.get("serviceName"), config["sasl.kerberos.service.name"]
    if written and setting and written != setting:
        raise ConfigError(f"sasl.kerberos.service.name = {setting}: differs from serviceName in {KEY}", "remove one")
    if not (found := written or setting):
        raise ConfigError(
            "sasl.kerberos.service.name is missing", 'set it to the service of the brokers\' principal, often "kafka"'
        )
    return str(found)


def _failed(who: str, error: GssError) -> AuthenticationError:
    action = _ACTIONS.get(error.code, _DEFAULT_ACTION)
    return AuthenticationError(f"GSSAPI: {who}: {one_line(str(error))}", action, retriable=error.code in _RETRIABLE)
