"""Who may come in: before anything else looks at a request, its host, its user, its origin and its size are checked.

A server on a loopback address is reached by every page that the operator's browser shows. A page of another site can
have its own name resolve to 127.0.0.1 and then read our answers, so a name that is not this machine's is refused; and
it can send writes without reading the answers, so a write from another origin is refused.
"""

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twinlog.config.problems import Problems
from twinlog.config.properties import read_properties
from twinlog.errors import ConfigError
from twinlog.surface.http.answers import refusal

LARGEST = 16 << 20  # offsets of some 100,000 partitions
_READING = ("GET", "HEAD", "OPTIONS")


class Guard:
    """`local`: the server listens on a loopback address. `users`: name -> password; None lets everybody in."""

    def __init__(
        self, app: ASGIApp, *, local: bool, users: Mapping[str, str] | None = None, largest: int = LARGEST
    ) -> None:
        self._app = app
        self._local = local
        self._users = users
        self._largest = largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._local and host and not is_local(host):
            answer = refusal(403, f"{host} is not a name of this machine, and only this machine is served")
        elif self._users is not None and not admitted(headers.get("authorization", ""), self._users):
            answer = refusal(401, "a user and a password are needed", {"WWW-Authenticate": 'Basic realm="twinlog"'})
        elif scope["method"] not in _READING and is_foreign(headers.get("origin", ""), host):
            answer = refusal(403, "a page of another site may not change anything here")
        elif int(headers.get("content-length", "0")) > self._largest:
            answer = refusal(413)
        else:
            await self._app(scope, _limited(receive, self._largest), send)
            return
        await answer(scope, receive, send)


def is_local(host: str) -> bool:
    """Whether a Host header names this machine, whatever the port: `localhost`, 127.x.x.x, [::1]."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_foreign(origin: str, host: str) -> bool:
    """Browsers name the page's origin in every write; programs send none."""
    return bool(origin) and urlsplit(origin).netloc.lower() != host.lower()


def admitted(authorization: str, users: Mapping[str, str]) -> bool:
    """HTTP's basic authentication. A wrong name takes as long as a wrong password."""
    scheme, _, credentials = authorization.partition(" ")
    try:
        given = base64.b64decode(credentials.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    name, colon, password = given.partition(":")
    expected = users.get(name)
    same = hmac.compare_digest(password.encode(), (password[::-1] + "x" if expected is None else expected).encode())
    return scheme.lower() == "basic" and bool(colon) and expected is not None and same


def read_users(file: Path) -> dict[str, str]:
    """`user: password`, one a line, as Connect's PropertyFileLoginModule reads them.

    That module lets everybody in when the file is empty; here such a file is a mistake.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {getattr(error, 'strerror', None) or 'not a text file'}") from error
    problems = Problems()
    users = {name: value.text for name, value in read_properties(text, str(file), problems).items()}
    if problems.errors:
        raise ConfigError(f"{problems.found[0].where}: expected user: password")  # its text might quote the line
    if not users or not all(name and password for name, password in users.items()):
        raise ConfigError(f"{file}: expected lines of user: password, none of them empty")
    return users


def _limited(receive: Receive, largest: int) -> Receive:
    """For bodies that come in chunks and do not say how long they are."""
    taken = 0

    async def limited() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > largest:
            raise HTTPException(413)
        return message

    return limited
