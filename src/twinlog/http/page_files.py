"""Serves the static files of the web UI from the package; no build step, nothing from other hosts."""

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
# Topic names and error texts are untrusted. Should one ever reach the web UI as markup, this policy keeps the browser
# from running it or sending data elsewhere.
_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",  # revalidated each time (mostly 304), so that a new version is used at once
}


def routes() -> list[Route]:
    return [Route("/static/{path:path}", _static, methods=["GET"]), Route("/favicon.ico", _icon, methods=["GET"])]


def index() -> Response:
    return _response("index.html", None)


def _static(request: Request) -> Response:
    return _response(request.path_params["path"], request.headers.get("if-none-match"))


def _icon(request: Request) -> Response:
    return _response("icon.svg", request.headers.get("if-none-match"))


def _response(path: str, if_none_match: str | None) -> Response:
    found = _files().get(path)
    if found is None:
        return Response("File not found", 404, _HEADERS, "text/plain; charset=utf-8")
    body, etag, kind = found
    headers = _HEADERS | {"etag": etag}
    if if_none_match is not None and etag in if_none_match:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=kind)


@cache
def _files() -> dict[str, tuple[bytes, str, str]]:
    """All files by path, with ETag and type. Requested paths are looked up here and never reach the file system."""
    found: dict[str, tuple[bytes, str, str]] = {}

    def collect(folder: Traversable, prefix: str) -> None:
        for each in folder.iterdir():
            if each.is_dir():
                collect(each, f"{prefix}{each.name}/")
            elif kind := _TYPES.get(each.name[each.name.rfind(".") :]):
                body = each.read_bytes()
                found[prefix + each.name] = (body, f'"{hashlib.sha256(body).hexdigest()[:16]}"', kind)

    collect(resources.files("twinlog") / "page", "")
    return found
