"""The JSON API of the web UI: computed on request, and limited to what has changed since the client's version."""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.errors import TwinlogError
from twinlog.http.changed_rows import Feed, Row, Table, boot
from twinlog.http.page_rows import (
    GROUP,
    PARTITION,
    TOPIC,
    TopicRows,
    event_json,
    flow_json,
    group_row,
    lost_json,
    partition_row,
    point,
)
from twinlog.http.responses import accepts_gzip, error_response, gzipped
from twinlog.status.flow import FlowStatus
from twinlog.status.flow_board import FlowBoard
from twinlog.status.lag_reasons import reasons

Plan = Callable[[], str]  # the plan of all flows as JSON; takes seconds
_Part = Callable[[Request], dict[str, Any] | bytes]

_FRESH_S = 1.0  # how long a result is reused for other clients
_POLL_MS = 2000
_MAX_POLL_MS = 15_000
_POLL_COST_RATIO = 300  # poll interval / CPU time of a response: the web UI costs a third of a percent of a CPU
_MAX_EVENTS = 2000
_MAX_TOPIC_TABLES = 20  # topics whose partitions are tracked at a time
_MIN_GZIP_BYTES = 2000


def routes(board: FlowBoard, plan: Plan | None) -> list[Route]:
    """`plan`: None if this process cannot make one."""
    api = _Api(board, plan)
    parts: dict[str, _Part] = {
        "flows": api.flows,
        "topics": api.topics,
        "partitions": api.partitions,
        "groups": api.groups,
        "events": api.events,
        "lost": api.lost,
        "history": api.history,
    }
    endpoints = [Route(f"/twinlog/{name}", _endpoint(part), methods=["GET"]) for name, part in parts.items()]
    return [*endpoints, Route("/twinlog/plan", _plan_endpoint(plan), methods=["GET"])]


class _MissingError(TwinlogError):
    """Unknown flow or topic: 404."""


def _endpoint(part: _Part) -> Callable[[Request], Response]:
    """Not async: Starlette runs it in a thread, so that it does not block other requests."""

    def endpoint(request: Request) -> Response:
        try:
            return _json(request, part(request))
        except _MissingError as error:
            return error_response(404, str(error))
        except TwinlogError as error:  # a cluster is unreachable, or refuses the request
            return error_response(500, str(error))

    return endpoint


def _in_thread(work: Callable[[], str]) -> asyncio.Future[str]:
    """In a daemon thread: a server that stops does not wait for it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[str] = loop.create_future()

    def complete(result: str, error: Exception | None) -> None:
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
            future.exception()  # marks it as retrieved, in case every client has disconnected

    def run() -> None:
        result, failed = "", None
        try:
            result = work()
        except Exception as error:  # noqa: BLE001  # raised by the future
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(complete, result, failed)

    threading.Thread(target=run, name="plan", daemon=True).start()
    return future


def _plan_endpoint(plan: Plan | None) -> Callable[[Request], Awaitable[Response]]:
    """A plan queries both clusters at length: one runs at a time, and concurrent requests share its result."""
    running: asyncio.Future[str] | None = None

    async def endpoint(request: Request) -> Response:
        nonlocal running
        if plan is None:
            return error_response(404, "plan: not available in this process; run twinlog plan CONFIG")
        if running is None or running.done():
            running = _in_thread(plan)
        try:
            result = await asyncio.shield(running)  # a client that disconnects must not cancel it for the others
        except TwinlogError as error:
            return error_response(500, str(error))
        return await run_in_threadpool(_json, request, result.encode())

    return endpoint


def _json(request: Request, content: dict[str, Any] | bytes) -> Response:
    # A name may contain a lone surrogate, which UTF-8 cannot encode: it must not fail the whole response.
    body = content if isinstance(content, bytes) else _encoder.encode(content).encode(errors="replace")
    headers = {"cache-control": "no-store", "vary": "accept-encoding", "x-content-type-options": "nosniff"}
    if len(body) > _MIN_GZIP_BYTES and accepts_gzip(request.headers.get("accept-encoding", "")):
        body = gzipped(body)
        headers["content-encoding"] = "gzip"
    return Response(body, 200, headers, "application/json")


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class _Api:
    def __init__(self, board: FlowBoard, plan: Plan | None) -> None:
        self._board = board
        self._plan = plan
        self._lock = threading.Lock()
        self._boot = boot()
        self._topics = Table(self._boot, TOPIC)
        self._topic_rows: dict[str, tuple[FlowStatus, TopicRows]] = {}
        self._groups = Table(self._boot, GROUP)
        self._partitions: dict[tuple[str, str], Table] = {}
        self._events = Feed(self._boot, _MAX_EVENTS)
        self._lost = Feed(self._boot, _MAX_EVENTS)
        self._overview: list[dict[str, Any]] = []
        self._costs: dict[str, float] = {}  # CPU seconds of the last computation
        self._fresh: dict[str, float] = {}

    def flows(self, _request: Request) -> dict[str, Any]:
        """Everything but rows, and the interval after which the web UI should poll again."""
        with self._lock:
            if self._due("flows"):
                began = time.thread_time()
                self._overview = [flow_json(each) for each in self._board.flows]
                self._costs["flows"] = time.thread_time() - began
            poll_ms = min(max(_POLL_MS, int(1000 * _POLL_COST_RATIO * sum(self._costs.values()))), _MAX_POLL_MS)
            return {
                "boot": self._boot,
                "time_ms": int(time.time() * 1000),
                "again_ms": poll_ms,
                "plan": self._plan is not None,
                "flows": self._overview,
            }

    def topics(self, request: Request) -> dict[str, Any]:
        with self._lock:
            if self._due("topics"):
                began = time.thread_time()
                self._change_topics()
                self._costs["topics"] = time.thread_time() - began
            return self._topics.since(request.query_params.get("since", ""))

    def _change_topics(self) -> None:
        flows = {flow.name: flow for flow in self._board.flows}
        gone: list[Hashable] = []
        for name, (flow, known) in list(self._topic_rows.items()):
            if flows.get(name) is not flow:  # deleted, or replaced by a new run with the same name
                gone += [(name, topic) for topic in known.topics]
                del self._topic_rows[name]
        rows: dict[Hashable, Row] = {}
        for name, flow in flows.items():
            changed, missing = self._topic_rows.setdefault(name, (flow, TopicRows()))[1].changed(flow)
            rows |= {(name, topic): row for topic, row in changed.items()}
            gone += [(name, topic) for topic in missing]
        self._topics.change(rows, gone)

    def partitions(self, request: Request) -> dict[str, Any]:
        """The partitions of a topic, with the reasons for its lag."""
        flow = self._flow(request)
        topic = request.query_params.get("topic", "")
        found = sorted(
            (each for each in list(flow.partitions.values()) if each.topic == topic), key=lambda each: each.partition
        )
        if not found:
            if not flow.partitions:
                raise _MissingError(f"flow {flow.name}: no task has reported yet")
            raise _MissingError(f"flow {flow.name}: topic {topic} is not replicated")
        key = (flow.name, topic)
        with self._lock:
            while len(self._partitions) >= _MAX_TOPIC_TABLES and key not in self._partitions:
                self._partitions.pop(next(iter(self._partitions)))  # its clients get all rows once more
            table = self._partitions.pop(key, None) or Table(f"{self._boot}-{boot()}", PARTITION)
            self._partitions[key] = table
            table.put({each.partition: partition_row(each, flow) for each in found})
            response = table.since(request.query_params.get("since", ""))
        why = list(map(str, reasons(flow, found)))
        return response | {"flow": flow.name, "topic": topic, "remote": found[0].remote, "why": why}

    def groups(self, request: Request) -> dict[str, Any]:
        with self._lock:
            if self._due("groups"):
                self._groups.put(
                    {
                        (flow.name, each.group, each.topic, each.partition): group_row(flow, each)
                        for flow in self._board.flows
                        for each in list(flow.groups)
                    }
                )
            return self._groups.since(request.query_params.get("since", ""))

    def events(self, request: Request) -> dict[str, Any]:
        return self._feed(request, self._events, lambda flow: flow.events, event_json)

    def lost(self, request: Request) -> dict[str, Any]:
        return self._feed(request, self._lost, lambda flow: flow.lost_ranges, lost_json)

    def _feed(
        self,
        request: Request,
        feed: Feed,
        items: Callable[[FlowStatus], Iterable[Any]],
        render: Callable[[FlowStatus, Any], dict[str, Any]],
    ) -> dict[str, Any]:
        with self._lock:
            flows = self._board.flows
            feed.retain(flow.name for flow in flows)
            for flow in flows:
                feed.put(flow.name, items(flow), partial(render, flow))
            return feed.since(request.query_params.get("since", ""))

    def history(self, request: Request) -> dict[str, Any]:
        """Per flow: time, lag in records and in seconds, records and bytes per second. `since`: a timestamp."""
        try:
            since = float(request.query_params.get("since", "0"))
        except ValueError:
            since = 0.0
        points = {
            flow.name: [point(each) for each in flow.history.points() if each[0] > since] for flow in self._board.flows
        }
        return {"boot": self._boot, "flows": points}

    def _flow(self, request: Request) -> FlowStatus:
        name = request.query_params.get("flow", "")
        found = self._board.flow(name)
        if found is None:
            raise _MissingError(f"flow {name}: not found")
        return found

    def _due(self, part: str) -> bool:
        now = time.monotonic()
        if now - self._fresh.get(part, -_FRESH_S) < _FRESH_S:
            return False
        self._fresh[part] = now
        return True
