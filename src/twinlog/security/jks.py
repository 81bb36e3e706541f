"""Java's own keystore format, and JCEKS, which differs in its magic number and in how keys are encrypted.

magic, version, count
then for each entry: kind, alias, time, and either a key with its chain (1) or a trusted certificate (2)
then SHA-1 of password, a phrase, and all of the above
"""

import hashlib
import hmac
import struct
from typing import Final

from twinlog.security.store import KeyEntry, Store, StoreError, WrongPasswordError

JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_DIGEST: Final = 20
_PHRASE: Final = b"Mighty Aphrodite"  # part of the format


def is_jks(data: bytes) -> bool:
    return data.startswith((JKS_MAGIC, JCEKS_MAGIC))


def read(data: bytes, password: str | None) -> Store:
    """Without a password nothing is checked, and everything but the keys can be read: as Java does it."""
    if password is not None:
        secret = password.encode("utf-16-be", "surrogatepass")
        digest = hashlib.sha1(secret + _PHRASE + data[:-_DIGEST]).digest()  # noqa: S324  (the format's choice)
        if not hmac.compare_digest(digest, data[-_DIGEST:]):
            raise WrongPasswordError("the password is wrong, or the file is damaged")
    body = _Body(data[:-_DIGEST])
    body.take(4)
    version, count = body.number(), body.number()
    if version not in (1, 2):
        raise StoreError(f"version {version} of its format is unknown")
    keys: list[KeyEntry] = []
    trusted: list[bytes] = []
    for _ in range(count):  # every entry takes bytes, so that a wild count ends with the file
        kind, alias = body.number(), body.text()
        body.take(8)  # when it was made
        if kind == 1:
            key = body.block()
            keys.append(KeyEntry(alias, key, tuple(body.certificate(version) for _ in range(body.number()))))
        elif kind == 2:
            trusted.append(body.certificate(version))
        elif kind == 3:
            raise StoreError("it holds a secret key, a Java object that is not read: move the certificates to PKCS12")
        else:
            raise StoreError(f"it holds an entry of an unknown kind ({kind})")
    return Store(tuple(keys), tuple(trusted))


class _Body:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        if len(piece) != size:
            raise StoreError("it ends too early")
        self._at += size
        return piece

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
            raise StoreError(f"it holds a certificate of the kind {kind[:20]!r}, not X.509")
        return self.block()
