"""AWS Signature Version 4: signs a request. No I/O; the caller supplies the time."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

ALGORITHM: Final = "AWS4-HMAC-SHA256"
_EMPTY: Final = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class Scope:
    """The day, region and service that a signature is valid for."""

    time: float
    region: str
    service: str

    @property
    def timestamp(self) -> str:
        return datetime.fromtimestamp(self.time, UTC).strftime("%Y%m%dT%H%M%SZ")

    @property
    def text(self) -> str:
        return f"{self.timestamp[:8]}/{self.region}/{self.service}/aws4_request"


@dataclass(frozen=True, slots=True)
class Request:
    """`headers` have lower-case names; all of them are signed."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    payload_hash: str = field(default=_EMPTY)

    @property
    def signed_headers(self) -> str:
        return ";".join(sorted(self.headers))

    def canonical(self) -> str:
        pairs = sorted((_encoded(name), _encoded(value)) for name, value in self.query.items())
        return "\n".join(
            (
                self.method,
                self.path,
                "&".join(f"{name}={value}" for name, value in pairs),
                "".join(f"{name}:{' '.join(self.headers[name].split())}\n" for name in sorted(self.headers)),
                self.signed_headers,
                self.payload_hash,
            )
        )


def signature(secret: str, scope: Scope, request: Request) -> str:
    hashed = hashlib.sha256(request.canonical().encode()).hexdigest()
    text = f"{ALGORITHM}\n{scope.timestamp}\n{scope.text}\n{hashed}"
    return hmac.digest(signing_key(secret, scope), text.encode(), "sha256").hex()


def signing_key(secret: str, scope: Scope) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.text.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def authorization(key_id: str, secret: str, scope: Scope, request: Request) -> str:
    """The value of the Authorization header."""
    return (
        f"{ALGORITHM} Credential={key_id}/{scope.text}, SignedHeaders={request.signed_headers}, "
        f"Signature={signature(secret, scope, request)}"
    )


def _encoded(text: str) -> str:
    return quote(text, safe="-._~")
