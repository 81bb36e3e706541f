"""Private keys encrypted by openssl with every scheme are decrypted."""

import shutil
import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from twinlog.security import password_encryption
from twinlog.security.keystore_entries import WrongPasswordError

OPENSSL = shutil.which("openssl")
RSA = rsa.generate_private_key(65537, 2048)


@pytest.mark.skipif(OPENSSL is None, reason="no openssl command on this machine")
@pytest.mark.parametrize(
    "scheme",
    [
        "-v1 PBE-MD5-DES", "-v1 PBE-SHA1-3DES", "-v1 PBE-SHA1-2DES", "-v1 PBE-SHA1-RC2-40", "-v1 PBE-SHA1-RC2-128",
        "-v1 PBE-SHA1-RC4-40", "-v1 PBE-SHA1-RC4-128", "-v2 aes-128-cbc", "-v2 aes-192-cbc",
        "-v2 aes-256-cbc -v2prf hmacWithSHA1", "-v2 aes-256-cbc -v2prf hmacWithSHA512", "-v2 des3",
    ],
)  # fmt: skip
@pytest.mark.parametrize("key", [RSA, ec.generate_private_key(ec.SECP384R1())], ids=["RSA", "EC"])
def test_a_key_is_decrypted(scheme: str, key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> None:
    plain = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    command = ["openssl", "pkcs8", "-provider", "legacy", "-provider", "default", "-topk8", *scheme.split()]
    done = subprocess.run(
        [*command, "-inform", "DER", "-outform", "DER", "-passout", "pass:key-pass"],
        input=plain, capture_output=True, check=True,
    )  # fmt: skip
    assert password_encryption.is_encrypted(done.stdout)
    assert password_encryption.open_key(done.stdout, "key-pass") == plain
    with pytest.raises(WrongPasswordError):
        password_encryption.open_key(done.stdout, "key-pasS")


def test_a_plain_key_is_returned_unchanged() -> None:
    plain = RSA.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    assert not password_encryption.is_encrypted(plain)
    assert password_encryption.open_key(plain, "unused") == plain
