"""Findings about the reachability of a cluster's addresses, from probe results. Pure."""

import errno
import ipaddress
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from twinlog.inspect.doctor.facts import Address, Endpoint, ProbeResult
from twinlog.inspect.doctor.findings import Finding, Status, some
from twinlog.kafka.connect import uses_sasl, uses_tls
from twinlog.security.keystores import written
from twinlog.text import counted

_UNREACHABLE: Final = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN}
_TEMPORARY: Final = {socket.EAI_AGAIN}
_UNFINISHED: Final = ProbeResult(
    stage="connection", problem="the probe did not finish in time", error=errno.EINPROGRESS
)


@dataclass(frozen=True, slots=True)
class ClusterReach:
    """The probe results of an endpoint: for bootstrap.servers, then for the addresses that brokers advertise."""

    endpoint: Endpoint
    bootstrap: Sequence[Address]
    results: Mapping[Address, ProbeResult]

    def result(self, address: Address) -> ProbeResult:
        return self.results.get(address, _UNFINISHED)

    @property
    def open(self) -> list[ProbeResult]:
        return [each for at in self.bootstrap if (each := self.result(at)).stage == "open"]

    @property
    def brokers(self) -> dict[int, Address]:
        """By their advertised addresses."""
        return {node: address for each in self.open for node, address in each.brokers.items()}

    @property
    def reaches_all(self) -> bool:
        return all(self.result(address).stage == "open" for address in self.brokers.values())

    @property
    def connected(self) -> list[ProbeResult]:
        return [each for each in self.results.values() if each.stage == "open"]


def findings(reach: ClusterReach, *, alone: bool) -> list[Finding]:
    """`alone`: the cluster has no other endpoint, so the roles need not be shown."""
    endpoint, brokers = reach.endpoint, reach.brokers
    suffix = "" if alone else f" ({endpoint.user})"
    found: list[Finding] = []
    for address in reach.bootstrap:
        each = reach.result(address)
        where = _text(address) + suffix
        if each.stage == "open":
            found.append(Finding("ok", "connection", endpoint.alias, where, _connected(each, endpoint)))
            continue
        check, what, advice = _explained(each, endpoint)
        status: Status = "error"
        if reach.open and address not in brokers.values():
            status, what = "warning", f"{what} (other addresses in bootstrap.servers respond)"
        found.append(Finding(status, check, endpoint.alias, where, what, advice))
    found += _several_clusters(reach, suffix)
    if reach.open:
        found += _advertised(reach, suffix)
    return found


def _connected(each: ProbeResult, endpoint: Endpoint) -> str:
    parts = ["connected"]
    if each.tls is not None:
        parts.append(f"{each.tls.version}, certificate valid until {each.tls.expires:%Y-%m-%d}")
    if uses_sasl(endpoint.config):
        parts.append(f"authenticated ({endpoint.config['sasl.mechanism']})")
    return ", ".join(parts)


def _advertised(reach: ClusterReach, suffix: str) -> Iterable[Finding]:
    """The classic mistake with containers and clouds: brokers advertise an address that clients cannot reach."""
    endpoint, brokers = reach.endpoint, reach.brokers
    cluster_id = next((each.cluster_id for each in reach.open), None)
    remote = any(not _loopback(address) for each in reach.open for address in each.resolved)
    good = 0
    for node, address in sorted(brokers.items()):
        each = reach.result(address)
        where, advertises = _text(address) + suffix, f"broker {node} advertises {_text(address)}"
        remedy = f"set advertised.listeners of broker {node} to an address that clients can reach"
        if each.stage != "open":
            if address in reach.bootstrap:
                continue  # reported there
            check, what, advice = _explained(each, endpoint)
            if check in ("name", "connection"):
                check, advice = "advertised", f"{remedy}, or use the listener for this network"
            yield Finding("error", check, endpoint.alias, where, f"{advertises}: {what}", advice)
        elif remote and all(map(_loopback, each.resolved)):
            what = f"{advertises}, a loopback address"
            yield Finding("error", "advertised", endpoint.alias, where, what, remedy)
        elif cluster_id is not None and each.cluster_id not in (cluster_id, None):
            what = f"{advertises}, which belongs to another cluster (id {each.cluster_id})"
            yield Finding("error", "advertised", endpoint.alias, where, what, remedy)
        else:
            good += 1
    if good == len(brokers):
        what = f"{counted(good, 'broker')} advertise{'s' * (good == 1)} an address that this machine can reach"
        yield Finding("ok", "advertised", endpoint.alias, suffix.strip(" ()"), what)


def _several_clusters(reach: ClusterReach, suffix: str) -> Iterable[Finding]:
    ids: dict[str, list[str]] = {}
    for address in reach.bootstrap:
        each = reach.result(address)
        if each.stage == "open" and each.cluster_id:
            ids.setdefault(each.cluster_id, []).append(_text(address))
    if len(ids) > 1:
        places = "; ".join(f"{some(places)} (id {cluster})" for cluster, places in ids.items())
        what = f"bootstrap.servers refers to {len(ids)} clusters: {places}"
        where = f"bootstrap.servers{suffix}"
        yield Finding("error", "cluster", reach.endpoint.alias, where, what, "use the addresses of one cluster only")


def _explained(each: ProbeResult, endpoint: Endpoint) -> tuple[str, str, str]:
    """(check, problem, advice) of a failed probe."""
    config = endpoint.config
    protocol = f"{written(config, 'security.protocol')} = {config['security.protocol']}"
    match each.stage:
        case "name" if each.error in _TEMPORARY:
            return (
                "name",
                f"host name resolution failed temporarily: {each.problem}",
                "check this machine's DNS servers",
            )
        case "name":
            return "name", "unknown host", "check the host name and this machine's DNS servers"
        case "connection":
            return "connection", *_no_connection(each)
        case "tls" | "login" if each.speaks == "tls":
            wanted = "SASL_SSL" if uses_sasl(config) else "SSL, or SASL_SSL if it requires authentication"
            return "tls", f"the listener uses TLS, but {protocol}", f"set it to {wanted}, or use another port"
        case "tls" if each.speaks == "plain":
            wanted = "SASL_PLAINTEXT" if uses_sasl(config) else "PLAINTEXT"
            what = f"the listener uses plaintext, but {protocol}"
            return "tls", what, f"use the port of a TLS listener, or set it to {wanted} on a trusted network"
        case "request" if each.mechanisms:
            wanted = "SASL_SSL" if uses_tls(config) else "SASL_PLAINTEXT"
            what = f"the listener requires SASL authentication ({some(each.mechanisms, 8)}), but {protocol}"
            return "login", what, f"set it to {wanted}, with sasl.mechanism and sasl.jaas.config"
        case "request":
            return "connection", f"the first request failed: {each.problem}", "check the broker's log"
        case "tls" if not uses_tls(config):
            return "connection", each.problem, each.advice
        case _:
            return each.stage, each.problem, each.advice


def _no_connection(each: ProbeResult) -> tuple[str, str]:
    if each.error == errno.ECONNREFUSED:
        return "connection refused", "check that the broker runs and that the port is that of a listener"
    if each.error == errno.ETIMEDOUT:
        return "connection timed out", "check that the host is up and that no firewall blocks the port"
    if each is _UNFINISHED:
        return each.problem, "check this machine's DNS servers, and the token endpoint or KDC, if there is one"
    if each.error in _UNREACHABLE:
        return "host unreachable", "check routes, VPN and peering between this machine and the host"
    return each.problem.lower(), "check the address and the network in between"


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
