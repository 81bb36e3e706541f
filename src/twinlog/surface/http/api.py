"""The JSON that the page lives on. Work is done only when somebody asks, and an answer holds only what has changed."""

import gzip
import json
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.errors import TwinlogError
from twinlog.status.board import Board
from twinlog.status.flow import FlowStatus
from twinlog.surface.http.answers import refusal
from twinlog.surface.http.delta import Feed, Row, Table, boot
from twinlog.surface.http.lagging import reasons
from twinlog.surface.http.rows import (
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

Plan = Callable[[], str]  # `surface.plan.as_json` of all flows; takes seconds
_Part = Callable[[Request], dict[str, Any] | bytes]

_FRESH_S = 1.0  # several pages share what was worked out for the first of them
_AGAIN_MS = 2000
_AGAIN_AT_MOST_MS = 15_000
_SHARE = 300  # a page asks again after 300 times what an answer costs: a third of a percent of a processor
_EVENTS = 2000
_VIEWS = 20  # topics that are looked at, partition by partition
_SMALL = 2000  # bytes that are not worth compressing


def routes(board: Board, plan: Plan | None) -> list[Route]:
    """`plan`: None where it cannot be had."""
    api = _Api(board, plan)
    parts: dict[str, _Part] = {
        "flows": api.flows,
        "topics": api.topics,
        "partitions": api.partitions,
        "groups": api.groups,
        "events": api.events,
        "lost": api.lost,
        "history": api.history,
        "plan": api.plan,
    }
    return [Route(f"/twinlog/{name}", _endpoint(part), methods=["GET"]) for name, part in parts.items()]


class _MissingError(TwinlogError):
    """What is asked for is not there, or not any more."""


def _endpoint(part: _Part) -> Callable[[Request], Response]:
    """Not async: starlette runs it in a thread, so that nobody else waits for it."""

    def endpoint(request: Request) -> Response:
        try:
            return _json(request, part(request))
        except _MissingError as error:
            return refusal(404, str(error))
        except TwinlogError as error:  # a cluster that does not answer, or refuses
            return refusal(500, str(error))

    return endpoint


def _json(request: Request, content: dict[str, Any] | bytes) -> Response:
    # A name may hold half a character that no text can have: whoever wrote it, the others are shown all the same.
    body = content if isinstance(content, bytes) else _encoder.encode(content).encode(errors="replace")
    headers = {"cache-control": "no-store", "vary": "accept-encoding", "x-content-type-options": "nosniff"}
    if len(body) > _SMALL and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, 1, mtime=0)
        headers["content-encoding"] = "gzip"
    return Response(body, 200, headers, "application/json")


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class _Api:
    def __init__(self, board: Board, plan: Plan | None) -> None:
        self._board = board
        self._plan = plan
        self._planning = threading.Lock()
        self._lock = threading.Lock()
        self._boot = boot()
        self._topics = Table(self._boot, TOPIC)
        self._topic_rows: dict[str, tuple[FlowStatus, TopicRows]] = {}
        self._groups = Table(self._boot, GROUP)
        self._partitions: dict[tuple[str, str], Table] = {}
        self._events = Feed(self._boot, _EVENTS)
        self._lost = Feed(self._boot, _EVENTS)
        self._overview: list[dict[str, Any]] = []
        self._costs: dict[str, float] = {}  # seconds of a processor, by what was worked out
        self._fresh: dict[str, float] = {}

    def flows(self, _request: Request) -> dict[str, Any]:
        """Everything but rows. Says when to ask again."""
        with self._lock:
            if self._due("flows"):
                began = time.thread_time()
                self._overview = [flow_json(each) for each in self._board.flows]
                self._costs["flows"] = time.thread_time() - began
            again = min(max(_AGAIN_MS, int(1000 * _SHARE * sum(self._costs.values()))), _AGAIN_AT_MOST_MS)
            return {
                "boot": self._boot,
                "time_ms": int(time.time() * 1000),
                "again_ms": again,
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
            if flows.get(name) is not flow:  # also one that another of its name has replaced: a new run
                gone += [(name, topic) for topic in known.topics]
                del self._topic_rows[name]
        rows: dict[Hashable, Row] = {}
        for name, flow in flows.items():
            changed, missing = self._topic_rows.setdefault(name, (flow, TopicRows()))[1].changed(flow)
            rows |= {(name, topic): row for topic, row in changed.items()}
            gone += [(name, topic) for topic in missing]
        self._topics.change(rows, gone)

    def partitions(self, request: Request) -> dict[str, Any]:
        """Of one topic, and why it lags."""
        flow = self._flow(request)
        topic = request.query_params.get("topic", "")
        found = sorted(
            (each for each in list(flow.partitions.values()) if each.topic == topic), key=lambda each: each.partition
        )
        if not found:
            if not flow.partitions:
                raise _MissingError(f"{flow.name}: no task has reported yet")
            raise _MissingError(f"{flow.name}: topic {topic} is not copied by this flow, or not any more")
        key = (flow.name, topic)
        with self._lock:
            while len(self._partitions) >= _VIEWS and key not in self._partitions:
                self._partitions.pop(next(iter(self._partitions)))  # whoever looks at it gets it whole once more
            table = self._partitions.pop(key, None) or Table(f"{self._boot}-{boot()}", PARTITION)
            self._partitions[key] = table
            table.put({each.partition: partition_row(each, flow) for each in found})
            answer = table.since(request.query_params.get("since", ""))
        why = reasons(flow, found)
        return answer | {"flow": flow.name, "topic": topic, "remote": found[0].remote, "why": why}

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
        things: Callable[[FlowStatus], Iterable[Any]],
        render: Callable[[FlowStatus, Any], dict[str, Any]],
    ) -> dict[str, Any]:
        with self._lock:
            flows = self._board.flows
            feed.forget(flow.name for flow in flows)
            for flow in flows:
                feed.put(flow.name, things(flow), partial(render, flow))
            return feed.since(request.query_params.get("since", ""))

    def history(self, request: Request) -> dict[str, Any]:
        """Of each flow: time, lag in records and in seconds, records and bytes per second. `since`: a time."""
        try:
            since = float(request.query_params.get("since", "0"))
        except ValueError:
            since = 0.0
        points = {
            flow.name: [point(each) for each in flow.history.points() if each[0] > since] for flow in self._board.flows
        }
        return {"boot": self._boot, "flows": points}

    def plan(self, _request: Request) -> bytes:
        if self._plan is None:
            raise _MissingError("no plan can be had here; twinlog plan CONFIG shows it")
        with self._planning:  # one at a time: it asks both clusters for everything
            return self._plan().encode()

    def _flow(self, request: Request) -> FlowStatus:
        name = request.query_params.get("flow", "")
        found = self._board.flow(name)
        if found is None:
            raise _MissingError(f"flow {name} is not there, or not any more")
        return found

    def _due(self, part: str) -> bool:
        now = time.monotonic()
        if now - self._fresh.get(part, -_FRESH_S) < _FRESH_S:
            return False
        self._fresh[part] = now
        return True
