"""PEM in files and inline settings: everything that Kafka accepts."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import PrivateFormat

from lab.kafka_classes import KafkaJvm
from tests.security.tls_kit import KEY_PASSWORD, KEYS, TRUST, Issued, JavaClient, identities, issue, opened, trusted
from twinlog.errors import AuthenticationError


@pytest.fixture(scope="module")
def root() -> Issued:
    return issue("root", authority=True)


@pytest.fixture(scope="module")
def leaf(root: Issued) -> Issued:
    return issue("leaf", root)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", " "),
        lambda text: "subject=CN = root\n" + text.replace("-----\n-----", "-----\nissuer: somebody\n-----") + "end",
        lambda text: text.strip(),
    ],
    ids=["plain", "Windows", "one line", "with comments", "no last line end"],
)
@pytest.mark.java
def test_pem_may_look_as_kafka_lets_it(
    tmp_path: Path, root: Issued, leaf: Issued, change: Callable[[str], str], kafka_jvm: KafkaJvm
) -> None:
    text = change(root.pem + leaf.pem)
    path = tmp_path / "trust.pem"
    path.write_text(text)
    for settings in ({"location": str(path), "type": "PEM"}, {"certificates": text, "type": "PEM"}):
        assert JavaClient(kafka_jvm).refusal({TRUST + key: value for key, value in settings.items()}) is None
        assert trusted(**settings) == {root.der, leaf.der}
    path.write_text(change(leaf.key_pem() + leaf.pem + root.pem))
    store = {"location": str(path), "type": "PEM"}
    assert JavaClient(kafka_jvm).refusal({KEYS + key: value for key, value in store.items()}) is None
    assert opened(identities(**store)) == [(leaf.pkcs8, (leaf.der, root.der))]


@pytest.mark.parametrize("kind", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL], ids=["PKCS8", "SEC1"])
def test_a_plain_key_in_pem(leaf: Issued, kind: PrivateFormat) -> None:
    inline = {"key": leaf.key_pem(kind=kind), "certificate.chain": leaf.pem, "type": "PEM"}
    assert opened(identities(**inline)) == [(leaf.pkcs8, (leaf.der,))]
    assert opened(identities("needless", **inline)) == [(leaf.pkcs8, (leaf.der,))]


def test_rsa_and_ed25519_keys_in_pem(root: Issued) -> None:
    for key in (rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()):
        own = issue("own", root, key=key)
        inline = {"key": own.key_pem(), "certificate.chain": own.pem, "type": "PEM"}
        assert opened(identities(**inline)) == [(own.pkcs8, (own.der,))]


def test_an_encrypted_key_in_pem_needs_its_password(leaf: Issued) -> None:
    inline = {"key": leaf.key_pem(KEY_PASSWORD), "certificate.chain": leaf.pem, "type": "PEM"}
    assert opened(identities(KEY_PASSWORD, **inline)) == [(leaf.pkcs8, (leaf.der,))]
    with pytest.raises(
        AuthenticationError, match=r"^us.ssl.keystore.key: the private key is encrypted; set ssl.key.password$"
    ):
        identities(**inline)
    with pytest.raises(
        AuthenticationError, match=r"^us.ssl.keystore.key: wrong password or damaged file; check us.ssl.key.password"
    ):
        identities("guessed", **inline)


def test_a_key_with_openssls_legacy_encryption_is_rejected(leaf: Issued) -> None:
    key = leaf.key_pem(KEY_PASSWORD, PrivateFormat.TraditionalOpenSSL)
    with pytest.raises(AuthenticationError, match="openssl pkcs8 -topk8"):
        identities(KEY_PASSWORD, key=key, **{"certificate.chain": leaf.pem, "type": "PEM"})
