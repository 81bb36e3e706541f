"""`GET /metrics`, for Prometheus."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.connect.worker_api import Worker
from twinlog.http.responses import accepts_gzip, gzipped
from twinlog.metrics.exposition import Exposition
from twinlog.metrics.text_format import CONTENT_TYPE
from twinlog.status.flow_board import FlowBoard


def routes(board: FlowBoard, worker: Worker | None = None) -> list[Route]:
    exposition = Exposition(board, worker)

    def metrics(request: Request) -> Response:
        """Not async: Starlette runs it in a thread, as thousands of partitions take some time."""
        body = exposition.text(request.query_params.getlist("name[]")).encode("utf-8", "replace")
        headers = {"content-type": CONTENT_TYPE, "vary": "accept-encoding", "cache-control": "no-store"}
        if accepts_gzip(request.headers.get("accept-encoding", "")):
            body = gzipped(body)
            headers["content-encoding"] = "gzip"
        return Response(body, headers=headers)

    return [Route("/metrics", metrics, methods=["GET"])]
