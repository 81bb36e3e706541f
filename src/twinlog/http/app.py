"""The ASGI application: Connect's REST API, metrics, the web UI and its JSON API."""

import contextlib
import logging
from collections.abc import Collection, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from twinlog.connect.worker_api import Worker
from twinlog.http import connect_api, metrics_endpoint, page_api, page_files
from twinlog.http.access_control import ROLE, AccessControl
from twinlog.http.loggers_api import Loggers
from twinlog.http.page_api import Plan
from twinlog.http.responses import error_response, json_response
from twinlog.http.rest_resource import Resource, prefers_html
from twinlog.http.users import User
from twinlog.status.flow_board import FlowBoard

_log = logging.getLogger("twinlog.http")


def build(
    worker: Worker,
    board: FlowBoard | None = None,
    plan: Plan | None = None,
    *,
    local: bool = True,
    users: Mapping[str, User] | None = None,
    hosts: Collection[str] = (),
    mask: bool = True,
    admin: bool = True,
) -> ASGIApp:
    """Without a board, only Connect's REST API. `local`, `users` and `hosts`: see AccessControl; `mask`: redaction.py.

    `admin`: whether `/admin` is served. Viewers always get masked secrets.
    """
    monitoring = (
        []
        if board is None
        else [*metrics_endpoint.routes(board, worker), *page_api.routes(board, plan), *page_files.routes()]
    )
    loggers = Loggers() if admin else None

    def app_for_role(*, mask: bool) -> ASGIApp:
        app = Starlette(
            routes=[
                _Root(worker, has_page=bool(monitoring)),
                *connect_api.routes(worker, loggers, mask=mask),
                *monitoring,
            ],
            exception_handlers={HTTPException: _http_error, Exception: _internal_error},
        )
        app.router.redirect_slashes = False
        return _SuppressReraise(app)

    return AccessControl(
        _ByRole({"operator": app_for_role(mask=mask), "viewer": app_for_role(mask=True)}),
        local=local,
        users=users,
        hosts=hosts,
    )


class _Root(Resource):
    """`GET /`: the web UI for browsers, Connect's worker info for other clients."""

    def __init__(self, worker: Worker, *, has_page: bool) -> None:
        super().__init__("/", {"GET": lambda _call: json_response(worker.info())})
        self._has_page = has_page

    async def _respond(self, request: Request) -> Response:
        if self._has_page and prefers_html(request.headers.get("accept", "")):
            return page_files.index()
        return await super()._respond(request)


async def _http_error(_request: Request, error: Exception) -> Response:
    """Unknown path or method, unsupported media type: as JSON, in Connect's format."""
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, headers=error.headers)


async def _internal_error(request: Request, error: Exception) -> Response:
    """A bug: the stack trace goes to the log, never into the response."""
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return error_response(500, "Internal error: see Twinlog's log")


class _ByRole:
    """One application per role, so that handlers need not check roles."""

    def __init__(self, apps: Mapping[str, ASGIApp]) -> None:
        self._apps = apps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._apps[scope[ROLE]](scope, receive, send)


class _SuppressReraise:
    """Starlette re-raises an exception after it has sent the 500 response; it is logged already."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(Exception):
            await self._app(scope, receive, send)
