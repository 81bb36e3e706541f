"""GSSAPI with a real KDC, a real broker and the system's Kerberos library, and the errors if one is missing."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import kdc
from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.errors import LabError
from lab.lab import Lab
from lab.listeners import GSSAPI
from lab.waiting import until
from tests.security.driver import authenticate, client
from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security import libgssapi
from twinlog.security.sasl import login


def settings(options: str, service: str | None = "kafka") -> dict[str, str]:
    found = {"sasl.jaas.config": f"com.sun.security.auth.module.Krb5LoginModule required {options};"}
    return found | ({"sasl.kerberos.service.name": service} if service else {})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (settings("", None), "sasl.kerberos.service.name is missing"),
        (
            settings('serviceName="x"'),
            "sasl.kerberos.service.name = kafka: differs from serviceName in sasl.jaas.config",
        ),
        (
            settings('keyTab="/k"'),
            'Krb5LoginModule has no credentials; set useKeyTab="true" with keyTab, or useTicketCache="true"',
        ),
    ],
)
def test_settings_that_cannot_work(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        login(client(given), "h")
    assert message in str(caught.value)


def test_a_machine_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libgssapi, "_NAMES", ("libnothing.so.1",))
    monkeypatch.setattr("ctypes.util.find_library", lambda _: None)
    libgssapi._library.cache_clear()
    try:
        with pytest.raises(ConfigError, match="the MIT Kerberos library is not installed"):
            login(client(settings('useKeyTab="true" keyTab="/k" principal="alice"')), "h")
    finally:
        libgssapi._library.cache_clear()


def test_a_machine_without_a_kdc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kdc, "_PATH", "")
    assert (
        kdc.missing()
        == "krb5kdc, kdb5_util, kadmin.local, kinit not found: install krb5-kdc, krb5-admin-server, krb5-user"
    )
    with pytest.raises(LabError, match="krb5kdc"):
        kdc.Kdc(tmp_path / "kdc")


needs_kdc = pytest.mark.skipif(kdc.missing() is not None, reason=kdc.missing() or "")


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Cluster:
    wanted = ClusterSpec(name="kerberos", listeners=(GSSAPI,), users=("alice",), authorizer=True)
    return lab.clusters(wanted)[0]


@pytest.fixture
def realm(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[kdc.Kdc]:
    """This process is a client of the cluster's KDC. A program would have /etc/krb5.conf."""
    assert cluster.kdc is not None
    monkeypatch.setenv("KRB5_CONFIG", str(cluster.kdc.config))
    monkeypatch.setenv("KRB5CCNAME", "FILE:/nowhere")
    yield cluster.kdc
    if not cluster.kdc.process.alive:
        cluster.kdc.start()


@pytest.mark.broker
@needs_kdc
def test_login_by_keytab(cluster: Cluster, realm: kdc.Kdc) -> None:
    given = cluster.client_properties(GSSAPI, "alice")
    assert authenticate(cluster, GSSAPI, given) == 0
    realm.process.pause()
    try:
        assert authenticate(cluster, GSSAPI, given) == 0  # with tickets that are still good
    finally:
        realm.process.resume()


@pytest.mark.broker
@needs_kdc
def test_login_by_ticket_cache(cluster: Cluster, realm: kdc.Kdc, tmp_path: Path) -> None:
    cache = tmp_path / "tickets"
    given = settings(f'useTicketCache="true" ticketCache="{cache}"')
    with pytest.raises(AuthenticationError) as caught:
        authenticate(cluster, GSSAPI, given)
    assert caught.value.retriable  # kinit may be late
    subprocess.run(["kinit", "-k", "-t", str(realm.keytab("alice")), "-c", str(cache), "alice"], check=True)
    assert authenticate(cluster, GSSAPI, given) == 0
    assert (
        authenticate(
            cluster, GSSAPI, settings(f'useTicketCache="true" ticketCache="{cache}" principal="alice@{kdc.REALM}"')
        )
        == 0
    )


@pytest.mark.broker
@needs_kdc
def test_a_keytab_is_used_where_the_ticket_cache_is_empty(cluster: Cluster, realm: kdc.Kdc) -> None:
    assert (
        authenticate(
            cluster, GSSAPI, settings(f'useTicketCache="true" useKeyTab="true" keyTab="{realm.keytab("alice")}"')
        )
        == 0
    )


def by_keytab(file: Path, principal: str) -> str:
    return f'useKeyTab="true" keyTab="{file}" principal="{principal}"'


@pytest.mark.broker
@needs_kdc
def test_errors_state_the_cause(cluster: Cluster, realm: kdc.Kdc, tmp_path: Path) -> None:
    alice, stale = realm.keytab("alice"), tmp_path / "stale.keytab"
    realm.keytab("bob")
    stale.write_bytes(realm.keytab("bob").read_bytes())
    realm.admin(f"cpw -randkey bob@{kdc.REALM}")
    cases = [
        (
            by_keytab(tmp_path / "none", "alice"),
            f"principal 'alice': keyTab {tmp_path}/none is missing, unreadable",
        ),
        (by_keytab(alice, "mallory"), "or has no key for this principal"),
        (by_keytab(stale, "bob"), "export the keytab again, its key differs from the KDC's"),
        (
            f'{by_keytab(alice, "alice")} serviceName="zoo"',
            "'alice', to zoo/127.0.0.1: Server zoo/127.0.0.1@LAB.TEST not found",
        ),
    ]
    for options, message in cases:
        with pytest.raises(AuthenticationError) as caught:
            authenticate(cluster, GSSAPI, settings(options, None if "zoo" in options else "kafka"))
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not caught.value.retriable


@pytest.mark.broker
@needs_kdc
def test_a_broker_with_another_service_principal(cluster: Cluster, realm: kdc.Kdc) -> None:
    realm.keytab("kafka/elsewhere")  # a service that the KDC knows, but not the broker's
    with pytest.raises(AuthenticationError) as caught:
        authenticate(cluster, GSSAPI, settings(by_keytab(realm.keytab("alice"), "alice")), host="elsewhere")
    assert "GSSAPI: authentication failed for principal 'alice': " in str(caught.value)
    assert "check that the broker's keytab has kafka/elsewhere" in str(caught.value)


@pytest.mark.broker
@needs_kdc
def test_an_expired_ticket(realm: kdc.Kdc, tmp_path: Path) -> None:
    cache = tmp_path / "tickets"
    given = client(settings(f'useTicketCache="true" ticketCache="{cache}"'))
    subprocess.run(["kinit", "-k", "-t", str(realm.keytab("alice")), "-c", str(cache), "-l", "1s", "alice"], check=True)
    message: list[AuthenticationError] = []

    def is_expired() -> bool:
        try:
            login(given, "127.0.0.1").first()
        except AuthenticationError as error:
            message.append(error)
        return bool(message)

    until(is_expired, "the end of a ticket", seconds=20)
    assert "GSSAPI: the default principal" in str(message[0])
    assert "Ticket expired; run kinit, or configure a keytab" in str(message[0])
    assert message[0].retriable


@pytest.mark.broker
@needs_kdc
def test_a_kdc_that_is_down(cluster: Cluster, realm: kdc.Kdc) -> None:
    file = realm.keytab("carol")
    realm.process.kill()
    with pytest.raises(AuthenticationError, match="GSSAPI: principal 'carol': Cannot contact any KDC") as caught:
        authenticate(cluster, GSSAPI, settings(by_keytab(file, "carol")))
    assert caught.value.retriable
