"""Access control: checks the host, user, origin and size of each request before it is routed.

Any website open in the operator's browser can send requests to this server. DNS rebinding would let it read the
responses, so unknown Host headers are rejected, unless a login is required (browsers send credentials only to the host
name they were entered for). Writes do not need the response, so writes from another origin are rejected.
"""

import asyncio
import ipaddress
import logging
import re
import socket
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twinlog.http.logins import Logins
from twinlog.http.responses import error_response
from twinlog.http.users import User

MAX_BODY_BYTES: Final = 16 << 20  # offsets of some 100,000 partitions
ROLE: Final = "twinlog.role"  # key in the ASGI scope
_BODY_TIMEOUT_S: Final = 60.0
_READ_METHODS: Final = ("GET", "HEAD", "OPTIONS")
_VALIDATE_PATH: Final = re.compile(rb"/connector-plugins/[^/]+/config/validate/*")  # a PUT without side effects
_MAX_LOGGED_PATH: Final = 300

_log = logging.getLogger("twinlog.http")


class AccessControl:
    """`local`: the server listens on a loopback address. `users`: by name; None: no login, every client is an operator.

    `hosts`: accepted Host headers, in addition to the machine's own names; "*" accepts any.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        local: bool,
        users: Mapping[str, User] | None = None,
        hosts: Collection[str] = (),
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self._hosts = frozenset(host.lower() for host in (*hosts, socket.gethostname()))
        self._app = app
        self._local = local
        self._logins = None if users is None else Logins(users)
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        address = (scope.get("client") or ("unknown address",))[0]
        user = self._unknown_host(headers.get("host", "")) or await self._user(headers, address)
        if isinstance(user, Response):
            await user(scope, receive, send)
            return
        if rejection := self._rejection(scope, headers, user):
            await rejection(scope, receive, send)
            return
        scope[ROLE] = user.role if user else "operator"
        if is_change(scope):
            send = _logged(send, scope, user.name if user else certificate_name(scope), address)
        await self._app(scope, _limited(receive, self._max_body_bytes), send)

    def _unknown_host(self, host: str) -> Response | None:
        if self._local and host and not is_local(host):
            return error_response(403, f"Host header {host}: not a name of this machine; only local clients are served")
        if self._logins is None and not self._local and host and not is_known(host, self._hosts):
            return error_response(
                403,
                f"Host header {host}: unknown name; add it with --allowed-host, or require a login with --auth-file",
            )
        return None

    async def _user(self, headers: Headers, address: str) -> User | Response | None:
        if self._logins is None:
            return None
        result = await self._logins.login(headers.get("authorization", ""), address)
        if isinstance(result, User):
            return result
        challenge = {"WWW-Authenticate": 'Basic realm="twinlog"'} if result.status == 401 else {}
        retry = {"Retry-After": str(result.retry_after)} if result.retry_after else {}
        return error_response(result.status, result.message, challenge | retry)

    def _rejection(self, scope: Scope, headers: Headers, user: User | None) -> Response | None:
        if is_cross_site(headers, scope["method"]) or (
            scope["method"] not in _READ_METHODS and is_cross_origin(headers.get("origin", ""), headers.get("host", ""))
        ):
            return error_response(403, "cross-site request: only pages of this server may use its API")
        if user is not None and user.role == "viewer" and is_change(scope):
            return error_response(403, f"user {user.name}: role viewer is read-only; changes need the role operator")
        if int(headers.get("content-length", "0")) > self._max_body_bytes:
            return error_response(413)
        return None


def is_change(scope: Scope) -> bool:
    """Checks the raw path: once decoded, a name with encoded slashes could look like the validate path."""
    if scope["method"] in _READ_METHODS:
        return False
    raw = scope.get("raw_path") or scope["path"].encode()
    return not (scope["method"] == "PUT" and _VALIDATE_PATH.fullmatch(raw))


def is_cross_site(headers: Headers, method: str) -> bool:
    """By the Fetch Metadata headers of browsers. Top-level navigation (following a link to this server) is allowed."""
    if headers.get("sec-fetch-site", "").strip().lower() != "cross-site":
        return False
    navigation = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return not (navigation and method in ("GET", "HEAD"))


def certificate_name(scope: Scope) -> str:
    """The subject of the client's certificate (mTLS)."""
    name = scope.get("extensions", {}).get("tls", {}).get("client_cert_name")
    return name or "anonymous (no login)"


def is_local(host: str) -> bool:
    """Whether a Host header names this machine, with any port: `localhost`, 127.x.x.x, [::1]."""
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


def is_known(host: str, names: Collection[str]) -> bool:
    """Whether a Host header has one of these names, or is an IP address: DNS rebinding needs a host name."""
    if "*" in names or is_local(host):
        return True
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_cross_origin(origin: str, host: str) -> bool:
    """Browsers send the origin of a page with every write; other clients send none."""
    try:
        return bool(origin) and urlsplit(origin).netloc.lower() != host.lower()
    except ValueError:
        return True


def _logged(send: Send, scope: Scope, user: str, address: str) -> Send:
    """Logs the change with its user, once the response status is known."""
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")[:_MAX_LOGGED_PATH]

    async def logged(message: Message) -> None:
        if message["type"] == "http.response.start":
            _log.info("%s %s by %s from %s: %d", scope["method"], path, user, address, message["status"])
        await send(message)

    return logged


def _limited(receive: Receive, max_bytes: int) -> Receive:
    """Limits the size and duration of bodies that are sent in chunks, without a content length."""
    received = 0
    loop = asyncio.get_running_loop()
    deadline: float | None = loop.time() + _BODY_TIMEOUT_S

    async def limited() -> Message:
        nonlocal received, deadline
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408) from None
        received += len(message.get("body", b""))
        if received > max_bytes:
            raise HTTPException(413)
        if not message.get("more_body", False):
            deadline = None  # from here on, only the disconnect is awaited
        return message

    return limited
