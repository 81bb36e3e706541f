"""What it means how far somebody came who knocked at a cluster's addresses. Pure."""

import errno
import ipaddress
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from twinlog.doctor.facts import Address, Door, Knock
from twinlog.doctor.findings import Finding, Status, counted, halves, some
from twinlog.kafka.dial import uses_sasl, uses_tls
from twinlog.security.keystores import written

_AWAY: Final = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN}
_STALE: Final = {socket.EAI_AGAIN}
_ENDLESS: Final = Knock(
    stage="connection", trouble="nobody could say in time whether it answers", error=errno.EINPROGRESS
)


@dataclass(frozen=True, slots=True)
class Way:
    """A door, and what became of knocking at its addresses: those of bootstrap.servers, then the brokers' own."""

    door: Door
    bootstrap: Sequence[Address]
    knocks: Mapping[Address, Knock]

    def knock(self, address: Address) -> Knock:
        """Where none came back in time, somebody else is to blame: what is asked of the broker itself is bounded."""
        return self.knocks.get(address, _ENDLESS)

    @property
    def open(self) -> list[Knock]:
        return [each for at in self.bootstrap if (each := self.knock(at)).stage == "open"]

    @property
    def brokers(self) -> dict[int, Address]:
        """As they advertise themselves."""
        return {node: address for each in self.open for node, address in each.brokers.items()}

    @property
    def reaches_all(self) -> bool:
        return all(self.knock(address).stage == "open" for address in self.brokers.values())

    @property
    def inside(self) -> list[Knock]:
        """At which addresses, whichever, one comes in."""
        return [each for each in self.knocks.values() if each.stage == "open"]


def findings(way: Way, *, alone: bool) -> list[Finding]:
    """`alone`: the cluster has no other door, so nobody need say whose this is."""
    door, brokers = way.door, way.brokers
    suffix = "" if alone else f" ({door.user})"
    found: list[Finding] = []
    for address in way.bootstrap:
        each = way.knock(address)
        where = _text(address) + suffix
        if each.stage == "open":
            found.append(Finding("ok", "connection", door.alias, where, _welcome(each, door)))
            continue
        check, what, advice = _explained(each, door)
        status: Status = "error"
        if way.open and address not in brokers.values():
            status, what = "warning", f"{what} (others of bootstrap.servers answer)"
        found.append(Finding(status, check, door.alias, where, what, advice))
    found += _strangers(way, suffix)
    if way.open:
        found += _advertised(way, suffix)
    return found


def _welcome(each: Knock, door: Door) -> str:
    words = ["comes in"]
    if each.lock is not None:
        words.append(f"by {each.lock.version}, certificate until {each.lock.expires:%Y-%m-%d}")
    if uses_sasl(door.config):
        words.append(f"logs in by {door.config['sasl.mechanism']}")
    return ", ".join(words) if len(words) > 1 else "answers"


def _advertised(way: Way, suffix: str) -> Iterable[Finding]:
    """The classic mistake of containers and clouds: brokers that tell clients an address of their own small world."""
    door, brokers = way.door, way.brokers
    home = next((each.cluster_id for each in way.open), None)
    far = any(not _loopback(address) for each in way.open for address in each.resolved)
    good = 0
    for node, address in sorted(brokers.items()):
        each = way.knock(address)
        where, told = _text(address) + suffix, f"broker {node} advertises {_text(address)}"
        mend = f"set advertised.listeners of broker {node} to an address that clients reach"
        if each.stage != "open":
            if address in way.bootstrap:
                continue  # said there
            check, what, advice = _explained(each, door)
            if check in ("name", "connection"):
                check, advice = "advertised", f"{mend}, or choose the listener that is meant for this network"
            yield Finding("error", check, door.alias, where, f"{told}: {what}", advice)
        elif far and all(map(_loopback, each.resolved)):
            what = f"{told}, which on every machine is that machine itself"
            yield Finding("error", "advertised", door.alias, where, what, mend)
        elif home is not None and each.cluster_id not in (home, None):
            what = f"{told}, where another cluster answers (id {each.cluster_id})"
            yield Finding("error", "advertised", door.alias, where, what, mend)
        else:
            good += 1
    if good == len(brokers):
        what = f"{counted(good, 'broker')} advertise{'s' * (good == 1)} an address that this machine reaches"
        yield Finding("ok", "advertised", door.alias, suffix.strip(" ()"), what)


def _strangers(way: Way, suffix: str) -> Iterable[Finding]:
    ids: dict[str, list[str]] = {}
    for address in way.bootstrap:
        each = way.knock(address)
        if each.stage == "open" and each.cluster_id:
            ids.setdefault(each.cluster_id, []).append(_text(address))
    if len(ids) > 1:
        places = "; ".join(f"{some(places)} (id {cluster})" for cluster, places in ids.items())
        what = f"bootstrap.servers leads to {len(ids)} clusters: {places}"
        where = f"bootstrap.servers{suffix}"
        yield Finding("error", "cluster", way.door.alias, where, what, "keep the addresses of one of them")


def _explained(each: Knock, door: Door) -> tuple[str, str, str]:
    """(check, what, advice) of one who did not come in."""
    config = door.config
    protocol = f"{written(config, 'security.protocol')} = {config['security.protocol']}"
    match each.stage:
        case "name" if each.error in _STALE:
            return "name", f"the name cannot be resolved now: {each.trouble}", "check this machine's name servers"
        case "name":
            return "name", "there is no such host", "check the name, and that this machine's name servers know it"
        case "connection":
            return "connection", *_no_connection(each)
        case "tls" | "login" if each.speaks == "tls":
            wanted = "SASL_SSL" if uses_sasl(config) else "SSL, or SASL_SSL if it asks for a login"
            return "tls", f"the listener speaks TLS, but {protocol}", f"set it to {wanted}, or choose another port"
        case "tls" if each.speaks == "plain":
            wanted = "SASL_PLAINTEXT" if uses_sasl(config) else "PLAINTEXT"
            what = f"the listener speaks no TLS: it answers in plain text, but {protocol}"
            return "tls", what, f"choose the port of a TLS listener; or set it to {wanted} where nobody else listens"
        case "question" if each.mechanisms:
            wanted = "SASL_SSL" if uses_tls(config) else "SASL_PLAINTEXT"
            what = f"the listener asks for a login ({some(each.mechanisms, 8)}), but {protocol}"
            return "login", what, f"set it to {wanted}, with sasl.mechanism and sasl.jaas.config"
        case "question":
            return "connection", f"the first question has no answer: {each.trouble}", "look into the broker's log"
        case "tls" if not uses_tls(config):
            return "connection", *halves(each.trouble)
        case _:
            return each.stage, *halves(each.trouble)


def _no_connection(each: Knock) -> tuple[str, str]:
    if each.error == errno.ECONNREFUSED:
        return "connection refused", "check that the broker runs, and that this is the port of one of its listeners"
    if each.error == errno.ETIMEDOUT:
        return "no answer in time", "a firewall swallows it, or the host is down: open the port for this machine"
    if each is _ENDLESS:
        return each.trouble, "check this machine's name servers; and the token endpoint or the KDC, if there is one"
    if each.error in _AWAY:
        return "no way leads there", "check routes, VPN and peering between this machine and the host"
    return each.trouble.lower(), "check the address, and the network between here and there"


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
