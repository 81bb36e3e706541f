"""Kafka Connect's REST API: which path asks the worker for what, and how its answer is wrapped.

What is checked here is what Connect checks in its REST layer; all else is the worker's to refuse.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from starlette.responses import Response
from starlette.routing import BaseRoute

from twinlog.config.values import MASK
from twinlog.connect.api import Json, Worker
from twinlog.connect.errors import ConnectError
from twinlog.surface.http import rest_plugins
from twinlog.surface.http.answers import answer, empty
from twinlog.surface.http.bodies import members, number, offset_entries, text, texts
from twinlog.surface.http.loggers import Loggers
from twinlog.surface.http.resource import Call, Handler, Resource
from twinlog.surface.http.veil import unveiled, veiled, veiled_info

_CONNECTOR = "/connectors/{connector}"
_STATES = ("RUNNING", "PAUSED", "STOPPED")
_IN_PATHS = "!$&'()*+,;=:@"  # what needs no escape there


def routes(worker: Worker, loggers: Loggers | None = None) -> list[BaseRoute]:
    """All of Connect's paths but `/`, which is shared with the page (see app.py)."""
    rest = _Rest(worker)
    return [
        Resource("/health", {"GET": rest.health}),
        Resource("/connectors", {"GET": rest.connectors, "POST": rest.create}),
        Resource(_CONNECTOR, {"GET": _named(rest.info), "DELETE": rest.done(worker.delete, 204)}),
        Resource(
            f"{_CONNECTOR}/config", {"GET": _named(rest.config), "PUT": rest.put_config, "PATCH": rest.patch_config}
        ),
        Resource(f"{_CONNECTOR}/status", {"GET": _named(worker.status)}),
        Resource(f"{_CONNECTOR}/tasks", {"GET": _named(rest.tasks)}),
        Resource(f"{_CONNECTOR}/tasks/{{task}}/status", {"GET": rest.task_status}),
        Resource(f"{_CONNECTOR}/tasks/{{task}}/restart", {"POST": rest.restart_task}),
        Resource(f"{_CONNECTOR}/pause", {"PUT": rest.done(worker.pause, 202)}),
        Resource(f"{_CONNECTOR}/resume", {"PUT": rest.done(worker.resume, 202)}),
        Resource(f"{_CONNECTOR}/stop", {"PUT": rest.done(worker.stop, 204)}),
        Resource(f"{_CONNECTOR}/restart", {"POST": rest.restart}),
        Resource(
            f"{_CONNECTOR}/offsets",
            {"GET": _named(worker.offsets), "PATCH": rest.alter_offsets, "DELETE": _named(worker.reset_offsets)},
        ),
        Resource(f"{_CONNECTOR}/topics", {"GET": _named(worker.topics)}),
        Resource(f"{_CONNECTOR}/topics/reset", {"PUT": rest.done(worker.reset_topics, 202)}),
        *rest_plugins.routes(),
        *(loggers or Loggers()).routes(),
    ]


def _named(asked: Callable[[str], Any]) -> Handler:
    """Something of the connector that the path names."""
    return lambda call: answer(asked(call.names["connector"]))


class _Rest:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def done(self, what: Callable[[str], None], status: int) -> Handler:
        def handler(call: Call) -> Response:
            what(call.names["connector"])
            return empty(status)

        return handler

    def health(self, _call: Call) -> Response:
        status, content = self._worker.health()
        return answer(content, status)

    def connectors(self, call: Call) -> Response:
        """Names, or with `expand` what is known of each; one that is gone meanwhile, or has no status, is left out."""
        names = self._worker.names()
        if "expand" not in call.query:
            return answer(names)
        asked = {"info": self.info, "status": self._worker.status}
        wanted = [each for each in dict.fromkeys(call.query.getlist("expand")) if each in asked]
        found = {}
        for name in names:
            try:
                found[name] = {each: asked[each](name) for each in wanted}
            except ConnectError as error:
                if error.status != 404:
                    raise
        return answer(found)

    def info(self, name: str) -> Json:
        return veiled_info(self._worker.connector(name))

    def config(self, name: str) -> Json:
        return veiled(self._worker.config(name))

    def tasks(self, name: str) -> list[Json]:
        return [veiled_info(each) for each in self._worker.tasks(name)]

    def create(self, call: Call) -> Response:
        body = members(call.json(), "name", "config", "initial_state")
        name = (text("name", body.get("name")) or "").strip()
        state = text("initial_state", body.get("initial_state"))
        if state is not None and state.upper() not in _STATES:
            raise ConnectError(500, f"initial_state {state!r}: expected {', '.join(_STATES)}")
        made = self._worker.create(name, with_name(name, texts(body.get("config"))), state)
        return _created(call, name, made)

    def put_config(self, call: Call) -> Response:
        name = call.names["connector"]
        created, made = self._worker.put_config(name, self._unveiled(name, with_name(name, texts(call.json()))))
        return _created(call, name, made) if created else answer(veiled_info(made))

    def patch_config(self, call: Call) -> Response:
        name = call.names["connector"]
        patch = texts(call.json())
        if patch.get("name", name) != name:  # Connect would keep it, and then know one connector by two names
            raise ConnectError(400, f"The name of {name} cannot be changed, nor taken away")
        patch = self._unveiled(name, patch)
        return answer(veiled_info(self._worker.patch_config(name, patch)))

    def _unveiled(self, name: str, config: dict[str, str | None]) -> dict[str, str | None]:
        if MASK not in config.values() or name not in self._worker.names():
            return config
        return unveiled(config, self._worker.config(name))

    def task_status(self, call: Call) -> Response:
        return answer(self._worker.task_status(call.names["connector"], number(call.names["task"])))

    def restart_task(self, call: Call) -> Response:
        self._worker.restart_task(call.names["connector"], number(call.names["task"]))
        return empty(204)

    def restart(self, call: Call) -> Response:
        status = self._worker.restart(
            call.names["connector"], include_tasks=call.flag("includeTasks"), only_failed=call.flag("onlyFailed")
        )
        return empty(204) if status is None else answer(status, 202)

    def alter_offsets(self, call: Call) -> Response:
        entries = offset_entries(members(call.json(), "offsets").get("offsets"))
        return answer(self._worker.alter_offsets(call.names["connector"], entries))


def with_name(name: str, config: Mapping[str, str | None]) -> dict[str, str | None]:
    """The configuration with the connector's name in it; one that contradicts is a mistake."""
    written = config.get("name")
    if written is not None and written != name:
        raise ConnectError(
            400, f"Connector name configuration ({written}) doesn't match connector name in the URL ({name})"
        )
    return {**config, "name": name}


def _created(call: Call, name: str, info: Json) -> Response:
    """With its address: in Connect's, a slash in a name stays a slash, and so leads nowhere."""
    address = f"{call.base}/connectors/{quote(name, safe=_IN_PATHS)}"
    return answer(veiled_info(info), 201, {"Location": address})
