"""Client assertions (RFC 7523), signed JWTs instead of a client secret: `sasl.oauthbearer.assertion.*`."""

import base64
import binascii
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key

from twinlog.config.flows import Client
from twinlog.errors import ConfigError
from twinlog.security.oauth_tokens import encoded, json_part, read_token

_PREFIX: Final = "sasl.oauthbearer.assertion."
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Assertion:
    """Created for each request; files are read each time, so a rotated key is used at once."""

    file: str = ""  # a complete assertion, signed and renewed externally; the other fields are then unused
    algorithm: str = "RS256"
    key_file: str = ""
    passphrase: str = field(default="", repr=False)
    claims: tuple[tuple[str, str], ...] = ()
    template_file: str = ""
    lifetime: int = 300
    margin: int = 60
    with_id: bool = False

    def make(self) -> str:
        if self.file:
            return read_token(Path(self.file)).value
        header, payload = _template(self.template_file)
        now = int(time.time())
        # Kafka's order: the template overrides the claims, computed claims override the template.
        payload = {**dict(self.claims), **payload, "iat": now, "exp": now + self.lifetime, "nbf": now - self.margin}
        if self.with_id:
            payload["jti"] = str(uuid.uuid4())
        signed = f"{json_part({**header, 'alg': self.algorithm, 'typ': 'JWT'})}.{json_part(payload)}"
        return f"{signed}.{encoded(self._sign(signed.encode()))}"

    def _sign(self, content: bytes) -> bytes:
        key = self._key()
        if self.algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
            return key.sign(content, padding.PKCS1v15(), hashes.SHA256())
        if self.algorithm == "ES256" and isinstance(key, ec.EllipticCurvePrivateKey) and key.key_size == 256:
            first, second = decode_dss_signature(key.sign(content, ec.ECDSA(hashes.SHA256())))
            return first.to_bytes(32, "big") + second.to_bytes(32, "big")
        raise ConfigError(
            f"{_PREFIX}private.key.file = {self.key_file}: wrong key type for {self.algorithm}",
            f"use an RSA key for RS256, a P-256 key for ES256, or change {_PREFIX}algorithm",
        )

    def _key(self) -> object:
        content = _read("private.key.file", self.key_file).encode()
        password = self.passphrase.encode() or None
        try:
            if b"-----BEGIN" in content:
                return load_pem_private_key(content, password)
            return load_der_private_key(base64.b64decode(content), password)  # Kafka accepts it without PEM markers
        except (ValueError, TypeError, UnsupportedAlgorithm, binascii.Error):
            raise ConfigError(
                f"{_PREFIX}private.key.file = {self.key_file}: not a PKCS#8 key in PEM, or wrong passphrase",
                f"check the file and {_PREFIX}private.key.passphrase",
            ) from None


def is_configured(config: Client) -> bool:
    """Whether the client credentials are an assertion rather than a secret, by Kafka's rule."""
    return bool(config[f"{_PREFIX}file"] or config[f"{_PREFIX}claim.iss"])


def assertion(config: Client) -> Assertion:
    if file := config[f"{_PREFIX}file"]:
        return Assertion(file=file)
    if not (key_file := config[f"{_PREFIX}private.key.file"]):
        raise ConfigError(f"{_PREFIX}private.key.file is missing", f"set it, or {_PREFIX}file")
    claims = tuple((name, config[f"{_PREFIX}claim.{name}"]) for name in ("aud", "iss", "sub"))
    return Assertion(
        algorithm=config[f"{_PREFIX}algorithm"].upper(),
        key_file=key_file,
        passphrase=config[f"{_PREFIX}private.key.passphrase"] or "",
        claims=tuple((name, text) for name, text in claims if text),
        template_file=config[f"{_PREFIX}template.file"] or "",
        lifetime=config[f"{_PREFIX}claim.exp.seconds"],
        margin=config[f"{_PREFIX}claim.nbf.seconds"],
        with_id=config[f"{_PREFIX}claim.jti.include"],
    )


def _template(file: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    if not file:
        return {}, {}
    try:
        found = json.loads(_read("template.file", file))
        header, payload = found.get("header", {}), found.get("payload", {})
    except (ValueError, RecursionError, AttributeError):
        header = payload = None
    if not isinstance(header, dict) or not isinstance(payload, dict):
        raise ConfigError(
            f"{_PREFIX}template.file = {file}: not a JSON template", 'write an object with "header" and "payload"'
        )
    return header, payload


def _read(key: str, file: str) -> str:
    try:
        with Path(file).open("rb") as content:
            return content.read(_MAX_BYTES).decode(errors="replace")
    except OSError as error:
        raise ConfigError(f"{_PREFIX}{key} = {file}: {error.strerror}", "check the path and its permissions") from None
