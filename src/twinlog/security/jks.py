"""Reads JKS, Java's own keystore format, and JCEKS, which differs in magic number and key encryption.

`cryptography` does not read either; keytool would need a JDK and over a second for each of the machine's processes.

magic, version, count
then for each entry: kind, alias, time, and either a key with its chain (1) or a trusted certificate (2)
then SHA-1 of password, a phrase, and all of the above
"""

import hashlib
import hmac
import struct
from typing import Final

from twinlog.security.keystore_entries import KeyEntry, Store, StoreError, WrongPasswordError

JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_DIGEST: Final = 20
_PHRASE: Final = b"Mighty Aphrodite"  # part of the format


def is_jks(data: bytes) -> bool:
    return data.startswith((JKS_MAGIC, JCEKS_MAGIC))


def read(data: bytes, password: str | None) -> Store:
    """As in Java, without a password the digest is not checked and everything but the keys can be read."""
    if password is not None:
        secret = password.encode("utf-16-be", "surrogatepass")
        digest = hashlib.sha1(secret + _PHRASE + data[:-_DIGEST]).digest()  # noqa: S324  (the format's choice)
        if not hmac.compare_digest(digest, data[-_DIGEST:]):
            raise WrongPasswordError("wrong password or damaged file")
    body = _Body(data[:-_DIGEST])
    body.take(4)
    version, count = body.number(), body.number()
    if version not in (1, 2):
        raise StoreError(f"unknown JKS version {version}", "convert the file with keytool -importkeystore")
    keys: list[KeyEntry] = []
    trusted: list[bytes] = []
    for _ in range(count):  # every entry consumes bytes, so a corrupt count ends at the end of the file
        kind, alias = body.number(), body.text()
        body.take(8)  # creation time
        if kind == 1:
            key = body.block()
            keys.append(KeyEntry(alias, key, tuple(body.certificate(version) for _ in range(body.number()))))
        elif kind == 2:
            trusted.append(body.certificate(version))
        elif kind == 3:
            raise StoreError("secret keys are not supported", "export the certificates to a PKCS12 file")
        else:
            raise StoreError(f"damaged file (entry type {kind})")
    return Store(tuple(keys), tuple(trusted))


class _Body:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        part = self._data[self._at : self._at + size]
        if len(part) != size:
            raise StoreError("file is truncated")
        self._at += size
        return part

    def number(self) -> int:
        (number,) = struct.unpack(">I", self.take(4))
        return int(number)

    def block(self) -> bytes:
        return self.take(self.number())

    def text(self) -> str:
        (size,) = struct.unpack(">H", self.take(2))
        return self.take(size).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        if version == 2 and (kind := self.text()) not in ("X.509", "X509"):
            raise StoreError(f"certificate type {kind[:20]!r} is not supported", "use X.509 certificates")
        return self.block()
