"""The SSLContext of `ssl.*` settings accepts the versions, suites, names and chains that Java accepts, and no others."""

import datetime as dt
import logging
import os
import shutil
import ssl
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from lab.kafka_classes import KafkaJvm
from tests.security.tls_kit import Issued, JavaClient, client, issue, server_context
from twinlog.config import load
from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security import keystores, ssl_context

ROOT = issue("root", authority=True)
MIDDLE = issue("middle", ROOT, authority=True)
LEAF = issue("leaf", MIDDLE, names=["localhost"])
OTHER = issue("other", authority=True)


def trusting(*anchors: Issued, **more: str) -> dict[str, str]:
    pem = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "".join(each.pem for each in anchors)}
    return pem | {key.replace("_", "."): text for key, text in more.items()}


def shakes_hands(properties: Mapping[str, str], server: ssl.SSLContext, host: str = "localhost") -> str | None:
    """None if so; else why not. Bytes are carried by hand."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = ssl_context.context(client(properties)).wrap_bio(back, there, server_hostname=host)
    theirs = server.wrap_bio(there, back, server_side=True)
    done: set[ssl.SSLObject] = set()
    try:
        while len(done) < 2:
            for end in (ours, theirs):
                try:
                    end.do_handshake()
                    done.add(end)
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLError as error:
        return str(error)
    return None


# Chains and names, compared with Java


@pytest.mark.java
@pytest.mark.parametrize(
    ("anchors", "chain", "fine"),
    [
        ([ROOT], [LEAF, MIDDLE], True),
        ([MIDDLE], [LEAF], True),
        ([MIDDLE], [LEAF, MIDDLE], True),
        ([LEAF], [LEAF], True),
        ([ROOT, OTHER], [LEAF, OTHER, MIDDLE], True),
        ([OTHER], [LEAF, MIDDLE], False),
        ([ROOT], [LEAF], False),
        ([ROOT], [issue("expired", ROOT, days=(-9, -1), names=["localhost"])], False),
        ([ROOT], [issue("early", ROOT, days=(1, 9), names=["localhost"])], False),
        ([ROOT], [issue("client", ROOT, names=["localhost"], purposes=[ExtendedKeyUsageOID.CLIENT_AUTH])], False),
        ([ROOT], [issue("weak", ROOT, names=["localhost"], key=rsa.generate_private_key(65537, 1024))], True),
        ([ROOT], [issue("no authority", LEAF, names=["localhost"]), LEAF, MIDDLE], False),
    ],
    ids=["root", "intermediate, leaf alone", "intermediate", "the broker's own", "in any order", "unknown",
         "a link is missing", "expired", "not yet valid", "for clients only", "RSA 1024", "issued by no authority"],
)  # fmt: skip
def test_chains_are_trusted_as_java_trusts_them(
    kafka_jvm: KafkaJvm, tmp_path: Path, anchors: list[Issued], chain: list[Issued], fine: bool
) -> None:
    server = server_context(tmp_path, *chain)
    properties = trusting(*anchors)
    java = JavaClient(kafka_jvm).handshake(properties, server)
    assert (java is None) == fine, java
    ours = shakes_hands(properties, server)
    assert (ours is None) == fine, ours


@pytest.mark.java
@pytest.mark.parametrize(
    ("common", "names", "host", "fine"),
    [
        ("x", ["localhost"], "localhost", True),
        ("x", ["LOCALHOST"], "localhost", True),
        ("x", ["*.example.com"], "kafka.example.com", True),
        ("x", ["*.example.com"], "a.kafka.example.com", False),
        ("x", ["*.example.com"], "example.com", False),
        ("x", ["kafka*.example.com"], "kafka-7.example.com", True),
        ("x", ["127.0.0.1"], "127.0.0.1", True),
        ("127.0.0.1", [], "127.0.0.1", False),
        ("x", ["127.0.0.1"], "127.0.0.2", False),
        ("kafka.example.com", [], "kafka.example.com", True),
        ("kafka.example.com", ["10.0.0.1"], "kafka.example.com", True),
        ("kafka.example.com", ["other.example.com"], "kafka.example.com", False),
        ("*.example.com", [], "kafka.example.com", True),
    ],
)
def test_host_names_are_matched_as_java_matches_them(
    kafka_jvm: KafkaJvm, tmp_path: Path, common: str, names: list[str], host: str, fine: bool
) -> None:
    server = server_context(tmp_path, issue(common, ROOT, names=names))
    java = JavaClient(kafka_jvm).handshake(trusting(ROOT), server, host)
    assert (java is None) == fine, java
    ours = shakes_hands(trusting(ROOT), server, host)
    assert (ours is None) == fine, ours
    unchecked = trusting(ROOT, ssl_endpoint_identification_algorithm="")
    assert JavaClient(kafka_jvm).handshake(unchecked, server, host) is None
    assert shakes_hands(unchecked, server, host) is None


def test_without_the_check_of_names_the_chain_is_still_checked(tmp_path: Path) -> None:
    unchecked = trusting(OTHER, ssl_endpoint_identification_algorithm="")
    assert "CERTIFICATE_VERIFY_FAILED" in (shakes_hands(unchecked, server_context(tmp_path, LEAF, MIDDLE)) or "")


def test_an_unknown_identification_algorithm_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"us.ssl.endpoint.identification.algorithm = none: not supported; use https"):
        ssl_context.context(client(trusting(ROOT, ssl_endpoint_identification_algorithm="none")))
    for known in ("HTTPS", "https", "LDAPS"):
        assert ssl_context.context(client(trusting(ROOT, ssl_endpoint_identification_algorithm=known))).check_hostname


# Versions and suites


@pytest.mark.java
@pytest.mark.parametrize(
    ("protocol", "enabled", "suites", "expected"),
    [
        (None, None, None, "1.2 1.3"),
        ("TLSv1.2", None, None, "1.2"),
        ("tlsv1.2", "", None, "1.2"),
        ("TLS", "", None, "1.2 1.3"),
        ("SSL", None, None, "1.2 1.3"),
        (None, "TLSv1.2", None, "1.2"),
        (None, "TLSv1.3", None, "1.3"),
        (None, "TLSv1.1,TLSv1.2", None, "1.2"),
        (None, None, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "1.2"),
        (None, None, "TLS_AES_256_GCM_SHA384", "1.3"),
        (None, None, "TLS_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "1.2 1.3"),
        (None, None, "TLS_RSA_WITH_AES_128_CBC_SHA", ""),  # the server has no RSA key
        ("TLSv1.1", None, None, "TLSv1.1: not a supported TLS version; use TLSv1.3 or TLSv1.2"),
        ("foo", None, None, "foo: not a supported TLS version; use TLSv1.3 or TLSv1.2"),
        (None, "TLSv1.1", None, "too old"),
        (None, "TLSv1.4", None, "use TLSv1.2,TLSv1.3"),
        (None, "tlsv1.2", None, "use TLSv1.2,TLSv1.3"),
        ("TLSv1.2", "TLSv1.3", None, "newer than ssl.protocol = TLSv1.2 allows"),
        (None, "TLSv1.2", "TLS_AES_256_GCM_SHA384", "none of these is for ssl.enabled.protocols = TLSv1.2"),
        (None, None, "foo", "foo is not a cipher suite"),
        (None, None, "TLS_RSA_WITH_NULL_SHA256", "none of these is supported"),
    ],
)
def test_versions_and_suites_are_those_that_java_uses(
    kafka_jvm: KafkaJvm, tmp_path: Path, protocol: str | None, enabled: str | None, suites: str | None, expected: str
) -> None:
    given = {"ssl.protocol": protocol, "ssl.enabled.protocols": enabled, "ssl.cipher.suites": suites}
    properties = trusting(ROOT) | {key: text for key, text in given.items() if text is not None}
    refusal = ""
    java_client, java, ours = JavaClient(kafka_jvm), [], []
    for name, version in (("1.2", ssl.TLSVersion.TLSv1_2), ("1.3", ssl.TLSVersion.TLSv1_3)):
        server = server_context(tmp_path, LEAF, MIDDLE)
        server.minimum_version = server.maximum_version = version
        java += [name] if java_client.handshake(properties, server) is None else []
        try:
            ours += [name] if shakes_hands(properties, server) is None else []
        except ConfigError as error:
            refusal = str(error)
    assert ours == java == [each for each in expected.split() if each in ("1.2", "1.3")]
    if not java and expected:
        assert refusal.startswith("us.ssl.")
        assert expected in refusal


# Our own certificate


def open_files() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def test_our_key_is_used_and_nothing_of_it_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    server = server_context(tmp_path, LEAF, MIDDLE)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(cadata=ROOT.der)
    us = issue("alice", MIDDLE)
    keystore = {"ssl.keystore.type": "PEM", "ssl.keystore.key": us.key_pem()}
    keystore["ssl.keystore.certificate.chain"] = us.pem + MIDDLE.pem
    descriptors = open_files()
    for memory in (True, False):
        if not memory:
            monkeypatch.delattr(os, "memfd_create", raising=False)
        properties = trusting(ROOT) | keystore
        made = ssl_context.build(client(properties), {})
        assert made.get_ca_certs(binary_form=True) == [ROOT.der]
        assert list((tmp_path / "tmp").iterdir()) == []
    assert shakes_hands(trusting(ROOT) | keystore, server) is None
    assert "PEER_DID_NOT_RETURN_A_CERTIFICATE" in (shakes_hands(trusting(ROOT), server) or "")
    assert open_files() <= descriptors


def test_while_it_is_loaded_the_key_is_in_no_file_in_the_open(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    load = ssl.SSLContext.load_cert_chain

    def spy(self: ssl.SSLContext, path: str, **more: str) -> None:
        seen.append((Path(path).read_text(), oct(Path(path).stat().st_mode & 0o077)))
        load(self, path, **more)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
    us = issue("alice", ROOT)
    pem = {"ssl.keystore.type": "PEM", "ssl.keystore.key": us.key_pem(), "ssl.keystore.certificate.chain": us.pem}
    for memory in (True, False):
        if not memory:
            monkeypatch.delattr(os, "memfd_create", raising=False)
        ssl_context.build(client(trusting(ROOT) | pem), {})
    assert all(text.startswith("-----BEGIN ENCRYPTED PRIVATE KEY-----") for text, _ in seen)
    assert seen[1][1] == "0o0"


def test_a_key_that_does_not_match_the_certificate() -> None:
    pem = {"ssl.keystore.type": "PEM", "ssl.keystore.key": ROOT.key_pem(), "ssl.keystore.certificate.chain": LEAF.pem}
    with pytest.raises(AuthenticationError, match=r"^us.ssl.keystore.key: private key does not match the first"):
        ssl_context.context(client(trusting(ROOT) | pem))


def test_a_damaged_certificate() -> None:
    text = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"
    with pytest.raises(AuthenticationError, match=r"^us.ssl.truststore.certificates: damaged certificate"):
        ssl_context.context(client({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": text}))


def test_without_a_truststore_the_systems_authorities_are_trusted(tmp_path: Path) -> None:
    made = ssl_context.context(client({}))
    assert made.verify_mode is ssl.CERT_REQUIRED
    assert made.check_hostname
    assert "CERTIFICATE_VERIFY_FAILED" in (shakes_hands({}, server_context(tmp_path, LEAF, MIDDLE)) or "")


# Rotation


def test_a_context_is_cached_until_a_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "trust.pem"
    path.write_text(ROOT.pem)
    config = client({"ssl.truststore.location": str(path), "ssl.truststore.type": "PEM"})
    first = ssl_context.context(config)
    assert ssl_context.context(client({key: value.text for key, value in config.values.items()})) is first
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_text(OTHER.pem)
    os.utime(path, ns=times)  # a rotation within one tick of the clock
    second = ssl_context.context(config)
    assert second.get_ca_certs(binary_form=True) == [OTHER.der]
    assert first.get_ca_certs(binary_form=True) == [ROOT.der]


def test_a_kubernetes_secret_is_swapped_under_its_link(tmp_path: Path) -> None:
    for name, each in (("one", ROOT), ("two", OTHER)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ca.crt").write_text(each.pem)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "ca.crt").symlink_to("..data/ca.crt")
    config = client({"ssl.truststore.location": str(tmp_path / "ca.crt"), "ssl.truststore.type": "PEM"})
    assert ssl_context.context(config).get_ca_certs(binary_form=True) == [ROOT.der]
    (tmp_path / "..new").symlink_to("two")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert ssl_context.context(config).get_ca_certs(binary_form=True) == [OTHER.der]


def test_a_secret_that_strimzi_names_is_read_again(tmp_path: Path) -> None:
    """Its text is in the settings, as of the start; a swap between two of its files leaves the old pair in use."""
    resource = tmp_path / "mm2.yaml"
    resource.write_text(_STRIMZI)
    for name, texts in {"ca": {"ca.crt": ROOT.pem}, "me": {"user.crt": LEAF.pem, "user.key": LEAF.key_pem()}}.items():
        (tmp_path / "secrets" / name).mkdir(parents=True)
        for file, text in texts.items():
            (tmp_path / "secrets" / name / file).write_text(text)
    config = load([resource], tmp_path / "secrets").clusters["us"]
    first = ssl_context.context(config)
    assert first.get_ca_certs(binary_form=True) == [ROOT.der]
    (tmp_path / "secrets" / "ca" / "ca.crt").write_text(OTHER.pem)
    assert ssl_context.context(config).get_ca_certs(binary_form=True) == [OTHER.der]
    second = ssl_context.context(config)
    (tmp_path / "secrets" / "me" / "user.key").write_text(ROOT.key_pem())
    assert ssl_context.context(config) is second
    (tmp_path / "secrets" / "me" / "user.crt").write_text(ROOT.pem)
    assert ssl_context.context(config) is not second
    shutil.rmtree(tmp_path / "secrets")  # as on an executor, which has only the settings
    assert ssl_context.context(config).get_ca_certs(binary_form=True) == [ROOT.der]


_STRIMZI = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: mm2}
spec:
  connectCluster: eu
  clusters:
    - alias: us
      bootstrapServers: u:9093
      tls: {trustedCertificates: [{secretName: ca, certificate: ca.crt}]}
      authentication: {type: tls, certificateAndKey: {secretName: me, certificate: user.crt, key: user.key}}
    - {alias: eu, bootstrapServers: "e:9092"}
  mirrors: [{sourceCluster: us, targetCluster: eu, sourceConnector: {}, topicsPattern: ".*"}]
"""


def test_a_partially_written_file_leaves_the_old_one_in_use_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "trust.pem"
    path.write_text(ROOT.pem)
    config = client({"ssl.truststore.location": str(path), "ssl.truststore.type": "PEM"})
    first = ssl_context.context(config)
    with caplog.at_level(logging.WARNING):
        for half in (OTHER.pem[:50], OTHER.pem[:200], "", None, OTHER.pem[:200]):
            path.unlink() if half is None else path.write_text(half)
            assert ssl_context.context(config) is first
            assert ssl_context.context(config) is first
    (warning,) = caplog.messages
    assert warning.startswith(f"us.ssl.truststore.location = {path}: ")
    assert warning.endswith("(the previous certificates stay in use)")
    path.write_text(OTHER.pem)
    assert ssl_context.context(config).get_ca_certs(binary_form=True) == [OTHER.der]
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        path.write_text("gone again")
        ssl_context.context(config)
    assert len(caplog.messages) == 1


def test_a_file_that_never_could_be_read_is_an_error(tmp_path: Path) -> None:
    config = client({"ssl.truststore.location": str(tmp_path / "none.jks")})
    for _ in range(2):
        with pytest.raises(AuthenticationError, match="No such file"):
            ssl_context.context(config)
    (tmp_path / "none.jks").write_text(ROOT.pem)
    with pytest.raises(AuthenticationError, match=r"PEM file, but ssl.truststore.type"):
        ssl_context.context(config)


def test_many_threads_while_files_change(tmp_path: Path) -> None:
    path = tmp_path / "trust.pem"
    path.write_text(ROOT.pem)
    config = client({"ssl.truststore.location": str(path), "ssl.truststore.type": "PEM"})
    seen: list[list[bytes]] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            seen.append(ssl_context.context(config).get_ca_certs(binary_form=True))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(50):
        temporary = tmp_path / "new.pem"
        temporary.write_text((OTHER if turn % 2 == 0 else ROOT).pem)
        temporary.replace(path)
    stop.set()
    for thread in threads:
        thread.join()
    assert {tuple(each) for each in seen} <= {(ROOT.der,), (OTHER.der,)}
    assert ssl_context.context(config).get_ca_certs(binary_form=True) == [ROOT.der]


def test_an_expired_ca_that_java_would_still_trust_is_rejected(tmp_path: Path) -> None:
    """OpenSSL always checks the dates of trusted certificates, as the module's docstring states."""
    old = issue("old", authority=True, days=(-9, -1))
    server = server_context(tmp_path, issue("leaf", old, names=["localhost"]))
    assert "certificate has expired" in (shakes_hands(trusting(old), server) or "")
    assert keystores.trusted(client(trusting(old)), {}) == (old.der,)
    assert old.certificate.not_valid_after_utc < dt.datetime.now(dt.UTC)
