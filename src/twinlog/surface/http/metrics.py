"""`GET /metrics`, for Prometheus."""

import zlib

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.connect.api import Worker
from twinlog.status.board import Board
from twinlog.surface.metrics.exposition import Exposition
from twinlog.surface.metrics.text import CONTENT_TYPE

_GZIP = 16 + zlib.MAX_WBITS
_FAST = 1  # much of it repeats: more effort takes twice the time for a tenth of the bytes


def routes(board: Board, worker: Worker | None = None) -> list[Route]:
    exposition = Exposition(board, worker)

    def metrics(request: Request) -> Response:
        """In a thread of its own, as thousands of partitions take some time."""
        body = exposition.text(request.query_params.getlist("name[]")).encode("utf-8", "replace")
        headers = {"content-type": CONTENT_TYPE, "vary": "accept-encoding", "cache-control": "no-store"}
        if wants_gzip(request.headers.get("accept-encoding", "")):
            pressing = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP)
            body = pressing.compress(body) + pressing.flush()
            headers["content-encoding"] = "gzip"
        return Response(body, headers=headers)

    return [Route("/metrics", metrics, methods=["GET"])]


def wants_gzip(accepted: str) -> bool:
    """`gzip;q=0` is a refusal; `*` stands for what is not named."""
    said = {}
    for part in accepted.lower().split(","):
        name, _, weight = part.partition(";")
        said[name.strip()] = weight.replace(" ", "")
    if "gzip" not in said and "*" not in said:
        return False
    try:
        return float(said.get("gzip", said.get("*", "")).removeprefix("q=") or 1) > 0
    except ValueError:
        return False
