"""Expiry of certificates: the brokers', our own, and the trusted ones."""

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Final

from cryptography import x509

from twinlog.config.flows import Client
from twinlog.errors import TwinlogError
from twinlog.inspect.doctor.facts import Dated
from twinlog.inspect.doctor.findings import Finding, some
from twinlog.inspect.doctor.reachability import ClusterReach
from twinlog.kafka.connect import uses_tls
from twinlog.security import keystores
from twinlog.text import counted

SOON: Final = dt.timedelta(days=30)


def stored(config: Client) -> list[Dated]:
    """The certificates in the client's stores. Raises TwinlogError if a store cannot be read."""
    if not uses_tls(config):
        return []
    files = keystores.read_files(config)
    ours = [identity.chain[0] for identity in keystores.identities(config, files) if identity.chain]
    trusted = keystores.trusted(config, files) or ()
    return [
        *_dated(keystores.key_place(config), ours, ours=True),
        *_dated(keystores.trust_place(config), trusted, ours=False),
    ]


def _dated(place: str, certificates: Iterable[bytes], *, ours: bool) -> Iterable[Dated]:
    for der in certificates:
        try:
            found = x509.load_der_x509_certificate(der)
            begins, expires = found.not_valid_before_utc, found.not_valid_after_utc
        except ValueError:  # OpenSSL decides what is valid, not this library
            continue
        yield Dated(place, found.subject.rfc4514_string(), found.issuer.rfc4514_string(), begins, expires, ours)


def unreadable(alias: str, error: TwinlogError) -> Finding:
    return Finding("error", "tls", alias, "stores", error.problem, error.advice)


def findings(reach: ClusterReach, held: Sequence[Dated], now: dt.datetime) -> list[Finding]:
    alias = reach.endpoint.alias
    found = list(_shown(reach, now))
    for each in held:
        if each.ours:
            found += _own(alias, each, now)
    issuers = {result.tls.issuer for result in reach.results.values() if result.tls is not None}
    return found + list(_trusted(alias, [each for each in held if not each.ours], issuers, now))


def _shown(reach: ClusterReach, now: dt.datetime) -> Iterable[Finding]:
    for (host, port), result in reach.results.items():
        if result.tls is not None and result.tls.expires < now + SOON:
            expires = result.tls.expires
            what = f"the broker's certificate expires in {_left(expires, now)}, on {_day(expires)}"
            advice = "renew it on the broker before that"
            yield Finding("warning", "tls", reach.endpoint.alias, f"{host}:{port}", what, advice)


def _own(alias: str, each: Dated, now: dt.datetime) -> Iterable[Finding]:
    if each.expires < now:
        what = f"our certificate {each.name!r} expired on {_day(each.expires)}"
        yield Finding("error", "tls", alias, each.place, what, "renew it; no restart is needed")
    elif each.begins > now:
        what = f"our certificate {each.name!r} is not valid before {each.begins:%Y-%m-%d %H:%M} UTC"
        yield Finding("error", "tls", alias, each.place, what, "check the clocks of this machine and of the issuer")
    elif each.expires < now + SOON:
        what = f"our certificate {each.name!r} expires in {_left(each.expires, now)}, on {_day(each.expires)}"
        yield Finding("warning", "tls", alias, each.place, what, "renew it before that; no restart is needed")
    else:
        yield Finding(
            "ok", "tls", alias, each.place, f"our certificate {each.name!r} is valid until {_day(each.expires)}"
        )


def _trusted(alias: str, held: Sequence[Dated], issuers: set[str], now: dt.datetime) -> Iterable[Finding]:
    """A truststore may hold many CAs: those that issued the brokers' certificates matter."""
    due = [each for each in held if each.expires < now + SOON]
    for each in due:
        if each.name in issuers:
            expired = each.expires < now
            when = f"expired on {_day(each.expires)}" if expired else f"expires in {_left(each.expires, now)}"
            what = f"the CA {each.name!r}, which issued the brokers' certificates, {when}"
            advice = "add its successor to the truststore before brokers use it; no restart is needed"
            yield Finding("warning", "tls", alias, each.place, what, advice)
    others = [each for each in due if each.name not in issuers]
    if others:
        what = (
            f"{counted(len(others), 'trusted certificate')} expired or expiring soon: {some([e.name for e in others])}"
        )
        yield Finding("note", "tls", alias, others[0].place, what, "remove those that are no longer used")


def _left(moment: dt.datetime, now: dt.datetime) -> str:
    return counted((moment - now).days, "day")


def _day(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d}"
