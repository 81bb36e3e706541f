"""REST resources with JAX-RS semantics, as in Kafka Connect.

Names in a path are percent-encoded and may contain any character, even a slash. Request and response bodies are JSON.
Handlers run in a thread, because they may wait for a cluster.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from twinlog.connect.errors import ConnectError
from twinlog.errors import TwinlogError
from twinlog.http.responses import error_response

_log = logging.getLogger("twinlog.http")


@dataclass(frozen=True, slots=True)
class Call:
    """A request: the decoded names in its path, its query and its body."""

    names: Mapping[str, str]
    query: QueryParams
    body: bytes
    base: str  # URL of this server, as the client addresses it

    def flag(self, name: str, *, default: bool = False) -> bool:
        """As Java parses a boolean: everything but `true` is false."""
        return self.query.get(name, str(default)).lower() == "true"

    def json(self) -> Any:
        """As in Connect, no body, null and invalid JSON are answered with 500."""
        try:
            content = json.loads(self.body or b"null", parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            raise ConnectError(500, f"The request is not valid JSON{where}") from error
        if content is None:
            raise ConnectError(500, "The request has no content")
        return content


Handler = Callable[[Call], Response]


class Resource(Route):
    """A path with all its methods. A trailing slash is ignored.

    `in_event_loop`: handlers do not block, so they run without a thread and respond even when all threads are busy.
    """

    def __init__(self, path: str, handlers: Mapping[str, Handler], *, in_event_loop: bool = False) -> None:
        self._in_event_loop = in_event_loop
        self._handlers = dict(handlers)
        allowed = sorted({*handlers, "OPTIONS", *(["HEAD"] if "GET" in handlers else [])})
        self._allowed = PlainTextResponse(", ".join(allowed), headers={"Allow": ",".join(allowed)})
        super().__init__(path, self._respond, methods=allowed)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw = scope.get("raw_path") or scope["path"].encode()
        path = raw.decode("latin-1")
        return super().matches({**scope, "path": path.rstrip("/") or "/", "root_path": ""})

    async def _respond(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return self._allowed
        if not accepts_json(request.headers.get("accept", "")):
            raise HTTPException(406)
        body = await request.body()
        content_type = request.headers.get("content-type")
        if not is_json(content_type or "") and (body or content_type is not None):
            raise HTTPException(415)
        names = {name: unquote(value) for name, value in request.path_params.items()}
        base = f"{request.url.scheme}://{request.url.netloc}"
        handler = self._handlers["GET" if request.method == "HEAD" else request.method]
        label = f"{request.method} {request.url.path}"
        call = Call(names, request.query_params, body, base)
        response = (
            _handle(handler, call, label)
            if self._in_event_loop
            else await run_in_threadpool(_handle, handler, call, label)
        )
        _log.debug("%s: %d", label, response.status_code)
        return response


def _handle(handler: Handler, call: Call, label: str) -> Response:
    """Errors of the client are only returned; failures of a cluster are logged as well, for the operator."""
    try:
        return handler(call)
    except ConnectError as error:
        if isinstance(error.__cause__, TwinlogError | OSError):
            _log.warning("%s: %s", label, error)
        return error_response(error.status, str(error))
    except TwinlogError as error:
        _log.warning("%s: %s", label, error)
        return error_response(500, str(error))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name}: not valid JSON")


def accepts_json(accept: str) -> bool:
    """Whether an Accept header, if any, accepts JSON."""
    ranges = [each.partition(";")[0].strip().lower() for each in accept.split(",") if each.strip()]
    return not ranges or any(each in ("*/*", "application/*", "application/json", "*") for each in ranges)


def prefers_html(accept: str) -> bool:
    """Whether the Accept header is a browser's: it lists HTML but not JSON."""
    ranges = [each.partition(";")[0].strip().lower() for each in accept.split(",")]
    return "text/html" in ranges and "application/json" not in ranges


def is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"
