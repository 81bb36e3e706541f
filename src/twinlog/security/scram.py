"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677) as Kafka has them: no channel binding, no SASLprep.

The password never crosses the wire, and the broker proves that it knows it too. What the broker sends is taken from a
stranger: its nonce must extend ours, its iterations have a limit, and the login is done only when its signature fits.
"""

import base64
import hashlib
import hmac
import re
import secrets
from functools import lru_cache
from typing import Final

from twinlog.errors import LockedError
from twinlog.security.jaas import LoginModule
from twinlog.security.words import one_line

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS: Final = tuple(_HASHES)

# Kafka's own limits are 4096 and 16384. Other brokers may ask for more, but not for minutes of our processor.
LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 1_000_000

_GS2: Final = b"n,,"  # no channel binding, no other identity
_BASE64: Final = rb"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rb"(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*"
_SERVER_FIRST: Final = re.compile(
    rb"r=([\x21-\x2b\x2d-\x7e]+),s=(" + _BASE64 + rb"),i=([0-9]{1,9})" + _EXTENSIONS, re.DOTALL
)
_SERVER_FINAL: Final = re.compile(rb"v=(" + _BASE64 + rb")" + _EXTENSIONS, re.DOTALL)
_LONGEST: Final = 1 << 16


class Scram:
    """One login. `tokenauth`: the user is a delegation token's id, the password its HMAC."""

    def __init__(
        self, mechanism: str, user: str, password: str, *, tokenauth: bool = False, nonce: str | None = None
    ) -> None:
        self.mechanism = mechanism
        self.user = user
        self._hash = _HASHES[mechanism]
        self._password = password.encode(errors="replace")  # as Java does
        self._nonce = (nonce or secrets.token_urlsafe(24)).encode()
        extensions = b",tokenauth=true" if tokenauth else b""
        self._bare = b"n=" + _sasl_name(user).encode(errors="replace") + b",r=" + self._nonce + extensions
        self._expected = b""  # the broker's signature, once we know what it must be

    def first(self) -> bytes:
        return _GS2 + self._bare

    def next(self, challenge: bytes) -> bytes | None:
        if len(challenge) > _LONGEST:
            raise self._nonsense("is too long")
        if challenge.startswith(b"e="):
            raise self.refused(challenge[2:].decode(errors="replace"))
        if not self._expected:
            return self._proof(challenge)
        self._check(challenge)
        return None

    def refused(self, reason: str) -> LockedError:
        return LockedError(
            f"{self.mechanism}: user {self.user!r} is refused ({one_line(reason)}): check username and password "
            f"in sasl.jaas.config, and that the broker knows this user for {self.mechanism}"
        )

    def _proof(self, challenge: bytes) -> bytes:
        match = _SERVER_FIRST.fullmatch(challenge)
        if match is None:
            raise self._nonsense("is not SCRAM's")
        nonce, salt, iterations = match[1], base64.b64decode(match[2]), int(match[3])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise LockedError(f"{self.mechanism}: the broker's nonce does not extend ours: is this the right broker?")
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise LockedError(
                f"{self.mechanism}: the broker asks for {iterations} iterations: "
                f"expected {LEAST_ITERATIONS} to {MOST_ITERATIONS}"
            )
        salted = _salted(self._hash, self._password, salt, iterations)
        ours = b"c=" + base64.b64encode(_GS2) + b",r=" + nonce
        said = b",".join((self._bare, challenge, ours))
        client_key = self._mac(salted, b"Client Key")
        signature = self._mac(hashlib.new(self._hash, client_key).digest(), said)
        self._expected = self._mac(self._mac(salted, b"Server Key"), said)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        return ours + b",p=" + base64.b64encode(proof)

    def _check(self, challenge: bytes) -> None:
        match = _SERVER_FINAL.fullmatch(challenge)
        if match is None:
            raise self._nonsense("is not SCRAM's")
        if not hmac.compare_digest(base64.b64decode(match[1]), self._expected):
            raise LockedError(
                f"{self.mechanism}: the broker does not know the password of user {self.user!r}, yet it lets us in: "
                "is this the right broker?"
            )

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)

    def _nonsense(self, what: str) -> LockedError:
        return LockedError(f"{self.mechanism}: the broker's answer {what}", heals=True)


def scram(mechanism: str, module: LoginModule) -> Scram:
    user, password = module.required("username"), module.required("password")
    return Scram(mechanism, user, password, tokenauth=module.flag("tokenauth"))


def _sasl_name(user: str) -> str:
    return user.replace("=", "=3D").replace(",", "=2C")


@lru_cache(maxsize=64)
def _salted(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Costs milliseconds; a broker has one salt for a user, so many connections need it once."""
    return hashlib.pbkdf2_hmac(name, password, salt, iterations)
