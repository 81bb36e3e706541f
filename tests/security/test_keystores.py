"""Keystores written by keytool, openssl and `cryptography` are read as by Java."""

import logging
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    pkcs12,
)

from lab.kafka_classes import KafkaJvm
from tests.security.tls_kit import (
    ASCII,
    KEYS,
    PASSWORD,
    TRUST,
    Issued,
    JavaClient,
    characters,
    client,
    identities,
    issue,
    keytool,
    opened,
    trusted,
)  # fmt: skip
from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security import keystores


@pytest.fixture(scope="session")
def root() -> Issued:
    return issue("root", authority=True)


@pytest.fixture(scope="session")
def leaf(root: Issued) -> Issued:
    return issue("leaf", root)


# Keystores written by keytool, compared with Java


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, root: Issued) -> Path:
    folder = tmp_path_factory.mktemp("keytool")
    (folder / "root.pem").write_text(root.pem)

    def pair(file: str, kind: str, alias: str, algorithm: str, *more: str) -> None:
        store = ("-keystore", str(folder / file), "-storetype", kind, "-storepass", ASCII)
        keytool("-genkeypair", "-alias", alias, "-keyalg", algorithm, "-dname", f"CN={alias}", *store, *more)

    def trust(file: str, kind: str, *more: str) -> None:
        store = ("-keystore", str(folder / file), "-storetype", kind, "-storepass", ASCII)
        keytool("-importcert", "-noprompt", "-alias", "root", "-file", str(folder / "root.pem"), *store, *more)

    pair("store.jks", "JKS", "first", "RSA", "-keypass", "other-pass")
    pair("store.jks", "JKS", "second", "EC", "-keypass", "other-pass")
    trust("store.jks", "JKS")
    pair("store.p12", "PKCS12", "first", "RSA")
    trust("store.p12", "PKCS12")
    pair("legacy.p12", "PKCS12", "first", "EC", "-J-Dkeystore.pkcs12.legacy")  # triple DES, RC2 with 40 bits, SHA-1
    trust("legacy.p12", "PKCS12", "-J-Dkeystore.pkcs12.legacy")
    pair("store.jceks", "JCEKS", "first", "EC", "-keypass", "other-pass")
    open_to_all = ("certProtectionAlgorithm=NONE", "macAlgorithm=NONE")
    trust("open.p12", "PKCS12", *(f"-J-Dkeystore.pkcs12.{each}" for each in open_to_all))
    return folder


def java_store(kafka: KafkaJvm, kind: str, path: Path, password: str | None) -> Any:
    store = kafka.jvm.java.security.KeyStore.getInstance(kind)
    stream = kafka.jvm.java.io.FileInputStream(str(path))
    store.load(stream, None if password is None else characters(kafka, password))
    stream.close()
    return store


def java_trusted(kafka: KafkaJvm, store: Any) -> set[bytes]:
    factory = kafka.jvm.javax.net.ssl.TrustManagerFactory.getInstance("PKIX")
    factory.init(store)
    return {bytes(each.getEncoded()) for each in factory.getTrustManagers()[0].getAcceptedIssuers()}


def java_keys(kafka: KafkaJvm, store: Any, password: str) -> dict[str, tuple[bytes, tuple[bytes, ...]]]:
    secret = characters(kafka, password)
    # The key's own class is hidden in a module.
    encoded = kafka._class("java.security.Key").getMethod(
        "getEncoded", kafka._gateway.new_array(kafka.jvm.java.lang.Class, 0)
    )
    nothing = kafka._gateway.new_array(kafka.jvm.java.lang.Object, 0)
    return {
        str(alias): (
            normal(bytes(encoded.invoke(store.getKey(alias, secret), nothing))),
            tuple(bytes(each.getEncoded()) for each in store.getCertificateChain(alias)),
        )
        for alias in kafka.jvm.java.util.Collections.list(store.aliases())
        if store.isKeyEntry(alias)
    }


def normal(pkcs8: bytes) -> bytes:
    """Java leaves out the public half of an elliptic curve key."""
    return load_der_private_key(pkcs8, None).private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.java
@pytest.mark.parametrize(
    ("file", "kind", "key_password"),
    [
        ("store.jks", "JKS", "other-pass"),
        ("store.jks", "pkcs12", "other-pass"),  # either type is read as the other
        ("store.p12", "PKCS12", None),
        ("store.p12", "JKS", None),
        ("legacy.p12", "PKCS12", None),
        ("store.jceks", "JCEKS", "other-pass"),
    ],
)
def test_keys_and_trust_are_what_java_finds_in_the_same_file(
    made: Path, kafka_jvm: KafkaJvm, file: str, kind: str, key_password: str | None
) -> None:
    path = made / file
    store = java_store(kafka_jvm, kind, path, ASCII)
    settings = {"location": str(path), "type": kind, "password": ASCII}
    assert trusted(**settings) == java_trusted(kafka_jvm, store) != set()
    keys = java_keys(kafka_jvm, store, key_password or ASCII)
    found = identities(key_password, **settings)
    assert {each.alias: pair for each, pair in zip(found, opened(found), strict=True)} == keys != {}


@pytest.mark.java
@pytest.mark.parametrize(("file", "kind"), [("store.jks", "JKS"), ("open.p12", "PKCS12"), ("open.p12", "JKS")])
def test_a_truststore_opens_without_a_password(made: Path, kafka_jvm: KafkaJvm, file: str, kind: str) -> None:
    found = trusted(location=str(made / file), type=kind)
    assert found == java_trusted(kafka_jvm, java_store(kafka_jvm, kind, made / file, None)) != set()


@pytest.mark.java
def test_what_is_encrypted_in_a_truststore_is_skipped_without_its_password(made: Path, kafka_jvm: KafkaJvm) -> None:
    path = made / "store.p12"
    assert java_trusted(kafka_jvm, java_store(kafka_jvm, "PKCS12", path, None)) == set()
    with pytest.raises(AuthenticationError, match=r"certificates are encrypted; set ssl.truststore.password"):
        trusted(location=str(path), type="PKCS12")


@pytest.mark.java
@pytest.mark.parametrize(
    ("kind", "password"),
    [("JKS", PASSWORD), ("JKS", "\U0001f511 key"), ("JCEKS", PASSWORD), ("PKCS12", '~ !"$%&/()=?')],  # no more in Java
)
def test_any_password_that_java_takes_is_taken(
    kafka_jvm: KafkaJvm, tmp_path: Path, root: Issued, kind: str, password: str
) -> None:
    java = kafka_jvm.jvm
    store = java.java.security.KeyStore.getInstance(kind)
    store.load(None, None)
    factory = java.java.security.cert.CertificateFactory.getInstance("X.509")
    store.setCertificateEntry("root", factory.generateCertificate(java.java.io.ByteArrayInputStream(root.der)))
    stream = java.java.io.FileOutputStream(str(tmp_path / "store"))
    store.store(stream, characters(kafka_jvm, password))
    stream.close()
    assert trusted(location=str(tmp_path / "store"), type=kind, password=password) == {root.der}


@pytest.mark.java
@pytest.mark.parametrize("file", ["store.jks", "store.p12", "legacy.p12", "store.jceks"])
@pytest.mark.parametrize("password", ["guessed", ""])
def test_the_error_of_a_wrong_password_does_not_quote_it(made: Path, file: str, password: str) -> None:
    kind = "JKS" if file.endswith("jks") else "PKCS12"
    for read, prefix in ((trusted, TRUST), (identities, KEYS)):
        with pytest.raises(AuthenticationError) as refused:
            read(location=str(made / file), type=kind, password=password)
        expected = f"us.{prefix}location = {made / file}: wrong password or damaged file; check us.{prefix}password and the file"
        assert str(refused.value) == expected
        assert not refused.value.retriable


@pytest.mark.java
def test_a_wrong_key_password(made: Path) -> None:
    settings = {"location": str(made / "store.jks"), "type": "JKS", "password": ASCII}
    with pytest.raises(AuthenticationError, match=r"wrong password.*us.ssl.key.password"):
        identities("guessed", **settings)
    with pytest.raises(AuthenticationError, match=r"wrong password.*us.ssl.keystore.password"):
        identities(**settings)  # the store's password is tried, and the keys have another


@pytest.mark.java
def test_a_keystore_without_a_key_gives_no_identity_and_a_warning(made: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert identities(location=str(made / "open.p12"), type="PKCS12", password=ASCII) == ()
    assert "no private key in it" in caplog.text


# What others write


def test_of_a_keystore_that_serves_as_truststore_only_its_own_certificate_is_trusted(
    tmp_path: Path, root: Issued, leaf: Issued
) -> None:
    path = tmp_path / "both.p12"
    lock = BestAvailableEncryption(PASSWORD.encode())
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"me", leaf.key, leaf.certificate, [root.certificate], lock))
    settings = {"location": str(path), "type": "PKCS12", "password": PASSWORD}
    assert trusted(**settings) == {leaf.der}
    assert opened(identities(**settings)) == [(leaf.pkcs8, (leaf.der, root.der))]


def test_a_truststore_that_openssl_wrote_is_taken_though_java_would_not(tmp_path: Path, root: Issued) -> None:
    path = tmp_path / "openssl.p12"
    path.write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, [root.certificate], NoEncryption()))
    assert trusted(location=str(path), type="PKCS12", password="") == {root.der}


@pytest.mark.parametrize("hmac", [hashes.SHA1(), hashes.SHA256(), hashes.SHA512()], ids=lambda each: each.name)
@pytest.mark.parametrize(
    "scheme",
    [pkcs12.PBES.PBESv2SHA256AndAES256CBC, pkcs12.PBES.PBESv1SHA1And3KeyTripleDESCBC],
    ids=lambda each: str(each.name),
)
def test_every_scheme_of_pkcs12_is_read(tmp_path: Path, leaf: Issued, scheme: Any, hmac: Any) -> None:
    path = tmp_path / "store.p12"
    builder = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(1234).key_cert_algorithm(scheme).hmac_hash(hmac)
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(
            None,
            leaf.key,
            leaf.certificate,
            None,
            builder.build(PASSWORD.encode()),
        )
    )
    found = identities(location=str(path), type="PKCS12", password=PASSWORD)
    assert opened(found) == [(leaf.pkcs8, (leaf.der,))]


@pytest.mark.java
def test_one_key_of_each_kind_is_used_the_first_that_is_valid(
    tmp_path: Path, root: Issued, caplog: pytest.LogCaptureFixture, kafka_jvm: KafkaJvm
) -> None:
    java = kafka_jvm.jvm
    old, new = issue("old", root, days=(-20, -10)), issue("new", root)
    other = issue("other", root, key=rsa.generate_private_key(65537, 2048))
    store = java.java.security.KeyStore.getInstance("PKCS12")
    store.load(None, None)
    secret = characters(kafka_jvm, ASCII)
    factory = java.java.security.cert.CertificateFactory.getInstance("X.509")
    for alias, each, algorithm in (("a", old, "EC"), ("b", new, "EC"), ("c", other, "RSA")):
        chain = kafka_jvm._gateway.new_array(java.java.security.cert.Certificate, 2)
        for at, one in enumerate((each, root)):
            chain[at] = factory.generateCertificate(java.java.io.ByteArrayInputStream(one.der))
        spec = java.java.security.spec.PKCS8EncodedKeySpec(each.pkcs8)
        key = java.java.security.KeyFactory.getInstance(algorithm).generatePrivate(spec)
        store.setKeyEntry(alias, key, secret, chain)
    stream = java.java.io.FileOutputStream(str(tmp_path / "store.p12"))
    store.store(stream, secret)
    stream.close()
    with caplog.at_level(logging.WARNING):
        found = identities(location=str(tmp_path / "store.p12"), type="PKCS12", password=ASCII)
    assert sorted(opened(found)) == sorted([(new.pkcs8, (new.der, root.der)), (other.pkcs8, (other.der, root.der))])
    assert "3 private keys in it; using 'b' and 'c'" in caplog.text


# Files that are not keystores


@pytest.mark.parametrize(
    ("content", "kind", "expected"),
    [
        (None, "JKS", "No such file or directory; check the path"),
        (b"", "JKS", "empty file"),
        (b"hello", "JKS", "neither JKS nor PKCS12"),
        (b"hello", "PEM", "no certificate found"),
        (b"-----BEGIN CERTIFICATE-----", "PKCS12", "PEM file, but ssl.truststore.type is PKCS12; set"),
        (b"\xfe\xed\xfe\xed", "PEM", "JKS file, but ssl.truststore.type is PEM; set"),
        (b"\xfe\xed\xfe\xed", "JKS", "file is truncated"),
        (b"\x30" * (keystores.MAX_BYTES + 1), "PKCS12", "larger than 1 MiB"),
        (b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "PEM", "not base64"),
    ],
)
def test_files_that_are_not_keystores(tmp_path: Path, content: bytes | None, kind: str, expected: str) -> None:
    path = tmp_path / "store"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AuthenticationError) as refused:
        trusted(location=str(path), type=kind)
    assert str(refused.value).startswith(f"us.ssl.truststore.location = {path}: ")
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_folder_a_pipe_and_an_invalid_path(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(AuthenticationError, match=r"not a file|Is a directory"):
            trusted(location=str(path))
    with pytest.raises(AuthenticationError, match="not a path"):
        trusted(location="a\0b")


# Settings that contradict each other: Kafka rejects the same ones


@pytest.mark.java
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"ssl.truststore.password": "x"}, "us.ssl.truststore.password: set without ssl.truststore.location"),
        ({"ssl.keystore.password": "x"}, "us.ssl.keystore.password: set without ssl.keystore.location"),
        ({"ssl.keystore.location": "{p12}", "ssl.keystore.type": "PKCS12"}, "without ssl.keystore.password"),
        ({"ssl.truststore.certificates": "{root}"}, "requires PEM, but ssl.truststore.type is JKS"),
        (
            {"ssl.truststore.certificates": "{root}", "ssl.truststore.type": "PEM", "ssl.truststore.location": "{pem}"},
            "us.ssl.truststore.certificates: us.ssl.truststore.location is set too",
        ),
        (
            {"ssl.truststore.certificates": "{root}", "ssl.truststore.type": "PEM", "ssl.truststore.password": "x"},
            "us.ssl.truststore.password: PEM has no password",
        ),
        (
            {"ssl.truststore.location": "{pem}", "ssl.truststore.type": "PEM", "ssl.truststore.password": "x"},
            "us.ssl.truststore.password: a PEM truststore has no password",
        ),
        ({"ssl.keystore.key": "{key}", "ssl.keystore.type": "PEM"}, "without ssl.keystore.certificate.chain"),
        ({"ssl.keystore.certificate.chain": "{leaf}", "ssl.keystore.type": "PEM"}, "without ssl.keystore.key"),
        ({"ssl.keystore.key": "{key}", "ssl.keystore.certificate.chain": "{leaf}"}, "ssl.keystore.type is JKS"),
        (
            {
                "ssl.keystore.key": "{key}", "ssl.keystore.certificate.chain": "{leaf}", "ssl.keystore.type": "PEM",
                "ssl.keystore.password": "x",
            },
            "us.ssl.keystore.password: PEM has no password",
        ),
        (
            {
                "ssl.keystore.key": "{key}", "ssl.keystore.certificate.chain": "{leaf}", "ssl.keystore.type": "PEM",
                "ssl.keystore.location": "{pem}",
            },
            "us.ssl.keystore.location is set too",
        ),
        ({"ssl.keystore.location": "{pem}", "ssl.keystore.type": "PEM", "ssl.keystore.password": "x"}, "has no password"),
        ({"ssl.truststore.location": "{p12}", "ssl.truststore.type": "BKS"}, "use JKS, PKCS12 or PEM"),
        ({"ssl.truststore.location": "{pem}", "ssl.truststore.type": "PEM"}, None),
        ({"ssl.keystore.location": "{pem}", "ssl.keystore.type": "PEM"}, None),
        ({"ssl.truststore.location": "{p12}", "ssl.truststore.password": ASCII}, None),
        ({"ssl.keystore.location": "{p12}", "ssl.keystore.password": ASCII}, None),
        ({"ssl.key.password": "x"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_contradictions_are_those_that_kafka_rejects(
    tmp_path: Path, root: Issued, leaf: Issued, kafka_jvm: KafkaJvm, settings: dict[str, str], expected: str | None
) -> None:
    lock = BestAvailableEncryption(ASCII.encode())
    (tmp_path / "a.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(b"me", leaf.key, leaf.certificate, None, lock)
    )
    (tmp_path / "a.pem").write_text(leaf.key_pem() + leaf.pem)
    texts = {"root": root.pem, "leaf": leaf.pem, "key": leaf.key_pem()}
    texts |= {"p12": str(tmp_path / "a.p12"), "pem": str(tmp_path / "a.pem")}
    filled = {key: text.format(**texts) for key, text in settings.items()}
    refusal = JavaClient(kafka_jvm).refusal(filled)
    config = client(filled)
    files = keystores.read_files(config)
    if expected is None:
        assert refusal is None
        keystores.trusted(config, files)
        keystores.identities(config, files)
        return
    assert refusal is not None
    with pytest.raises(ConfigError) as refused:
        (keystores.trusted(config, files), keystores.identities(config, files))
    assert expected in str(refused.value)
    assert not any(secret in str(refused.value) for secret in (leaf.key_pem()[40:60], leaf.pem[40:60]))


def test_nothing_secret_is_shown(leaf: Issued) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = identities(**{"key": leaf.key_pem(), "certificate.chain": leaf.pem, "type": "PEM"})
    assert repr(found) == "Identity(alias='')"
