"""Kafka Connect's REST API: maps paths and methods to the worker.

Only what Connect checks in its REST layer is checked here; the worker checks everything else.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from starlette.responses import Response
from starlette.routing import BaseRoute

from twinlog.connect import connector_plugins
from twinlog.connect.errors import ConnectError
from twinlog.connect.validate import validate_request
from twinlog.connect.worker_api import Json, Worker
from twinlog.http.loggers_api import Loggers
from twinlog.http.redaction import patched, redacted, redacted_info, restored
from twinlog.http.request_bodies import members, number, offset_entries, text, texts
from twinlog.http.responses import empty, json_response
from twinlog.http.rest_resource import Call, Handler, Resource
from twinlog.text import MASK

_CONNECTOR = "/connectors/{connector}"
_PLUGIN = "/connector-plugins/{plugin}/config"
_STATES = ("RUNNING", "PAUSED", "STOPPED")
_BAD_NAME = "connector name {!r}: not usable in a URL path; choose one without /, \\ and %"
_PATH_SAFE = "!$&'()*+,;=:@"  # not escaped in paths


def routes(worker: Worker, loggers: Loggers | None = None, *, mask: bool = True) -> list[BaseRoute]:
    """All of Connect's paths except `/`, which is shared with the web UI (see app.py). `mask`: see redaction.py.

    Without `loggers`, `/admin` is not served.
    """
    rest = _Rest(worker, mask=mask)
    return [
        Resource("/health", {"GET": rest.health}, in_event_loop=True),
        Resource("/connectors", {"GET": rest.connectors, "POST": rest.create}),
        Resource(_CONNECTOR, {"GET": rest.query(rest.info), "DELETE": rest.action(worker.delete, 204)}),
        Resource(
            f"{_CONNECTOR}/config", {"GET": rest.query(rest.config), "PUT": rest.put_config, "PATCH": rest.patch_config}
        ),
        Resource(f"{_CONNECTOR}/status", {"GET": rest.query(worker.status)}),
        Resource(f"{_CONNECTOR}/tasks", {"GET": rest.query(rest.tasks)}),
        Resource(f"{_CONNECTOR}/tasks/{{task}}/status", {"GET": rest.task_status}),
        Resource(f"{_CONNECTOR}/tasks/{{task}}/restart", {"POST": rest.restart_task}),
        Resource(f"{_CONNECTOR}/pause", {"PUT": rest.action(worker.pause, 202)}),
        Resource(f"{_CONNECTOR}/resume", {"PUT": rest.action(worker.resume, 202)}),
        Resource(f"{_CONNECTOR}/stop", {"PUT": rest.action(worker.stop, 204)}),
        Resource(f"{_CONNECTOR}/restart", {"POST": rest.restart}),
        Resource(
            f"{_CONNECTOR}/offsets",
            {
                "GET": rest.query(worker.offsets),
                "PATCH": rest.alter_offsets,
                "DELETE": rest.query(worker.reset_offsets),
            },
        ),
        Resource(f"{_CONNECTOR}/topics", {"GET": rest.query(worker.topics)}),
        Resource(f"{_CONNECTOR}/topics/reset", {"PUT": rest.action(worker.reset_topics, 202)}),
        Resource("/connector-plugins", {"GET": _plugins}),
        Resource(_PLUGIN, {"GET": _plugin_settings}),
        Resource(f"{_PLUGIN}/validate", {"PUT": _validate}),
        *(loggers.routes() if loggers else ()),
    ]


def _plugins(call: Call) -> Response:
    return json_response(connector_plugins.listed(connectors_only=call.flag("connectorsOnly", default=True)))


def _plugin_settings(call: Call) -> Response:
    return json_response(connector_plugins.definitions(call.names["plugin"], call.query.get("version")))


def _validate(call: Call) -> Response:
    return json_response(validate_request(call.names["plugin"], texts(call.json())).as_json())


class _Rest:
    def __init__(self, worker: Worker, *, mask: bool) -> None:
        self._worker = worker
        self._mask = mask

    def action(self, act: Callable[[str], None], status: int) -> Handler:
        """Acts on the connector in the path; the response has no body."""

        def handler(call: Call) -> Response:
            act(self._name(call))
            return empty(status)

        return handler

    def query(self, read: Callable[[str], Any]) -> Handler:
        """Responds with what `read` returns for the connector in the path."""
        return lambda call: json_response(read(self._name(call)))

    def _name(self, call: Call) -> str:
        """Connect answers 400 to every path with such a name; here, a connector that has one can still be managed."""
        name = call.names["connector"]
        if not addressable(name) and name not in self._worker.names():
            raise ConnectError(400, _BAD_NAME.format(name))
        return name

    def health(self, _call: Call) -> Response:
        status, content = self._worker.health()
        return json_response(content, status)

    def connectors(self, call: Call) -> Response:
        """Names, or with `expand` info and status; connectors deleted meanwhile or without a status are left out."""
        names = self._worker.names()
        if "expand" not in call.query:
            return json_response(names)
        views = {"info": self.info, "status": self._worker.status}
        wanted = [each for each in dict.fromkeys(call.query.getlist("expand")) if each in views]
        found = {}
        for name in names:
            try:
                found[name] = {each: views[each](name) for each in wanted}
            except ConnectError as error:
                if error.status != 404:
                    raise
        return json_response(found)

    def info(self, name: str) -> Json:
        return self._shown(self._worker.connector(name))

    def config(self, name: str) -> Json:
        config = self._worker.config(name)
        return redacted(config) if self._mask else config

    def tasks(self, name: str) -> list[Json]:
        return [self._shown(each) for each in self._worker.tasks(name)]

    def _shown(self, info: Json) -> Json:
        return redacted_info(info) if self._mask else info

    def create(self, call: Call) -> Response:
        body = members(call.json(), "name", "config", "initial_state")
        name = (text("name", body.get("name")) or "").strip()
        state = text("initial_state", body.get("initial_state"))
        if state is not None and state.upper() not in _STATES:
            raise ConnectError(500, f"initial_state {state!r}: expected {', '.join(_STATES)}")
        config = restored(with_name(name, texts(body.get("config"))), {})
        if not addressable(name):
            raise ConnectError(400, _BAD_NAME.format(name))
        return self._created(call, name, self._worker.create(name, config, state))

    def put_config(self, call: Call) -> Response:
        name = self._name(call)
        created, info = self._worker.put_config(name, self._restored(name, with_name(name, texts(call.json()))))
        return self._created(call, name, info) if created else json_response(self._shown(info))

    def patch_config(self, call: Call) -> Response:
        name = self._name(call)
        patch = texts(call.json())
        if patch.get("name", name) != name:  # Connect would store it, and then have two names for one connector
            raise ConnectError(400, f"connector {name}: its name cannot be changed or removed")
        patch = patched(patch, self._worker.config(name) if name in self._worker.names() else {}, mask=self._mask)
        return json_response(self._shown(self._worker.patch_config(name, patch)))

    def _restored(self, name: str, config: dict[str, str | None]) -> dict[str, str | None]:
        if MASK not in config.values():
            return config
        return restored(config, self._worker.config(name) if name in self._worker.names() else {})

    def task_status(self, call: Call) -> Response:
        return json_response(self._worker.task_status(self._name(call), number(call.names["task"])))

    def restart_task(self, call: Call) -> Response:
        self._worker.restart_task(self._name(call), number(call.names["task"]))
        return empty(204)

    def restart(self, call: Call) -> Response:
        status = self._worker.restart(
            self._name(call), include_tasks=call.flag("includeTasks"), only_failed=call.flag("onlyFailed")
        )
        return empty(204) if status is None else json_response(status, 202)

    def alter_offsets(self, call: Call) -> Response:
        entries = offset_entries(members(call.json(), "offsets").get("offsets"))
        return json_response(self._worker.alter_offsets(self._name(call), entries))

    def _created(self, call: Call, name: str, info: Json) -> Response:
        address = f"{call.base}/connectors/{quote(name, safe=_PATH_SAFE)}"
        return json_response(self._shown(info), 201, {"Location": address})


def with_name(name: str, config: Mapping[str, str | None]) -> dict[str, str | None]:
    """The configuration with `name` set; a different name in it is an error."""
    configured = config.get("name")
    if configured is not None and configured != name:
        raise ConnectError(
            400, f"Connector name configuration ({configured}) doesn't match connector name in the URL ({name})"
        )
    return {**config, "name": name}


def addressable(name: str) -> bool:
    """Whether it can be used in a path: Connect's server rejects %2F, %5C and %25 in paths as ambiguous."""
    return name not in {".", ".."} and not any(each in name for each in "/\\%")
