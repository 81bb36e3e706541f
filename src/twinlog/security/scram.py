"""SASL SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677) as in Kafka: no channel binding, no SASLprep.

The password is never sent, and the broker proves that it knows it. The broker's messages are untrusted: its nonce must
extend the client's, its iterations are limited, and the login succeeds only if its signature is correct.
"""

import base64
import hashlib
import hmac
import re
import secrets
from functools import lru_cache
from typing import Final

from twinlog.errors import AuthenticationError
from twinlog.security.jaas import LoginModule
from twinlog.text import one_line

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS: Final = tuple(_HASHES)

# Kafka's own limits are 4096 and 16384. Other brokers may use more, but not so many that a login takes minutes of CPU.
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 1_000_000

_GS2: Final = b"n,,"  # no channel binding, no authorization identity
_BASE64: Final = rb"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rb"(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*"
_SERVER_FIRST: Final = re.compile(
    rb"r=([\x21-\x2b\x2d-\x7e]+),s=(" + _BASE64 + rb"),i=([0-9]{1,9})" + _EXTENSIONS, re.DOTALL
)
_SERVER_FINAL: Final = re.compile(rb"v=(" + _BASE64 + rb")" + _EXTENSIONS, re.DOTALL)
_MAX_BYTES: Final = 1 << 16


class Scram:
    """One login. `tokenauth`: the user is the id of a delegation token, the password its HMAC."""

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
        self._expected = b""  # the broker's signature, once computed

    def first(self) -> bytes:
        return _GS2 + self._bare

    def next(self, challenge: bytes) -> bytes | None:
        if len(challenge) > _MAX_BYTES:
            raise self._malformed("too long")
        if challenge.startswith(b"e="):
            raise self.refused(challenge[2:].decode(errors="replace"))
        if not self._expected:
            return self._proof(challenge)
        self._check(challenge)
        return None

    def refused(self, reason: str) -> AuthenticationError:
        return AuthenticationError(
            f"{self.mechanism}: authentication failed for user {self.user!r}: {one_line(reason)}",
            "check username and password in sasl.jaas.config, and that the user has "
            f"{self.mechanism} credentials on the broker",
        )

    def _proof(self, challenge: bytes) -> bytes:
        match = _SERVER_FIRST.fullmatch(challenge)
        if match is None:
            raise self._malformed("not a SCRAM message")
        nonce, salt, iterations = match[1], base64.b64decode(match[2]), int(match[3])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationError(
                f"{self.mechanism}: the broker's nonce does not extend the client's", "check the broker's address"
            )
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise AuthenticationError(
                f"{self.mechanism}: broker requests {iterations} iterations for user {self.user!r}",
                f"set {MIN_ITERATIONS} to {MAX_ITERATIONS} in the user's credentials on the broker",
            )
        salted = _salted(self._hash, self._password, salt, iterations)
        client_final = b"c=" + base64.b64encode(_GS2) + b",r=" + nonce
        auth_message = b",".join((self._bare, challenge, client_final))
        client_key = self._mac(salted, b"Client Key")
        signature = self._mac(hashlib.new(self._hash, client_key).digest(), auth_message)
        self._expected = self._mac(self._mac(salted, b"Server Key"), auth_message)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        return client_final + b",p=" + base64.b64encode(proof)

    def _check(self, challenge: bytes) -> None:
        match = _SERVER_FINAL.fullmatch(challenge)
        if match is None:
            raise self._malformed("not a SCRAM message")
        if not hmac.compare_digest(base64.b64decode(match[1]), self._expected):
            raise AuthenticationError(
                f"{self.mechanism}: wrong server signature: the broker does not know the password of user "
                f"{self.user!r}",
                "check the broker's address",
            )

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)

    def _malformed(self, why: str) -> AuthenticationError:
        return AuthenticationError(
            f"{self.mechanism}: malformed response from the broker ({why})",
            "check the listener's SASL mechanism",
            retriable=True,
        )


def scram(mechanism: str, module: LoginModule) -> Scram:
    user, password = module.required("username"), module.required("password")
    return Scram(mechanism, user, password, tokenauth=module.flag("tokenauth"))


def _sasl_name(user: str) -> str:
    return user.replace("=", "=3D").replace(",", "=2C")


@lru_cache(maxsize=64)
def _salted(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Takes milliseconds. A user has one salt per broker cluster, so connections share the result."""
    return hashlib.pbkdf2_hmac(name, password, salt, iterations)
