"""The page's files, as they lie in the package: nothing is built, nothing comes from another host."""

import hashlib
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain; charset=utf-8",
}
# Names of topics and errors come from strangers. Should one ever reach the page as markup, the browser will not run it,
# and nothing can be sent elsewhere.
_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",  # asked for each time, answered by 304 mostly: a new version is seen at once
}


def routes() -> list[Route]:
    return [Route("/static/{path:path}", _static, methods=["GET"]), Route("/favicon.ico", _icon, methods=["GET"])]


def index() -> Response:
    return _answer("index.html", None)


def _static(request: Request) -> Response:
    return _answer(request.path_params["path"], request.headers.get("if-none-match"))


def _icon(request: Request) -> Response:
    return _answer("icon.svg", request.headers.get("if-none-match"))


def _answer(path: str, known: str | None) -> Response:
    found = _files().get(path)
    if found is None:
        return Response("There is no such file.", 404, _HEADERS, "text/plain; charset=utf-8")
    body, etag, kind = found
    headers = _HEADERS | {"etag": etag}
    if known is not None and etag in known:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=kind)


@cache
def _files() -> dict[str, tuple[bytes, str, str]]:
    """All of them by path, with ETag and type: what is asked for is looked up here, and never reaches a file system."""
    found: dict[str, tuple[bytes, str, str]] = {}

    def collect(folder: Traversable, prefix: str) -> None:
        for each in folder.iterdir():
            if each.is_dir():
                collect(each, f"{prefix}{each.name}/")
            elif kind := _TYPES.get(each.name[each.name.rfind(".") :]):
                body = each.read_bytes()
                found[prefix + each.name] = (body, f'"{hashlib.sha256(body).hexdigest()[:16]}"', kind)

    collect(resources.files("twinlog.surface") / "page", "")
    return found
