"""A minimal OAuth server on loopback: issues signed tokens for client credentials and serves the public key.

Kafka's own code is used on both sides: brokers validate tokens against `/jwks`, clients fetch them from `/token`.
"""

import base64
import binascii
import json
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from lab.ports import HOST

AUDIENCE = "kafka"
_KEY_ID = "lab"


@dataclass(frozen=True, slots=True)
class Endpoints:
    issuer: str

    @property
    def token(self) -> str:
        return f"{self.issuer}/token"

    @property
    def jwks(self) -> str:
        return f"{self.issuer}/jwks"


class TokenIssuer:
    """`users` maps client ids to secrets. Serves in a thread until `close`; over TLS if `context` is given."""

    def __init__(self, users: Mapping[str, str], lifetime: int = 3600, context: ssl.SSLContext | None = None) -> None:
        self._users, self._lifetime = dict(users), lifetime
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/jwks":
                    self._respond(HTTPStatus.OK, issuer.jwks())
                else:
                    self._respond(HTTPStatus.NOT_FOUND, {"error": "not_found"})

            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                user = issuer.authenticate(self.headers.get("Authorization") or "", form)
                if self.path != "/token":
                    self._respond(HTTPStatus.NOT_FOUND, {"error": "not_found"})
                elif user is None:
                    self._respond(HTTPStatus.UNAUTHORIZED, {"error": "invalid_client"})
                else:
                    self._respond(HTTPStatus.OK, issuer.grant(user))

            def _respond(self, status: HTTPStatus, content: Mapping[str, Any]) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class's name)
                """The default writes to the terminal."""

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.endpoints = Endpoints(f"http{'s' if context else ''}://{HOST}:{self._server.server_address[1]}")
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def token(self, user: str, lifetime: int | None = None) -> str:
        """A signed token (JWT, RS256) for that user; a negative lifetime gives an expired one."""
        now = int(time.time())
        claims = {
            "iss": self.endpoints.issuer,
            "aud": AUDIENCE,
            "sub": user,
            "scope": "kafka",
            "iat": now,
            "exp": now + (self._lifetime if lifetime is None else lifetime),
        }
        signed = f"{_json({'alg': 'RS256', 'typ': 'JWT', 'kid': _KEY_ID})}.{_json(claims)}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64(signature)}"

    def grant(self, user: str) -> dict[str, Any]:
        return {"access_token": self.token(user), "token_type": "Bearer", "expires_in": self._lifetime}

    def jwks(self) -> dict[str, Any]:
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID}
        return {"keys": [{**key, "n": _number(numbers.n), "e": _number(numbers.e)}]}

    def authenticate(self, authorization: str, form: str) -> str | None:
        """The user, if client id and secret are correct: from the header (RFC 6749, 2.3.1), or from the form."""
        fields = {name: values[0] for name, values in parse_qs(form).items()}
        if fields.get("grant_type") != "client_credentials":
            return None
        name, secret = fields.get("client_id", ""), fields.get("client_secret", "")
        if authorization.startswith("Basic "):
            try:
                pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
            except (binascii.Error, UnicodeDecodeError):
                return None
            name, secret = map(unquote_plus, pair.partition(":")[::2])
        return name if name in self._users and self._users[name] == secret else None


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _json(content: Mapping[str, Any]) -> str:
    return _base64(json.dumps(content, separators=(",", ":")).encode())


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))
