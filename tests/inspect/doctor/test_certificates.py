"""Expiry of certificates."""

import datetime as dt
from pathlib import Path

import pytest

from lab.certificates import PASSWORD, Authority
from tests.inspect.doctor.conftest import client, connected, reach
from twinlog.errors import AuthenticationError
from twinlog.inspect.doctor.certificates import findings, stored
from twinlog.inspect.doctor.facts import Dated, ProbeResult, TlsFacts
from twinlog.inspect.doctor.reachability import ClusterReach

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
AT = ("kafka.example", 9093)


def shown(days: float, issuer: str = "CN=ca") -> ClusterReach:
    tls = TlsFacts("TLSv1.3", issuer, NOW + dt.timedelta(days=days))
    return reach({AT: ProbeResult(stage="open", tls=tls)}, security_protocol="SSL")


def held(days: float, *, ours: bool, name: str = "CN=ca", begins: float = -400) -> Dated:
    start, end = NOW + dt.timedelta(days=begins), NOW + dt.timedelta(days=days)
    return Dated("us.ssl.location = /x", name, "CN=root", start, end, ours)


@pytest.mark.parametrize(("days", "statuses"), [(31, []), (29.5, ["warning"]), (0.5, ["warning"])])
def test_what_a_broker_shows(days: float, statuses: list[str]) -> None:
    found = findings(shown(days), [], NOW)
    assert [each.status for each in found] == statuses
    assert all(f"expires in {int(days)} day" in each.found for each in found)


@pytest.mark.parametrize(
    ("days", "begins", "status"), [(400, -1, "ok"), (29, -1, "warning"), (-1, -9, "error"), (9, 1, "error")]
)
def test_our_own(days: float, begins: float, status: str) -> None:
    (found,) = findings(shown(99), [held(days, ours=True, begins=begins)], NOW)
    assert found.status == status


def test_those_that_are_trusted() -> None:
    """Expired CAs of others are worth a note; the CA of the brokers is worth a warning."""
    strangers = [held(-5, ours=False, name=f"CN=old {n}") for n in range(5)]
    found = findings(shown(99), [held(400, ours=False), *strangers], NOW)
    assert [(each.status, each.found) for each in found] == [
        ("note", "5 trusted certificates expired or expiring soon: CN=old 0, CN=old 1, CN=old 2 and 2 more")
    ]
    (found_one,) = findings(shown(99), [held(10, ours=False)], NOW)
    assert (found_one.status, "CN=ca" in found_one.found) == ("warning", True)
    (gone,) = findings(shown(99), [held(-10, ours=False)], NOW)
    assert (gone.status, "expired on 2026-05-22" in gone.found) == ("warning", True)


def test_stores_are_read(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = {
        "security_protocol": "SSL",
        "ssl_truststore_type": "PKCS12",
        "ssl_truststore_location": str(authority.truststore),
        "ssl_truststore_password": PASSWORD,
        "ssl_keystore_type": "PKCS12",
        "ssl_keystore_location": str(authority.client("alice").keystore),
        "ssl_keystore_password": PASSWORD,
    }
    ours, trusted = stored(client(**settings))
    assert (ours.name, ours.issuer, ours.ours) == ("CN=alice", "CN=lab CA", True)
    assert (trusted.name, trusted.ours) == ("CN=lab CA", False)
    assert trusted.place == f"us.ssl.truststore.location = {authority.truststore}"
    assert stored(client()) == []
    with pytest.raises(AuthenticationError, match="No such file"):
        stored(client(**settings | {"ssl_truststore_location": "/nowhere"}))


def test_an_endpoint_without_tls_has_no_findings() -> None:
    assert findings(reach({AT: connected({})}), [], NOW) == []
