"""`/admin/loggers`: log levels at run time, for Python's loggers with log4j's level names.

`twinlog` covers all of Twinlog, `twinlog.flow` the events of flows, `twinlog.http` (DEBUG) each request; `kafka` and
`uvicorn` are libraries and off by default. A change applies to this process and is lost when it ends.
"""

import logging
import time
from collections.abc import Iterable
from typing import Final

from starlette.responses import Response
from starlette.routing import BaseRoute

from twinlog.connect.errors import ConnectError
from twinlog.http.request_bodies import texts
from twinlog.http.responses import empty, json_response
from twinlog.http.rest_resource import Call, Resource
from twinlog.logs import LEVELS, OURS, level_name

_GATEWAY: Final = "py4j"
_ROOT = "root"


class Loggers:
    """Reads and changes log levels; remembers when each was changed."""

    def __init__(self) -> None:
        self._changed: dict[str, int] = {}

    def routes(self) -> list[BaseRoute]:
        return [
            Resource("/admin/loggers", {"GET": lambda _call: json_response(self.all())}),
            Resource("/admin/loggers/{logger}", {"GET": self._get, "PUT": self._put}),
        ]

    def all(self) -> dict[str, dict[str, str | int | None]]:
        """Loggers with a level of their own, and Twinlog's."""
        return {name: self._entry(name) for name in sorted({_ROOT, *OURS, *_with_level()})}

    def _entry(self, name: str) -> dict[str, str | int | None]:
        return {"level": level_name(_logger(name).getEffectiveLevel()), "last_modified": self._changed.get(name)}

    def _get(self, call: Call) -> Response:
        name = call.names["logger"]
        if name not in self.all():
            raise ConnectError(404, f"Logger {name} not found.")
        return json_response(self._entry(name))

    def _put(self, call: Call) -> Response:
        level = texts(call.json()).get("level")
        if level is None:
            raise ConnectError(400, "Desired 'level' parameter was not specified in request.")
        if level.upper() not in LEVELS:
            raise ConnectError(404, f"invalid log level '{level}'.")
        scope = call.query.get("scope", "worker").lower()
        changed = self.change(call.names["logger"], level.upper())
        return empty(204) if scope == "cluster" else json_response(changed)

    def change(self, name: str, level: str) -> list[str]:
        """Sets the level of a logger and of its descendants that have their own; returns those whose level changed."""
        below = [each for each in _with_level() if name == _ROOT or each.startswith(f"{name}.")]
        now = int(time.time() * 1000)
        changed = []
        for each in sorted({name, *below}):
            if _logger(each).getEffectiveLevel() != LEVELS[level]:
                self._changed[each] = now
                changed.append(each)
        for each in {name, *below}:
            _logger(each).setLevel(max(LEVELS[level], logging.INFO) if _logs_secrets(each) else LEVELS[level])
        # Without a level of its own, the gateway inherits the new one.
        gateway = _logger(_GATEWAY)
        gateway.setLevel(max(gateway.getEffectiveLevel(), logging.INFO))
        return changed


def _logs_secrets(name: str) -> bool:
    """Below INFO, Spark's gateway (py4j) logs its authentication token with every command."""
    return name == _GATEWAY or name.startswith(f"{_GATEWAY}.")


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == _ROOT else name)


def _with_level() -> Iterable[str]:
    known = dict(logging.root.manager.loggerDict)
    return [name for name, each in known.items() if isinstance(each, logging.Logger) and each.level]
