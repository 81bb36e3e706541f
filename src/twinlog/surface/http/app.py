"""All that is served, put together: Connect's REST API, metrics, the page's API and the page."""

import contextlib
import logging
from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from twinlog.connect.api import Worker
from twinlog.status.board import Board
from twinlog.surface.http import api, metrics, page, rest
from twinlog.surface.http.answers import answer, refusal
from twinlog.surface.http.api import Plan
from twinlog.surface.http.guard import Guard
from twinlog.surface.http.resource import Resource, prefers_html

_log = logging.getLogger("twinlog.http")


def build(
    worker: Worker,
    board: Board | None = None,
    plan: Plan | None = None,
    *,
    local: bool = True,
    users: Mapping[str, str] | None = None,
) -> ASGIApp:
    """Without a board, only Connect's REST API. See Guard for `local` and `users`."""
    seen = [] if board is None else [*metrics.routes(board, worker), *api.routes(board, plan), *page.routes()]
    app = Starlette(
        routes=[_Root(worker, has_page=bool(seen)), *rest.routes(worker), *seen],
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    app.router.redirect_slashes = False
    return Guard(_Whole(app), local=local, users=users)


class _Root(Resource):
    """`GET /`: the page for a browser, and for all others what Connect says of itself."""

    def __init__(self, worker: Worker, *, has_page: bool) -> None:
        super().__init__("/", {"GET": lambda _call: answer(worker.info())})
        self._has_page = has_page

    async def _answer(self, request: Request) -> Response:
        if self._has_page and prefers_html(request.headers.get("accept", "")):
            return page.index()
        return await super()._answer(request)


async def _refused(_request: Request, error: Exception) -> Response:
    """A path or method that there is not, a form that is not understood: in Connect's words, as JSON."""
    assert isinstance(error, HTTPException)
    return refusal(error.status_code, headers=error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """A mistake of ours: a line in the log, and nothing of our insides in the answer."""
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return refusal(500, "The request failed: the log says more")


class _Whole:
    """Starlette raises again what it has answered already; here that ends."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(Exception):
            await self._app(scope, receive, send)
