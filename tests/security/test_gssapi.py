"""Kerberos: a real KDC, a real broker, the system's own library; and what is said where one of them is missing."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.security.driver import client, knock

from twinlog.errors import ConfigError, LabError, LockedError
from twinlog.lab import kdc
from twinlog.lab.broker import ClusterSpec
from twinlog.lab.cluster import Cluster
from twinlog.lab.lab import Lab
from twinlog.lab.listeners import GSSAPI
from twinlog.lab.waiting import until
from twinlog.security import gss
from twinlog.security.sasl import login


def settings(options: str, service: str | None = "kafka") -> dict[str, str]:
    found = {"sasl.jaas.config": f"com.sun.security.auth.module.Krb5LoginModule required {options};"}
    return found | ({"sasl.kerberos.service.name": service} if service else {})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (settings("", None), "sasl.kerberos.service.name is missing"),
        (settings('serviceName="x"'), "sasl.kerberos.service.name = kafka is not serviceName in sasl.jaas.config"),
        (settings('keyTab="/k"'), 'Krb5LoginModule needs useKeyTab="true" with keyTab, or useTicketCache="true"'),
    ],
)
def test_settings_that_cannot_work(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        login(client(given), "h")
    assert said in str(caught.value)


def test_a_machine_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gss, "_NAMES", ("libnothing.so.1",))
    monkeypatch.setattr("ctypes.util.find_library", lambda _: None)
    gss._library.cache_clear()
    try:
        with pytest.raises(ConfigError, match="needs MIT Kerberos' library on this machine"):
            login(client(settings('useKeyTab="true" keyTab="/k" principal="alice"')), "h")
    finally:
        gss._library.cache_clear()


def test_a_machine_without_a_kdc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kdc, "_PATH", "")
    assert (
        kdc.missing()
        == "no krb5kdc, no kdb5_util, no kadmin.local, no kinit on this machine: install krb5-kdc, krb5-admin-server, krb5-user"
    )
    with pytest.raises(LabError, match="no krb5kdc"):
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
def test_a_broker_lets_us_in_by_keytab(cluster: Cluster, realm: kdc.Kdc) -> None:
    given = cluster.client_properties(GSSAPI, "alice")
    assert knock(cluster, GSSAPI, given) == 0
    realm.process.pause()
    try:
        assert knock(cluster, GSSAPI, given) == 0  # with tickets that are still good
    finally:
        realm.process.resume()


@pytest.mark.broker
@needs_kdc
def test_a_broker_lets_us_in_by_ticket_cache(cluster: Cluster, realm: kdc.Kdc, tmp_path: Path) -> None:
    cache = tmp_path / "tickets"
    given = settings(f'useTicketCache="true" ticketCache="{cache}"')
    with pytest.raises(LockedError) as caught:
        knock(cluster, GSSAPI, given)
    assert caught.value.heals  # kinit may be late
    subprocess.run(["kinit", "-k", "-t", str(realm.keytab("alice")), "-c", str(cache), "alice"], check=True)
    assert knock(cluster, GSSAPI, given) == 0
    assert (
        knock(cluster, GSSAPI, settings(f'useTicketCache="true" ticketCache="{cache}" principal="alice@{kdc.REALM}"'))
        == 0
    )


@pytest.mark.broker
@needs_kdc
def test_a_keytab_is_used_where_the_ticket_cache_is_empty(cluster: Cluster, realm: kdc.Kdc) -> None:
    assert (
        knock(cluster, GSSAPI, settings(f'useTicketCache="true" useKeyTab="true" keyTab="{realm.keytab("alice")}"'))
        == 0
    )


def by_keytab(file: Path, principal: str) -> str:
    return f'useKeyTab="true" keyTab="{file}" principal="{principal}"'


@pytest.mark.broker
@needs_kdc
def test_what_is_refused_and_why(cluster: Cluster, realm: kdc.Kdc, tmp_path: Path) -> None:
    alice, stale = realm.keytab("alice"), tmp_path / "stale.keytab"
    realm.keytab("bob")
    stale.write_bytes(realm.keytab("bob").read_bytes())
    realm.admin(f"cpw -randkey bob@{kdc.REALM}")
    cases = [
        (
            by_keytab(tmp_path / "none", "alice"),
            f"principal 'alice': keyTab {tmp_path}/none is not there, cannot be read",
        ),
        (by_keytab(alice, "mallory"), "or has no key of this principal"),
        (by_keytab(stale, "bob"), "the key in the keytab is not the KDC's: export it anew"),
        (
            f'{by_keytab(alice, "alice")} serviceName="zoo"',
            "'alice', to zoo/127.0.0.1: Server zoo/127.0.0.1@LAB.TEST not found",
        ),
    ]
    for options, said in cases:
        with pytest.raises(LockedError) as caught:
            knock(cluster, GSSAPI, settings(options, None if "zoo" in options else "kafka"))
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not caught.value.heals


@pytest.mark.broker
@needs_kdc
def test_a_broker_that_is_somebody_else(cluster: Cluster, realm: kdc.Kdc) -> None:
    realm.keytab("kafka/elsewhere")  # the KDC knows that broker, but it is not the one that we reach
    with pytest.raises(LockedError) as caught:
        knock(cluster, GSSAPI, settings(by_keytab(realm.keytab("alice"), "alice")), host="elsewhere")
    assert "GSSAPI: principal 'alice' is refused (" in str(caught.value)
    assert "check that the broker's keytab holds kafka/elsewhere" in str(caught.value)


@pytest.mark.broker
@needs_kdc
def test_a_ticket_that_is_over(realm: kdc.Kdc, tmp_path: Path) -> None:
    cache = tmp_path / "tickets"
    given = client(settings(f'useTicketCache="true" ticketCache="{cache}"'))
    subprocess.run(["kinit", "-k", "-t", str(realm.keytab("alice")), "-c", str(cache), "-l", "1s", "alice"], check=True)
    said: list[LockedError] = []

    def is_over() -> bool:
        try:
            login(given, "127.0.0.1").first()
        except LockedError as error:
            said.append(error)
        return bool(said)

    until(is_over, "the end of a ticket", seconds=20)
    assert "GSSAPI: the default principal" in str(said[0])
    assert "Ticket expired: run kinit, or name a keytab" in str(said[0])
    assert said[0].heals


@pytest.mark.broker
@needs_kdc
def test_a_kdc_that_is_down(cluster: Cluster, realm: kdc.Kdc) -> None:
    file = realm.keytab("carol")
    realm.process.kill()
    with pytest.raises(LockedError, match="GSSAPI: principal 'carol': Cannot contact any KDC") as caught:
        knock(cluster, GSSAPI, settings(by_keytab(file, "carol")))
    assert caught.value.heals
