"""GSSAPI (RFC 4752): Kerberos tickets, by the options of Java's Krb5LoginModule. Only who we are, no security layer.

The library renews tickets from a keytab by itself, when half their life is over. A ticket cache is somebody else's to
renew (`kinit -R`): it is read for every login.
"""

import hashlib
from typing import Final

from twinlog.config.flows import Client
from twinlog.errors import ConfigError, LockedError
from twinlog.security.gss import Context, Credentials, GssError
from twinlog.security.jaas import KEY, LoginModule
from twinlog.security.words import one_line

_NO_LAYER: Final = 1
_LARGEST: Final = 1 << 20

_NO_TICKETS: Final = frozenset({141, 195})  # nobody has filled the cache yet
# Kerberos' codes that time may heal: not yet valid, expired, replayed, clocks apart, no KDC in reach, no ticket there.
_HEALING: Final = frozenset({21, 32, 33, 34, 37, 154, 156}) | _NO_TICKETS
_HINTS: Final = {
    6: "the KDC does not know this principal",
    7: "the KDC does not know the broker: check sasl.kerberos.service.name, and the host's name in the address",
    24: "the key in the keytab is not the KDC's: export it anew",
    31: "the key in the keytab is not the KDC's: export it anew",
    32: "run kinit, or name a keytab",
    37: "the clocks of this machine and the KDC differ",
}


class Gssapi:
    """One login: tickets until both sides know each other, then the answer to which security layer is wanted."""

    mechanism = "GSSAPI"

    def __init__(self, context: Context, who: str, service: str) -> None:
        self._context, self._who, self._service = context, who, service
        self._answered = False

    def first(self) -> bytes:
        return self._step(b"")

    def next(self, challenge: bytes) -> bytes | None:
        if self._answered:
            return None
        if len(challenge) > _LARGEST:
            raise LockedError("GSSAPI: the broker's answer is too long", heals=True)
        if not self._context.done:
            return self._step(challenge)
        try:
            offer = self._context.unwrap(challenge)
            if len(offer) != 4:
                raise LockedError("GSSAPI: the broker's offer of a security layer makes no sense", heals=True)
            if not offer[0] & _NO_LAYER:
                raise LockedError(
                    "GSSAPI: the broker insists on a security layer, which Kafka does not have: use SASL_SSL"
                )
            self._answered = True
            return self._context.wrap(bytes((_NO_LAYER, 0, 0, 0)))
        except GssError as error:
            raise _locked(self._who, error) from None

    def refused(self, reason: str) -> LockedError:
        return LockedError(
            f"GSSAPI: {self._who} is refused ({one_line(reason)}): check that the broker's keytab holds {self._service}"
        )

    def _step(self, token: bytes) -> bytes:
        try:
            return self._context.step(token)
        except GssError as error:
            raise _locked(f"{self._who}, to {self._service}", error) from None


def gssapi(config: Client, module: LoginModule, host: str) -> Gssapi:
    """May ask a KDC. LockedError where it gives no ticket."""
    service = _service(config, module)
    principal = module.options.get("principal", "")
    who = f"principal {principal!r}" if principal else "the default principal"
    try:
        credentials = _credentials(module, principal)
        return Gssapi(Context(credentials, service, host), who, f"{service}/{host}")
    except GssError as error:
        raise _locked(who, error) from None


def _credentials(module: LoginModule, principal: str) -> Credentials:
    """As Krb5LoginModule: a ticket cache if that is wished and has a ticket, else a keytab."""
    keytab = module.options.get("keyTab", "") if module.flag("useKeyTab") else ""
    if module.flag("useTicketCache"):
        place = module.options.get("ticketCache", "")
        try:
            return Credentials(principal, {"ccache": place} if place else {})
        except GssError:
            if not module.flag("useKeyTab"):
                raise
    if not module.flag("useKeyTab"):
        raise ConfigError(f'{KEY}: Krb5LoginModule needs useKeyTab="true" with keyTab, or useTicketCache="true"')
    # Tickets stay in this process, one place for each keytab and principal, and the environment is left alone.
    place = hashlib.sha256(f"{keytab}\0{principal}".encode()).hexdigest()[:16]
    store = {"ccache": f"MEMORY:twinlog-{place}"}
    try:
        return Credentials(principal, {"client_keytab": keytab, **store} if keytab else store)
    except GssError as error:
        if error.code not in _NO_TICKETS:
            raise
        where = f"keyTab {keytab}" if keytab else "the system's keytab for clients"
        raise GssError(f"{where} is not there, cannot be read, or has no key of this principal", -1) from None


def _service(config: Client, module: LoginModule) -> str:
    written, setting = module.options.get("serviceName"), config["sasl.kerberos.service.name"]
    if written and setting and written != setting:
        raise ConfigError(f"sasl.kerberos.service.name = {setting} is not serviceName in {KEY}: remove one")
    if not (found := written or setting):
        raise ConfigError(
            'sasl.kerberos.service.name is missing: it is the name of the brokers\' principal, often "kafka"'
        )
    return str(found)


def _locked(who: str, error: GssError) -> LockedError:
    hint = f": {_HINTS[error.code]}" if error.code in _HINTS else ""
    return LockedError(f"GSSAPI: {who}: {one_line(str(error))}{hint}", heals=error.code in _HEALING)
