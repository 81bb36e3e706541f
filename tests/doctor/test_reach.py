"""What it means how far somebody came."""

import errno
import socket

import pytest
from tests.doctor.conftest import inside, way

from twinlog.doctor import reach
from twinlog.doctor.facts import Knock

A, B, C = ("a.example", 9092), ("b.example", 9092), ("c.example", 9092)
TLS = {"security_protocol": "SSL"}
SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}


@pytest.mark.parametrize(
    ("knock", "settings", "check", "found"),
    [
        (Knock(stage="name", trouble="Name or service not known", error=socket.EAI_NONAME), {}, "name", "there is no such host"),
        (Knock(stage="name", trouble="Temporary failure", error=socket.EAI_AGAIN), {}, "name", "the name cannot be resolved now: Temporary failure"),
        (Knock(stage="connection", trouble="Connection refused", error=errno.ECONNREFUSED), {}, "connection", "connection refused"),
        (Knock(stage="connection", trouble="timed out", error=errno.ETIMEDOUT), {}, "connection", "no answer in time"),
        (Knock(stage="connection", trouble="No route to host", error=errno.EHOSTUNREACH), {}, "connection", "no way leads there"),
        (Knock(stage="connection", trouble="Odd Thing", error=errno.EMFILE), {}, "connection", "odd thing"),
        (Knock(stage="tls", trouble="closed", speaks="plain"), TLS, "tls", "the listener speaks no TLS: it answers in plain text, but us.security.protocol = SSL"),
        (Knock(stage="tls", trouble="it has expired: renew it"), TLS, "tls", "it has expired"),
        (Knock(stage="tls", trouble="x", speaks="tls"), {}, "tls", "the listener speaks TLS, but security.protocol = PLAINTEXT"),
        (Knock(stage="login", trouble="x", speaks="tls"), SASL, "tls", "the listener speaks TLS, but us.security.protocol = SASL_PLAINTEXT"),
        (Knock(stage="login", trouble="user 'x' is refused: check"), SASL, "login", "user 'x' is refused"),
        (Knock(stage="question", trouble="closed", mechanisms=("PLAIN",)), {}, "login", "the listener asks for a login (PLAIN), but security.protocol = PLAINTEXT"),
        (Knock(stage="question", trouble="closed"), {}, "connection", "the first question has no answer: closed"),
        (Knock(stage="tls", trouble="an answer of 7 bytes: is this port a Kafka listener?"), {}, "connection", "an answer of 7 bytes"),
    ],
)  # fmt: skip
def test_one_who_does_not_come_in(knock: Knock, settings: dict[str, str], check: str, found: str) -> None:
    (finding,) = reach.findings(way({A: knock}, **settings), alone=True)
    assert (finding.status, finding.check, finding.where, finding.found) == ("error", check, "a.example:9092", found)
    assert finding.advice


def test_one_who_never_came_back() -> None:
    tried = way({A: inside({})})
    lost = reach.Way(tried.door, [A], {})
    (finding,) = reach.findings(lost, alone=True)
    assert (finding.status, "name servers" in finding.advice) == ("error", True)


def test_some_of_several_addresses_are_down() -> None:
    refused = Knock(stage="connection", trouble="refused", error=errno.ECONNREFUSED)
    found = reach.findings(way({A: inside({0: A}), B: refused}), alone=False)
    assert [(each.status, each.where) for each in found] == [
        ("ok", "a.example:9092 (source.admin, source.consumer)"),
        ("warning", "b.example:9092 (source.admin, source.consumer)"),
        ("ok", "source.admin, source.consumer"),
    ]
    # The same one is a broker: what it leads cannot be copied.
    found = reach.findings(way({A: inside({0: A, 1: B}), B: refused}), alone=True)
    assert [each.status for each in found] == ["ok", "error"]


def test_addresses_that_brokers_advertise() -> None:
    unknown = Knock(stage="name", trouble="?", error=socket.EAI_NONAME)
    found = reach.findings(way({A: inside({0: A, 1: B})}, {B: unknown}), alone=True)
    assert [(each.status, each.check) for each in found] == [("ok", "connection"), ("error", "advertised")]
    assert found[1].found == "broker 1 advertises b.example:9092: there is no such host"
    # A lock that does not open is no matter of addresses.
    locked = Knock(stage="login", trouble="user 'x' is refused: check it")
    found = reach.findings(way({A: inside({0: A, 1: B})}, {B: locked}, **SASL), alone=True)
    assert (found[1].check, found[1].advice) == ("login", "check it")


def test_a_broker_that_advertises_localhost() -> None:
    home = ("localhost", 9092)
    here = inside({}, "127.0.0.1", "::1")
    found = reach.findings(way({A: inside({0: home})}, {home: here}), alone=True)
    assert (found[1].status, found[1].check) == ("error", "advertised")
    assert "that machine itself" in found[1].found
    # From the broker's own machine that is fine.
    found = reach.findings(way({A: inside({0: home}, "127.0.0.1")}, {home: here}), alone=True)
    assert [each.status for each in found] == ["ok", "ok"]


def test_addresses_of_other_clusters() -> None:
    found = reach.findings(way({A: inside({0: A}), B: inside({0: B}, cluster="two")}), alone=True)
    assert "bootstrap.servers leads to 2 clusters" in next(each for each in found if each.check == "cluster").found
    found = reach.findings(way({A: inside({0: A, 1: C})}, {C: inside({}, cluster="two")}), alone=True)
    assert found[1].found == "broker 1 advertises c.example:9092, where another cluster answers (id two)"
