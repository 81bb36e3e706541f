"""Findings about the reachability of a cluster's addresses."""

import errno
import socket

import pytest

from tests.inspect.doctor.conftest import connected, reach
from twinlog.inspect.doctor import reachability
from twinlog.inspect.doctor.facts import ProbeResult

A, B, C = ("a.example", 9092), ("b.example", 9092), ("c.example", 9092)
TLS = {"security_protocol": "SSL"}
SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}


@pytest.mark.parametrize(
    ("result", "settings", "check", "found"),
    [
        (ProbeResult(stage="name", problem="Name or service not known", error=socket.EAI_NONAME), {}, "name", "unknown host"),
        (ProbeResult(stage="name", problem="Temporary failure", error=socket.EAI_AGAIN), {}, "name", "host name resolution failed temporarily: Temporary failure"),
        (ProbeResult(stage="connection", problem="Connection refused", error=errno.ECONNREFUSED), {}, "connection", "connection refused"),
        (ProbeResult(stage="connection", problem="timed out", error=errno.ETIMEDOUT), {}, "connection", "connection timed out"),
        (ProbeResult(stage="connection", problem="No route to host", error=errno.EHOSTUNREACH), {}, "connection", "host unreachable"),
        (ProbeResult(stage="connection", problem="Odd Thing", error=errno.EMFILE), {}, "connection", "odd thing"),
        (ProbeResult(stage="tls", problem="closed", speaks="plain"), TLS, "tls", "the listener uses plaintext, but us.security.protocol = SSL"),
        (ProbeResult(stage="tls", problem="it has expired", advice="renew it"), TLS, "tls", "it has expired"),
        (ProbeResult(stage="tls", problem="x", speaks="tls"), {}, "tls", "the listener uses TLS, but security.protocol = PLAINTEXT"),
        (ProbeResult(stage="login", problem="x", speaks="tls"), SASL, "tls", "the listener uses TLS, but us.security.protocol = SASL_PLAINTEXT"),
        (ProbeResult(stage="login", problem="user 'x' is refused", advice="check"), SASL, "login", "user 'x' is refused"),
        (ProbeResult(stage="request", problem="closed", mechanisms=("PLAIN",)), {}, "login", "the listener requires SASL authentication (PLAIN), but security.protocol = PLAINTEXT"),
        (ProbeResult(stage="request", problem="closed"), {}, "connection", "the first request failed: closed"),
        (ProbeResult(stage="tls", problem="response of 7 bytes", advice="check that the port is a Kafka listener"), {}, "connection", "response of 7 bytes"),
    ],
)  # fmt: skip
def test_a_failed_probe(result: ProbeResult, settings: dict[str, str], check: str, found: str) -> None:
    (finding,) = reachability.findings(reach({A: result}, **settings), alone=True)
    assert (finding.status, finding.check, finding.where, finding.found) == ("error", check, "a.example:9092", found)
    assert finding.advice


def test_a_probe_that_did_not_finish() -> None:
    tried = reach({A: connected({})})
    lost = reachability.ClusterReach(tried.endpoint, [A], {})
    (finding,) = reachability.findings(lost, alone=True)
    assert (finding.status, "DNS servers" in finding.advice) == ("error", True)


def test_some_of_several_addresses_are_down() -> None:
    refused = ProbeResult(stage="connection", problem="refused", error=errno.ECONNREFUSED)
    found = reachability.findings(reach({A: connected({0: A}), B: refused}), alone=False)
    assert [(each.status, each.where) for each in found] == [
        ("ok", "a.example:9092 (source.admin, source.consumer)"),
        ("warning", "b.example:9092 (source.admin, source.consumer)"),
        ("ok", "source.admin, source.consumer"),
    ]
    # The same one is a broker: what it leads cannot be copied.
    found = reachability.findings(reach({A: connected({0: A, 1: B}), B: refused}), alone=True)
    assert [each.status for each in found] == ["ok", "error"]


def test_addresses_that_brokers_advertise() -> None:
    unknown = ProbeResult(stage="name", problem="?", error=socket.EAI_NONAME)
    found = reachability.findings(reach({A: connected({0: A, 1: B})}, {B: unknown}), alone=True)
    assert [(each.status, each.check) for each in found] == [("ok", "connection"), ("error", "advertised")]
    assert found[1].found == "broker 1 advertises b.example:9092: unknown host"
    # A failed authentication is not a matter of addresses.
    denied = ProbeResult(stage="login", problem="user 'x' is refused", advice="check it")
    found = reachability.findings(reach({A: connected({0: A, 1: B})}, {B: denied}, **SASL), alone=True)
    assert (found[1].check, found[1].advice) == ("login", "check it")


def test_a_broker_that_advertises_localhost() -> None:
    home = ("localhost", 9092)
    here = connected({}, "127.0.0.1", "::1")
    found = reachability.findings(reach({A: connected({0: home})}, {home: here}), alone=True)
    assert (found[1].status, found[1].check) == ("error", "advertised")
    assert "a loopback address" in found[1].found
    # From the broker's own machine that is fine.
    found = reachability.findings(reach({A: connected({0: home}, "127.0.0.1")}, {home: here}), alone=True)
    assert [each.status for each in found] == ["ok", "ok"]


def test_addresses_of_other_clusters() -> None:
    found = reachability.findings(reach({A: connected({0: A}), B: connected({0: B}, cluster="two")}), alone=True)
    assert "bootstrap.servers refers to 2 clusters" in next(each for each in found if each.check == "cluster").found
    found = reachability.findings(reach({A: connected({0: A, 1: C})}, {C: connected({}, cluster="two")}), alone=True)
    assert found[1].found == "broker 1 advertises c.example:9092, which belongs to another cluster (id two)"
