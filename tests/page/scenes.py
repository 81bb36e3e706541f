"""Flows for tests of the page: made of reports like those of tasks, changed by the test, behind the real server."""

import json
import math
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.http import page_api, page_files
from twinlog.http.server import Server
from twinlog.journal.messages import Report, SupervisorReport
from twinlog.status.flow import FlowStatus
from twinlog.status.flow_board import FlowBoard
from twinlog.sync.group_status import GroupStatus

Fields = dict[str, Any]


class Flow:
    """A flow whose tasks report what the test sets."""

    def __init__(
        self, source: str, target: str, topics: Mapping[str, int], *, label: str = "", tasks: int = 2,
        minutes: float = 0, lag: int = 0, speed: int = 900,
    ) -> None:  # fmt: skip
        self.name = f"{source}->{target}" + (f" ({label})" if label else "")
        self.status = FlowStatus(f"run of {self.name}", self.name, source, target)
        self.source, self.tasks, self.epoch = source, tasks, 1
        self.partitions: dict[str, Fields] = {
            f"{topic}-{partition}": self._first(topic, partition)
            for topic, count in topics.items()
            for partition in range(count)
        }
        self._past(minutes, lag, speed)
        self.supervisor_report()

    def _first(self, topic: str, partition: int) -> Fields:
        return {
            "topic": topic, "partition": partition, "remote": f"{self.source}.{topic}", "state": "running",
            "lane": "fast", "position": 1000, "end": 1000, "start": 0, "target": 990, "records": 0, "bytes": 0,
            "batches": 0, "latency_ms": 4.5, "latency": [1, 3.5, 4.5, 6.0], "error": "",
        }  # fmt: skip

    def add(self, topic: str, partitions: int) -> None:
        self.partitions |= {f"{topic}-{each}": self._first(topic, each) for each in range(partitions)}

    def move(self, records: int, *, names: Sequence[str] | None = None, left: int = 0) -> list[str]:
        """Replicates `records` of each of these partitions, and leaves a lag of `left`."""
        chosen = list(self.partitions) if names is None else list(names)
        for name in chosen:
            fields = self.partitions[name]
            fields["position"] += records
            fields["target"] += records
            fields["end"] = fields["position"] + left
            fields["records"] += records
            fields["bytes"] += 120 * records
            fields["batches"] += 1
        return chosen

    def report(
        self, names: Sequence[str] | None = None, *, events: Sequence[Fields] = (), at: float | None = None
    ) -> None:
        """Adds reports of the tasks about these partitions (default: all), and events."""
        second = time.time() if at is None else at
        chosen = list(self.partitions) if names is None else names
        for task in range(self.tasks):
            mine = {
                name: dict(self.partitions[name])
                for name in chosen
                if self.partitions[name]["partition"] % self.tasks == task
            }
            mine[""] = {"latency_p50_ms": 4.1, "latency_p99_ms": 11.8}
            its_events = [*events] if task == 0 else []
            self.status.add(
                Report(
                    self.status.run,
                    self.epoch,
                    task,
                    0,
                    int(second * 1000),
                    mine,
                    its_events,
                    host=f"worker-{task + 1}:4711",
                )
            )

    def supervisor_report(self, state: str = "running", error: str = "") -> None:
        now = int(time.time() * 1000)
        began, beat, checkpoint = now - 3_600_000, now - 700, now - 3000
        report = SupervisorReport(self.name, self.status.run, began, now, state, error, self.tasks, 1, beat, checkpoint)
        self.status.supervisor_report(report)

    def _past(self, minutes: float, lag: int, speed: int) -> None:
        """History: reports of one partition, every five seconds."""
        chance = random.Random(self.name)
        name = next(iter(self.partitions), "")
        now = time.time()
        for step in range(int(minutes * 12), 0, -1):
            wave = 0.5 + 0.4 * math.sin(step / 40 + len(self.name)) + 0.1 * chance.random()
            self.move(int(speed * 5 * (0.6 + 0.8 * wave)), names=[name], left=int(lag * wave * wave))
            self.report([name], at=now - 5 * step)

    def event(self, kind: str, text: str, partition: str = "", amount: int | None = None, **more: Any) -> Fields:
        event: Fields = {"time": int(time.time() * 1000), "kind": kind, "text": text, **more}
        if partition:
            event["partition"] = partition
        return event if amount is None else {**event, "amount": amount}

    def groups(self, names: Sequence[str]) -> None:
        now = int(time.time() * 1000)
        first = next(iter(self.partitions.values()))
        self.status.set_groups(
            GroupStatus(
                group, first["remote"], partition, first["topic"], 900 + at, 1000, 890 + at, now - 4000, 880 + at, 990
            )
            for at, group in enumerate(names)
            for partition in range(2)
        )


class Connectors:
    """The part of Connect's REST API that the page uses. The real one is tested elsewhere."""

    def __init__(self, *, read_only: bool = False) -> None:
        self.read_only = read_only
        self.states = {"us->eu.MirrorSourceConnector": "RUNNING", "us->eu.MirrorCheckpointConnector": "RUNNING"}
        self.requests: list[str] = []

    def routes(self) -> list[Route]:
        return [
            Route("/connectors", self._all, methods=["GET"]),
            Route("/connectors/{name}/{action}", self._act, methods=["PUT", "POST"]),
        ]

    def _all(self, _request: Request) -> Response:
        found = {
            name: {
                "info": {
                    "name": name,
                    "config": {"connector.class": name.partition(".")[2]},
                },
                "status": {
                    "name": name,
                    "connector": {"state": state, "worker_id": "127.0.0.1:8083"},
                    "tasks": [{"id": 0, "state": state, "worker_id": "127.0.0.1:8083"}],
                },
            }
            for name, state in self.states.items()
        }
        return Response(json.dumps(found), media_type="application/json")

    def _act(self, request: Request) -> Response:
        name, action = request.path_params["name"], request.path_params["action"]
        self.requests.append(f"{request.method} {name} {action} {request.url.query}".strip())
        if self.read_only:
            text = '{"error_code": 403, "message": "not possible with twinlog run; use twinlog serve"}'
            return Response(text, 403, media_type="application/json")
        self.states[name] = "PAUSED" if action == "pause" else "RUNNING"
        return Response(status_code=202)


class Stage:
    """A board behind a real server, which keeps its port when reopened."""

    def __init__(self, flows: Sequence[Flow] = (), *, plan: page_api.Plan | None = None) -> None:
        self.flows = list(flows)
        self.board = FlowBoard(flow.status for flow in self.flows)
        self.plan = plan
        self.connectors = Connectors()
        self.answered: list[tuple[str, int]] = []  # path and bytes
        self._server: Server | None = None
        self.port = 0

    def show(self, *flows: Flow) -> None:
        self.flows = list(flows)
        self.board.show(flow.status for flow in flows)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        routes = [
            Route("/", lambda _request: page_files.index()),
            *page_api.routes(self.board, self.plan),
            *page_files.routes(),
            *self.connectors.routes(),
        ]
        self._server = Server(Starlette(routes=routes), port=self.port)
        self._server.start()
        self.port = self._server.port

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()
        self._server = None
