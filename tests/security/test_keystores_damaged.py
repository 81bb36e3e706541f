"""Damaged keystores are read or rejected with a one-line error: nothing hangs, no other exception is raised."""

import hashlib
import hmac
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import PrivateFormat, pkcs12
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.security.tls_kit import ASCII, Issued, client, issue, keytool
from twinlog.errors import AuthenticationError
from twinlog.security import keystores, password_encryption, ssl_context
from twinlog.security import pkcs12 as reader
from twinlog.security.asn1 import INTEGER, OCTETS, SEQUENCE, parse
from twinlog.security.keystore_entries import StoreError, WrongPasswordError

ROOT = issue("root", authority=True)
LEAF = issue("leaf", ROOT)


def pkcs12_file(leaf: Issued = LEAF) -> bytes:
    builder = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(1)
    encryption = builder.key_cert_algorithm(pkcs12.PBES.PBESv2SHA256AndAES256CBC).build(ASCII.encode())
    return pkcs12.serialize_key_and_certificates(b"me", leaf.key, leaf.certificate, [ROOT.certificate], encryption)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("samples")
    (folder / "root.pem").write_text(ROOT.pem)
    store = ("-keystore", str(folder / "a.jks"), "-storetype", "JKS", "-storepass", ASCII)
    keytool("-importcert", "-noprompt", "-alias", "root", "-file", str(folder / "root.pem"), *store)
    keytool("-genkeypair", "-alias", "me", "-keyalg", "EC", "-dname", "CN=me", *store)
    return {
        "JKS": (folder / "a.jks").read_bytes(),
        "PKCS12": pkcs12_file(),
        "PEM": (LEAF.key_pem(ASCII) + LEAF.pem + ROOT.pem).encode(),
    }


def with_digest(data: bytes) -> bytes:
    """A changed JKS file with a correct digest, as an attacker who knows the password can write it."""
    body = data[:-20]
    return body + hashlib.sha1(ASCII.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def read(kind: str, data: bytes, folder: Path) -> None:
    """As truststore and as keystore: read, or rejected in one line without the password."""
    path = folder / "store"
    path.write_bytes(data)
    for side in ("ssl.truststore.", "ssl.keystore."):
        properties = {f"{side}location": str(path), f"{side}type": kind, "ssl.key.password": ASCII}
        if kind != "PEM":
            properties[f"{side}password"] = ASCII
        if side == "ssl.keystore.":  # so that the system's CAs are not loaded each time
            properties |= {"ssl.truststore.certificates": ROOT.pem, "ssl.truststore.type": "PEM"}
        config = client(properties)
        refusal = ""
        try:
            ssl_context.build(config, keystores.read_files(config))
        except AuthenticationError as error:
            refusal = str(error)
        assert "\n" not in refusal
        assert ASCII not in refusal


@pytest.mark.parametrize("kind", ["JKS", "PKCS12", "PEM"])
@settings(max_examples=100)
@given(data=st.data())
def test_a_damaged_file_is_read_or_rejected(
    samples: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    content = bytearray(samples[kind])
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["change", "cut", "add", "drop"])):
            case "change":
                content[at] = data.draw(st.integers(0, 255))
            case "cut":
                content = content[: at + 1]
            case "add":
                content[at:at] = data.draw(st.binary(max_size=20))
            case _:
                del content[at : at + data.draw(st.integers(1, 40))]
                content = content or bytearray(b"0")
    changed = bytes(content)
    if kind == "JKS" and data.draw(st.booleans()):
        changed = with_digest(changed)
    read(kind, changed, tmp_path_factory.getbasetemp())


@settings(max_examples=150)
@given(
    st.binary(max_size=200), st.sampled_from([b"", b"\x30", b"\x30\x82", b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1\0\0\0\1"])
)
def test_random_bytes_are_rejected(tmp_path_factory: pytest.TempPathFactory, rest: bytes, start: bytes) -> None:
    read("PKCS12", start + rest, tmp_path_factory.getbasetemp())


@settings(max_examples=150)
@given(st.binary(max_size=120))
def test_random_bytes_as_asn1(data: bytes) -> None:
    def walk(content: bytes, depth: int = 0) -> None:
        try:
            for node in parse(content).children():
                walk(node.whole, depth + 1)
        except StoreError:
            return

    walk(data)


def test_endless_nesting_is_rejected() -> None:
    with pytest.raises(StoreError, match="nested too deeply"):
        parse(b"\x30\x80" * 100_000)


def der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return bytes([tag, 0x82]) + len(content).to_bytes(2, "big") + content


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\xff", b"\x00"], ids=["far too many", "-1", "0"])
def test_too_many_iterations_are_rejected_at_once(count: bytes) -> None:
    salt, rounds = der(OCTETS, b"saltsalt"), der(INTEGER, count)
    scheme = bytes.fromhex("060a2a864886f70d010c0103")  # SHA-1 and triple DES of PKCS12
    key = der(SEQUENCE, der(SEQUENCE, scheme, der(SEQUENCE, salt, rounds)), der(OCTETS, bytes(64)))
    with pytest.raises(StoreError, match=r"-?\d+ iterations of key derivation"):
        password_encryption.open_key(key, ASCII)
    data = bytes.fromhex("06092a864886f70d010701")
    inside = der(SEQUENCE, data, der(0xA0, der(OCTETS, der(SEQUENCE))))
    digest = der(SEQUENCE, der(SEQUENCE, bytes.fromhex("06052b0e03021a")), der(OCTETS, bytes(20)))
    file = der(SEQUENCE, der(INTEGER, b"\x03"), inside, der(SEQUENCE, digest, salt, rounds))
    with pytest.raises(StoreError, match=r"-?\d+ iterations of key derivation"):
        reader.read(file, ASCII)


def test_a_pem_text_of_dashes_takes_no_time(tmp_path: Path) -> None:
    for text in (
        "-" * keystores.MAX_BYTES,
        "-BEGIN " * (keystores.MAX_BYTES // 7),
        "-----BEGIN CERTIFICATE-----" * 38_000,
    ):
        (tmp_path / "dashes.pem").write_text(text)
        config = client({"ssl.truststore.location": str(tmp_path / "dashes.pem"), "ssl.truststore.type": "PEM"})
        with pytest.raises(AuthenticationError, match="no certificate found"):
            keystores.trusted(config, keystores.read_files(config))


def test_a_newer_kind_of_digest_is_checked() -> None:
    """PBMAC1 (RFC 9579), written by openssl 3.4, not yet by Java."""
    pbkdf2, hmac_sha256 = bytes.fromhex("06092a864886f70d01050c"), bytes.fromhex("06082a864886f70d0209")
    content = der(SEQUENCE)
    secret = hashlib.pbkdf2_hmac("sha256", ASCII.encode(), b"saltsalt", 5, 32)
    digest = hmac.new(secret, content, "sha256").digest()
    function = der(
        SEQUENCE, der(OCTETS, b"saltsalt"), der(INTEGER, b"\x05"), der(INTEGER, b" "), der(SEQUENCE, hmac_sha256)
    )
    parameters = der(SEQUENCE, der(SEQUENCE, pbkdf2, function), der(SEQUENCE, hmac_sha256))
    mac = der(SEQUENCE, der(SEQUENCE, bytes.fromhex("06092a864886f70d01050e"), parameters), der(OCTETS, digest))
    inside = der(SEQUENCE, bytes.fromhex("06092a864886f70d010701"), der(0xA0, der(OCTETS, content)))
    unused = der(OCTETS, b"-")
    file = der(SEQUENCE, der(INTEGER, b"\x03"), inside, der(SEQUENCE, mac, unused, der(INTEGER, b"\x01")))
    assert reader.read(file, ASCII).anchors == ()
    with pytest.raises(WrongPasswordError):
        reader.read(file, "guessed")


def test_indefinite_lengths_and_split_strings_are_read() -> None:
    """BER, as old browsers and Windows write it."""
    node = parse(b"\x30\x80\x02\x01\x05\x24\x80\x04\x01a\x04\x01b\x00\x00\x00\x00")
    number, text = node.children()
    assert (number.integer(), text.octets()) == (5, b"ab")


def test_the_derivation_of_pkcs12_is_that_of_the_standard() -> None:
    """With one iteration it can be written down: a digest over purpose, salt and password, each stretched to a block."""
    salt, password = b"salt", password_encryption.bmp("pass")
    block = b"\x03" * 64 + (salt * 16) + (password * 7)[:64]
    assert password_encryption.pkcs12_key("sha256", 3, password, salt, 1, 32) == hashlib.sha256(block).digest()
    assert hmac.compare_digest(password_encryption.bmp(""), b"\0\0")
