"""TLS handshakes with real brokers and misconfigured servers, and the message of each failure."""

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from lab.certificates import PASSWORD as LAB_PASSWORD
from lab.certificates import Authority
from lab.cluster import Cluster
from lab.listeners import MUTUAL_TLS, PLAINTEXT, TLS, Listener
from tests.security.tls_kit import Issued, client, issue, keytool, server_context, serving
from twinlog.errors import AuthenticationError, TwinlogError
from twinlog.security.tls_handshake import explain, handshake

ROOT = issue("root", authority=True)
LEAF = issue("leaf", ROOT, names=["localhost", "127.0.0.1"])

# ApiVersions, version 0, without a client id: what a broker answers before any login.
API_VERSIONS = bytes.fromhex("0000000a0012000000000001ffff")


def trusting(*anchors: Issued, **more: str) -> dict[str, str]:
    pem = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "".join(each.pem for each in anchors)}
    return pem | {"security.protocol": "SSL"} | {key.replace("_", "."): text for key, text in more.items()}


def connect(properties: Mapping[str, str], port: int, host: str = "localhost") -> ssl.SSLSocket:
    return handshake(socket.create_connection((host, port), 10), client(properties), host, port)


def refused(properties: Mapping[str, str], port: int, host: str = "localhost") -> AuthenticationError:
    """The error of a handshake, or of the first read behind it."""
    try:
        with connect(properties, port, host) as sock:
            sock.recv(1)
    except AuthenticationError as error:
        found = error
    except OSError as error:
        found = explain(error, host, port, client(properties))
    else:
        pytest.fail("it was let in")
    assert str(found).startswith(f"{host}:{port}: ")
    assert "\n" not in str(found)
    return found


# Real brokers


def ask(properties: Mapping[str, str], port: int) -> bytes:
    with connect(properties, port) as sock:
        sock.sendall(API_VERSIONS)
        return sock.recv(1024)


def port_of(cluster: Cluster, listener: Listener) -> int:
    return int(cluster.bootstrap(listener).rpartition(":")[2])


@pytest.mark.broker
@pytest.mark.parametrize("listener", [TLS, MUTUAL_TLS], ids=lambda listener: listener.name)
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_handshake(secure: Cluster, listener: Listener, version: str) -> None:
    properties = secure.client_properties(listener, "alice") | {"ssl.enabled.protocols": version}
    answer = ask(properties, port_of(secure, listener))
    assert answer[4:8] == API_VERSIONS[8:12]  # the number of our request


@pytest.mark.broker
def test_handshake_with_keystores_written_by_keytool(secure: Cluster, tmp_path: Path) -> None:
    properties = secure.client_properties(MUTUAL_TLS, "alice")
    for side in ("truststore", "keystore"):
        from_store = ("-srckeystore", properties[f"ssl.{side}.location"], "-srcstorepass", LAB_PASSWORD)
        to_store = ("-destkeystore", str(tmp_path / side), "-deststorepass", LAB_PASSWORD, "-deststoretype", "JKS")
        keytool("-importkeystore", "-noprompt", *from_store, *to_store)
        properties |= {f"ssl.{side}.location": str(tmp_path / side), f"ssl.{side}.type": "JKS"}
    assert ask(properties, port_of(secure, MUTUAL_TLS))[4:8] == API_VERSIONS[8:12]


@pytest.mark.broker
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_broker_that_requires_a_client_certificate(secure: Cluster, tmp_path: Path, version: str) -> None:
    port = port_of(secure, MUTUAL_TLS)
    without = secure.client_properties(TLS) | {"ssl.enabled.protocols": version}
    error = refused(without, port)
    assert "requires a client certificate; set ssl.keystore.location" in str(error)
    assert not error.retriable
    forged = Authority(tmp_path).client("alice")
    strange = secure.client_properties(MUTUAL_TLS, "alice") | {"ssl.enabled.protocols": version}
    strange["ssl.keystore.location"] = str(forged.keystore)
    error = refused(strange, port)
    assert f"rejected the client certificate of us.ssl.keystore.location = {forged.keystore}" in str(error)
    assert not error.retriable


@pytest.mark.broker
def test_a_listener_without_tls(secure: Cluster) -> None:
    error = refused(secure.client_properties(TLS), port_of(secure, PLAINTEXT))
    assert "check that the listener uses TLS (us.security.protocol = SSL)" in str(error)
    assert error.retriable  # a broker that is stopped in that moment looks the same


@pytest.mark.broker
def test_a_broker_of_another_ca_is_not_trusted(secure: Cluster) -> None:
    error = refused(trusting(ROOT), port_of(secure, TLS))
    assert "issued by 'CN=" in str(error)
    assert str(error).endswith("is not trusted; add its CA to us.ssl.truststore.certificates")
    assert not error.retriable


# Misconfigured servers


@pytest.mark.parametrize(
    ("chain", "properties", "expected", "retriable"),
    [
        ([issue("x", ROOT, days=(-9, -1), names=["localhost"])], trusting(ROOT), "broker certificate expired on 20", True),
        ([issue("x", ROOT, days=(2, 9), names=["localhost"])], trusting(ROOT), "is not valid before 20", True),
        ([LEAF], trusting(issue("y", authority=True)), "issued by 'CN=root' is not trusted; add its CA to", False),
        ([LEAF], {"security.protocol": "SSL"}, "not trusted by this system; set ssl.truststore.location", False),
        ([issue("x", names=["localhost"])], trusting(ROOT), "issued by 'CN=x' is not trusted", False),
        (
            [issue("x", ROOT, names=["a.example.com", "b.example.com", "10.0.0.1"])],
            trusting(ROOT),
            "is for a.example.com, b.example.com, 10.0.0.1, not for localhost; address the broker by one of its names, or "
            "leave ssl.endpoint.identification.algorithm empty",
            False,
        ),
        ([issue("x", ROOT)], trusting(ROOT), "is for x, not for localhost", False),
        ([issue("x", ROOT, names=[f"n{at}.example.com" for at in range(20)])], trusting(ROOT), " and 12 more, not", False),
        (
            [issue("x", ROOT, names=["localhost"], purposes=[ExtendedKeyUsageOID.CLIENT_AUTH])],
            trusting(ROOT),
            "lacks the extended key usage serverAuth",
            False,
        ),
    ],
    ids=["expired", "early", "unknown", "system", "self-signed", "names", "common name", "many names", "purpose"],
)  # fmt: skip
def test_rejected_certificates(
    tmp_path: Path, chain: list[Issued], properties: dict[str, str], expected: str, retriable: bool
) -> None:
    with serving(server_context(tmp_path, *chain)) as port:
        error = refused(properties, port)
    assert expected in str(error)
    assert error.retriable == retriable


def test_an_expired_ca_is_named(tmp_path: Path) -> None:
    old = issue("old", authority=True, days=(-9, -1))
    with serving(server_context(tmp_path, issue("leaf", old, names=["localhost"]))) as port:
        error = refused(trusting(old), port)
    assert "CA certificate 'CN=old' expired on 20" in str(error)
    assert str(error).endswith("renew it in us.ssl.truststore.certificates")


def test_a_name_with_a_dot_behind_it_and_an_address_are_fine(tmp_path: Path) -> None:
    with serving(server_context(tmp_path, LEAF)) as port:
        for host in ("localhost", "localhost.", "127.0.0.1"):
            sock = socket.create_connection(("localhost", port), 10)
            with handshake(sock, client(trusting(ROOT)), host, port) as secured:
                assert secured.recv(5) == b"hello"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ((ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3), {"ssl.enabled.protocols": "TLSv1.2"}),
        ((ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2), {"ssl.enabled.protocols": "TLSv1.3"}),
        ((ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2), {"ssl.cipher.suites": "TLS_RSA_WITH_AES_128_GCM_SHA256"}),
    ],
)
def test_nothing_in_common(tmp_path: Path, theirs: tuple[ssl.TLSVersion, ssl.TLSVersion], ours: dict[str, str]) -> None:
    server = server_context(tmp_path, LEAF)
    server.minimum_version, server.maximum_version = theirs
    with serving(server) as port:
        error = refused(trusting(ROOT) | ours, port)
    assert "check ssl.enabled.protocols" in str(error)
    assert "ssl.cipher.suites" in str(error)
    assert not error.retriable


def test_a_suite_that_was_not_listed_is_refused(tmp_path: Path) -> None:
    server = server_context(tmp_path, LEAF)
    listed = {"TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"}
    with serving(server) as port:
        with connect(trusting(ROOT), port) as sock:
            chosen = (sock.cipher() or ("",))[0]
        with connect(trusting(ROOT) | {"ssl.cipher.suites": chosen}, port) as sock:
            assert sock.recv(5) == b"hello"
        for other in sorted(listed - {chosen}):
            properties = trusting(ROOT) | {"ssl.cipher.suites": other}
            if hasattr(ssl.SSLContext, "set_ciphersuites"):
                with connect(properties, port) as sock:
                    assert (sock.cipher() or ("",))[0] == other
            else:
                assert f"broker chose {chosen}, which us.ssl.cipher.suites does not list" in str(
                    refused(properties, port)
                )


@pytest.mark.parametrize("first", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\4hello", b"SSH-2.0-x\r\n"])
def test_a_port_of_another_protocol(first: bytes) -> None:
    with serving(None, first) as port:
        error = refused(trusting(ROOT), port)
    assert "the listener does not use TLS; check us.security.protocol = SSL and the port" in str(error)
    assert not error.retriable


def test_a_handshake_that_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        sock = socket.create_connection(("127.0.0.1", port), 0.2)
        with pytest.raises(AuthenticationError, match="TLS handshake timed out") as refusal:
            handshake(sock, client(trusting(ROOT)), "localhost", port)
    assert refusal.value.retriable
    assert sock.fileno() == -1


@pytest.mark.parametrize("host", [".example.com", "", ".", "a\0b", "x" * 64 + ".com", "a..b"])
def test_an_invalid_host_name(host: str) -> None:
    ours, theirs = socket.socketpair()
    with theirs, pytest.raises(AuthenticationError, match="not a valid host name"):
        handshake(ours, client(trusting(ROOT)), host, 1)
    assert ours.fileno() == -1


@pytest.mark.parametrize("settings", [{"ssl.truststore.location": "none.jks"}, {"ssl.cipher.suites": "none"}])
def test_settings_that_cannot_be_used_close_the_connection(settings: dict[str, str]) -> None:
    ours, theirs = socket.socketpair()
    with theirs, pytest.raises(TwinlogError, match=r"^us.ssl."):
        handshake(ours, client(settings), "localhost", 1)
    assert ours.fileno() == -1
