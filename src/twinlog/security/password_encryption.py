"""Decrypts private keys and the encrypted parts of PKCS12 files, by every scheme that Java reads.

`cryptography` decrypts keys only, and not those of JKS, JCEKS, two-key triple DES, RC2 with 128 bits and RC4 with 40.
The file states the number of iterations. It is limited, as in Java, so that a damaged or hostile file cannot use the
CPU for hours.
"""

import hashlib
import hmac
from collections.abc import Callable
from typing import Final, NamedTuple

from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4, TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from twinlog.security import rc2
from twinlog.security.asn1 import INTEGER, OCTETS, SEQUENCE, Node, parse
from twinlog.security.keystore_entries import StoreError, WrongPasswordError

_MAX_ITERATIONS: Final = 2_000_000  # Java: 5 million. Two million take seconds; keytool writes 10 000
_LONGEST_SALT: Final = 1024
CONVERT: Final = "convert it with keytool -importkeystore -deststoretype PKCS12 or openssl pkcs8 -topk8"

DIGESTS: Final = {
    "1.3.14.3.2.26": "sha1",
    "2.16.840.1.101.3.4.2.4": "sha224",
    "2.16.840.1.101.3.4.2.1": "sha256",
    "2.16.840.1.101.3.4.2.2": "sha384",
    "2.16.840.1.101.3.4.2.3": "sha512",
}
_HMACS: Final = {
    "1.2.840.113549.2.7": "sha1",
    "1.2.840.113549.2.8": "sha224",
    "1.2.840.113549.2.9": "sha256",
    "1.2.840.113549.2.10": "sha384",
    "1.2.840.113549.2.11": "sha512",
}
_PBES2: Final = "1.2.840.113549.1.5.13"
_PBKDF2: Final = "1.2.840.113549.1.5.12"
PBMAC1: Final = "1.2.840.113549.1.5.14"
_MD5_DES: Final = "1.2.840.113549.1.5.3"
_JKS: Final = "1.3.6.1.4.1.42.2.17.1.1"
_JCEKS: Final = "1.3.6.1.4.1.42.2.19.1"

Decrypt = Callable[[bytes, bytes, bytes], bytes]  # key, IV, data


def _aes(key: bytes, iv: bytes, data: bytes) -> bytes:
    return _run(Cipher(AES(key), CBC(iv)), data)


def _triple_des(key: bytes, iv: bytes, data: bytes) -> bytes:
    return _run(Cipher(TripleDES((key + key[:8])[:24]), CBC(iv)), data)  # a two-key cipher uses the first one twice


def _rc4(key: bytes, _iv: bytes, data: bytes) -> bytes:
    return _run(Cipher(ARC4(key), None), data)


def _run(cipher: "Cipher[CBC] | Cipher[None]", data: bytes) -> bytes:
    decryptor = cipher.decryptor()
    return decryptor.update(data) + decryptor.finalize()


class _Scheme(NamedTuple):
    decrypt: Decrypt
    key: int  # bytes
    block: int


_PKCS12: Final = {
    "1.2.840.113549.1.12.1.1": _Scheme(_rc4, 16, 1),
    "1.2.840.113549.1.12.1.2": _Scheme(_rc4, 5, 1),
    "1.2.840.113549.1.12.1.3": _Scheme(_triple_des, 24, 8),
    "1.2.840.113549.1.12.1.4": _Scheme(_triple_des, 16, 8),
    "1.2.840.113549.1.12.1.5": _Scheme(rc2.decrypt_cbc, 16, 8),
    "1.2.840.113549.1.12.1.6": _Scheme(rc2.decrypt_cbc, 5, 8),
}
_CIPHERS: Final = {  # of PBES2
    "2.16.840.1.101.3.4.1.2": _Scheme(_aes, 16, 16),
    "2.16.840.1.101.3.4.1.22": _Scheme(_aes, 24, 16),
    "2.16.840.1.101.3.4.1.42": _Scheme(_aes, 32, 16),
    "1.2.840.113549.3.7": _Scheme(_triple_des, 24, 8),
}


def is_encrypted(key: bytes) -> bool:
    """Whether this is an EncryptedPrivateKeyInfo: it begins with an algorithm, a plain key with its version."""
    return parse(key).sequence(2)[0].tag == SEQUENCE


def open_key(key: bytes, password: str) -> bytes:
    """The plain PKCS8 of an EncryptedPrivateKeyInfo; a plain key is returned unchanged."""
    if not is_encrypted(key):
        return key
    algorithm, encrypted = parse(key).sequence(2)[:2]
    data = encrypted.expect(OCTETS).octets()
    plain = _jks_key(data, password) if algorithm.sequence(1)[0].oid() == _JKS else decrypt(algorithm, data, password)
    try:
        parse(plain).sequence(2)[0].expect(INTEGER)
    except StoreError:
        raise WrongPasswordError("wrong password of the private key") from None
    return plain


def decrypt(algorithm: Node, data: bytes, password: str) -> bytes:
    """By an AlgorithmIdentifier. Most wrong passwords are detected here; one in 256 only by the decrypted content."""
    oid, *parameters = algorithm.sequence(2)
    name = oid.oid()
    if scheme := _PKCS12.get(name):
        salt, rounds = _salted(parameters[0])
        secret = bmp(password)
        key = pkcs12_key("sha1", 1, secret, salt, rounds, scheme.key)
        iv = pkcs12_key("sha1", 2, secret, salt, rounds, scheme.block) if scheme.block > 1 else b""
    elif name == _PBES2:
        scheme, key, iv = _pbes2(parameters[0], password)
    elif name in (_MD5_DES, _JCEKS):
        scheme = _Scheme(_triple_des, 24, 8)
        salt, rounds = _salted(parameters[0])
        key, iv = (_pbes1 if name == _MD5_DES else _jceks_key)(password.encode(), salt, rounds)
    else:
        raise StoreError(f"encryption scheme {name} is not supported", CONVERT)
    if not data or len(data) % scheme.block:
        raise StoreError("damaged file (length of an encrypted part)")
    plain = scheme.decrypt(key, iv, data)
    return plain if scheme.block == 1 else _without_padding(plain, scheme.block)


def _without_padding(plain: bytes, block: int) -> bytes:
    count = plain[-1]
    if not 1 <= count <= block or plain[-count:] != bytes([count]) * count:
        raise WrongPasswordError("wrong password")
    return plain[:-count]


def _salted(parameters: Node) -> tuple[bytes, int]:
    salt, rounds = parameters.sequence(2)[:2]
    return checked_salt(salt), iterations(rounds)


def checked_salt(node: Node) -> bytes:
    salt = node.expect(OCTETS).octets()
    if len(salt) > _LONGEST_SALT:
        raise StoreError("damaged file (salt too long)")
    return salt


def iterations(node: Node) -> int:
    count = node.integer()
    if not 1 <= count <= _MAX_ITERATIONS:
        raise StoreError(f"{count} iterations of key derivation, maximum is {_MAX_ITERATIONS}", CONVERT)
    return count


def bmp(password: str) -> bytes:
    """A password as PKCS12 encodes it: UTF-16 followed by two zero bytes."""
    return password.encode("utf-16-be", "surrogatepass") + b"\0\0"


def pkcs12_key(digest: str, purpose: int, password: bytes, salt: bytes, rounds: int, size: int) -> bytes:
    """RFC 7292, appendix B. Purpose: 1 a key, 2 an IV, 3 a MAC's key."""
    make = getattr(hashlib, digest)
    block = make().block_size

    def stretched(text: bytes) -> bytes:
        length = -(-len(text) // block) * block
        return (text * (length // len(text) + 1))[:length] if text else b""

    mixed = stretched(salt) + stretched(password)
    derived = b""
    while len(derived) < size:
        part = bytes([purpose]) * block + mixed
        for _ in range(rounds):
            part = make(part).digest()
        derived += part
        added = int.from_bytes(stretched(part), "big") + 1
        mixed = b"".join(
            (int.from_bytes(mixed[at : at + block], "big") + added).to_bytes(block + 2, "big")[2:]
            for at in range(0, len(mixed), block)
        )
    return derived[:size]


def _pbes2(parameters: Node, password: str) -> tuple[_Scheme, bytes, bytes]:
    derivation, cipher = parameters.sequence(2)[:2]
    kind, *cipher_parameters = cipher.sequence(2)
    scheme = _CIPHERS.get(kind.oid())
    if scheme is None:
        raise StoreError(f"cipher {kind.oid()} is not supported", CONVERT)
    iv = cipher_parameters[0].expect(OCTETS).octets()
    if len(iv) != scheme.block:
        raise StoreError("damaged file (length of the initialization vector)")
    return scheme, pbkdf2(derivation, password, scheme.key), iv


def pbkdf2(derivation: Node, password: str, size: int) -> bytes:
    kind, parameters, *_ = derivation.sequence(2)
    if kind.oid() != _PBKDF2:
        raise StoreError(f"key derivation {kind.oid()} is not supported", CONVERT)
    salt, rounds, *rest = parameters.sequence(2)
    digest = "sha1"
    for node in rest:
        if node.tag == INTEGER and node.integer() != size:
            raise StoreError("damaged file (length of the derived key)")
        if node.tag == SEQUENCE:
            digest = hmac_digest(node)
    return hashlib.pbkdf2_hmac(digest, password.encode(), checked_salt(salt), iterations(rounds), size)


def hmac_digest(node: Node) -> str:
    oid = node.sequence(1)[0].oid()
    if oid not in _HMACS:
        raise StoreError(f"digest {oid} is not supported", CONVERT)
    return _HMACS[oid]


def _pbes1(password: bytes, salt: bytes, rounds: int) -> tuple[bytes, bytes]:
    derived = password + salt
    for _ in range(rounds):
        derived = hashlib.md5(derived).digest()  # noqa: S324  (required by the format)
    return derived[:8] * 3, derived[8:]  # triple DES with three equal keys is single DES


def _jceks_key(password: bytes, salt: bytes, rounds: int) -> tuple[bytes, bytes]:
    """Sun's derivation of a triple DES key: each half of the salt is hashed separately."""
    derived = b""
    for half in (salt[:4], salt[4:]):
        part = half
        for _ in range(rounds):
            part = hashlib.md5(part + password).digest()  # noqa: S324
        derived += part
    return derived[:24], derived[24:32]


def _jks_key(data: bytes, password: str) -> bytes:
    """JKS key encryption: 20 bytes of salt, the key XORed with a SHA-1 stream, and a digest of the plain key."""
    secret = password.encode("utf-16-be", "surrogatepass")
    stream, encrypted, check = data[:20], data[20:-20], data[-20:]
    if len(data) < 40:
        raise StoreError("damaged private key")
    plain = bytearray()
    for at in range(0, len(encrypted), 20):
        stream = hashlib.sha1(secret + stream).digest()  # noqa: S324
        plain += bytes(a ^ b for a, b in zip(encrypted[at : at + 20], stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), check):  # noqa: S324
        raise WrongPasswordError("wrong password of the private key")
    return bytes(plain)
