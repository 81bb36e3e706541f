"""A path of a REST API as JAX-RS has it, which is what Connect's clients are used to.

A name in a path may hold anything once it is percent-encoded, also a slash. What a client sends, and wants to be sent,
must be JSON. The work itself is done in a thread, because it may wait for a cluster.
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
from twinlog.surface.http.answers import refusal

_log = logging.getLogger("twinlog.http")


@dataclass(frozen=True, slots=True)
class Call:
    """One request: the names in its path, decoded, its query and its body."""

    names: Mapping[str, str]
    query: QueryParams
    body: bytes
    base: str  # this server, as the client calls it

    def flag(self, name: str, *, default: bool = False) -> bool:
        """As Java reads a boolean: everything but `true` is false."""
        return self.query.get(name, str(default)).lower() == "true"

    def json(self) -> Any:
        """Without a body, with null, or with what is not JSON at all, the answer is 500: Connect has it so."""
        try:
            found = json.loads(self.body or b"null", parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            raise ConnectError(500, f"The request is not valid JSON{where}") from error
        if found is None:
            raise ConnectError(500, "The request has no content")
        return found


Handler = Callable[[Call], Response]


class Resource(Route):
    """One path with all its methods. A slash at its end makes no difference."""

    def __init__(self, path: str, handlers: Mapping[str, Handler]) -> None:
        self._handlers = dict(handlers)
        allowed = sorted({*handlers, "OPTIONS", *(["HEAD"] if "GET" in handlers else [])})
        self._allowed = PlainTextResponse(", ".join(allowed), headers={"Allow": ",".join(allowed)})
        super().__init__(path, self._answer, methods=allowed)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw = scope.get("raw_path") or scope["path"].encode()
        path = raw.decode("latin-1")
        return super().matches({**scope, "path": path.rstrip("/") or "/", "root_path": ""})

    async def _answer(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return self._allowed
        if not takes_json(request.headers.get("accept", "")):
            raise HTTPException(406)
        body = await request.body()
        content_type = request.headers.get("content-type")
        if not is_json(content_type or "") and (body or content_type is not None):
            raise HTTPException(415)
        names = {name: unquote(value) for name, value in request.path_params.items()}
        base = f"{request.url.scheme}://{request.url.netloc}"
        handler = self._handlers["GET" if request.method == "HEAD" else request.method]
        asked = f"{request.method} {request.url.path}"
        response = await run_in_threadpool(_answered, handler, Call(names, request.query_params, body, base), asked)
        _log.debug("%s: %d", asked, response.status_code)
        return response


def _answered(handler: Handler, call: Call, asked: str) -> Response:
    """What a client did wrong is the client's business; that a cluster failed us is an operator's as well."""
    try:
        return handler(call)
    except ConnectError as error:
        if isinstance(error.__cause__, TwinlogError | OSError):
            _log.warning("%s: %s", asked, error.message)
        return refusal(error.status, error.message)
    except TwinlogError as error:
        _log.warning("%s: %s", asked, error)
        return refusal(500, str(error))


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def takes_json(accept: str) -> bool:
    """Whether an Accept header, absent or not, lets JSON through."""
    ranges = [each.partition(";")[0].strip().lower() for each in accept.split(",") if each.strip()]
    return not ranges or any(each in ("*/*", "application/*", "application/json", "*") for each in ranges)


def prefers_html(accept: str) -> bool:
    """A browser, by its Accept header: it names HTML, and JSON only as one of everything."""
    ranges = [each.partition(";")[0].strip().lower() for each in accept.split(",")]
    return "text/html" in ranges and "application/json" not in ranges


def is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"
