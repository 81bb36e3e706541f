"""How long certificates last: those that brokers show, our own, and those that are trusted."""

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Final

from cryptography import x509

from twinlog.config.flows import Client
from twinlog.doctor.facts import Dated
from twinlog.doctor.findings import Finding, counted, halves, some
from twinlog.doctor.reach import Way
from twinlog.errors import TwinlogError
from twinlog.kafka.dial import uses_tls
from twinlog.security import keystores

SOON: Final = dt.timedelta(days=30)


def stored(config: Client) -> list[Dated]:
    """Those of the client's stores. TwinlogError: a store cannot be read."""
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
        except ValueError:  # OpenSSL is the one that must like it
            continue
        yield Dated(place, found.subject.rfc4514_string(), found.issuer.rfc4514_string(), begins, expires, ours)


def unreadable(alias: str, error: TwinlogError) -> Finding:
    return Finding("error", "tls", alias, "stores", *halves(str(error)))


def findings(way: Way, held: Sequence[Dated], now: dt.datetime) -> list[Finding]:
    """Of one door."""
    alias = way.door.alias
    found = list(_shown(way, now))
    for each in held:
        if each.ours:
            found += _own(alias, each, now)
    issuers = {lock.issuer for knock in way.knocks.values() if (lock := knock.lock) is not None}
    return found + list(_trusted(alias, [each for each in held if not each.ours], issuers, now))


def _shown(way: Way, now: dt.datetime) -> Iterable[Finding]:
    for (host, port), knock in way.knocks.items():
        if knock.lock is not None and knock.lock.expires < now + SOON:
            what = (
                f"the broker's certificate expires in {_left(knock.lock.expires, now)}, on {_day(knock.lock.expires)}"
            )
            yield Finding(
                "warning", "tls", way.door.alias, f"{host}:{port}", what, "renew it on the broker before that"
            )


def _own(alias: str, each: Dated, now: dt.datetime) -> Iterable[Finding]:
    if each.expires < now:
        what = f"our certificate {each.name!r} has expired on {_day(each.expires)}"
        yield Finding("error", "tls", alias, each.place, what, "have it issued anew; no restart is needed")
    elif each.begins > now:
        what = f"our certificate {each.name!r} is not valid before {each.begins:%Y-%m-%d %H:%M} UTC"
        yield Finding("error", "tls", alias, each.place, what, "check the clock of this machine, and of its issuer")
    elif each.expires < now + SOON:
        what = f"our certificate {each.name!r} expires in {_left(each.expires, now)}, on {_day(each.expires)}"
        yield Finding("warning", "tls", alias, each.place, what, "renew it before that; no restart is needed")
    else:
        yield Finding(
            "ok", "tls", alias, each.place, f"our certificate {each.name!r} is valid until {_day(each.expires)}"
        )


def _trusted(alias: str, held: Sequence[Dated], issuers: set[str], now: dt.datetime) -> Iterable[Finding]:
    """A store may hold authorities of a hundred others: what matters is who issued the brokers' certificates."""
    due = [each for each in held if each.expires < now + SOON]
    for each in due:
        if each.name in issuers:
            gone = each.expires < now
            when = f"has expired on {_day(each.expires)}" if gone else f"expires in {_left(each.expires, now)}"
            what = f"the authority {each.name!r}, which issued the brokers' certificates, {when}"
            advice = "put its successor into the truststore before brokers use that; no restart is needed"
            yield Finding("warning", "tls", alias, each.place, what, advice)
    others = [each for each in due if each.name not in issuers]
    if others:
        what = f"{counted(len(others), 'trusted certificate')} expired, or soon will: {some([e.name for e in others])}"
        yield Finding("note", "tls", alias, others[0].place, what, "remove what is no longer used")


def _left(moment: dt.datetime, now: dt.datetime) -> str:
    return counted((moment - now).days, "day")


def _day(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d}"
