"""`/admin/loggers`: what is logged, changed while it runs; Python's loggers with the names of log4j's levels.

`twinlog` is everything that Twinlog says, `twinlog.flow` what becomes of flows, `twinlog.http` (DEBUG) each request,
`kafka` and `uvicorn` what libraries have to say, which is switched off. A change holds for this process, until it ends.
"""

import logging
import time
from collections.abc import Iterable

from starlette.responses import Response
from starlette.routing import BaseRoute

from twinlog.connect.errors import ConnectError
from twinlog.surface.http.answers import answer, empty
from twinlog.surface.http.bodies import texts
from twinlog.surface.http.resource import Call, Resource
from twinlog.surface.logs import LEVELS, OURS, level_name

_ROOT = "root"


class Loggers:
    """When each level was changed, beside what `logging` knows."""

    def __init__(self) -> None:
        self._changed: dict[str, int] = {}

    def routes(self) -> list[BaseRoute]:
        return [
            Resource("/admin/loggers", {"GET": lambda _call: answer(self.all())}),
            Resource("/admin/loggers/{logger}", {"GET": self._get, "PUT": self._put}),
        ]

    def all(self) -> dict[str, dict[str, str | int | None]]:
        """Those that have a level of their own, and ours."""
        return {name: self._entry(name) for name in sorted({_ROOT, *OURS, *_with_level()})}

    def _entry(self, name: str) -> dict[str, str | int | None]:
        return {"level": level_name(_logger(name).getEffectiveLevel()), "last_modified": self._changed.get(name)}

    def _get(self, call: Call) -> Response:
        name = call.names["logger"]
        if name not in self.all():
            raise ConnectError(404, f"Logger {name} not found.")
        return answer(self._entry(name))

    def _put(self, call: Call) -> Response:
        level = texts(call.json()).get("level")
        if level is None:
            raise ConnectError(400, "Desired 'level' parameter was not specified in request.")
        if level.upper() not in LEVELS:
            raise ConnectError(404, f"invalid log level '{level}'.")
        scope = call.query.get("scope", "worker").lower()
        changed = self.change(call.names["logger"], level.upper())
        return empty(204) if scope == "cluster" else answer(changed)

    def change(self, name: str, level: str) -> list[str]:
        """Sets it for a logger and all below it that have a level of their own; for which that was a change."""
        below = [each for each in _with_level() if name == _ROOT or each.startswith(f"{name}.")]
        now = int(time.time() * 1000)
        changed = []
        for each in sorted({name, *below}):
            if _logger(each).getEffectiveLevel() != LEVELS[level]:
                self._changed[each] = now
                changed.append(each)
        for each in {name, *below}:
            _logger(each).setLevel(LEVELS[level])
        return changed


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == _ROOT else name)


def _with_level() -> Iterable[str]:
    known = dict(logging.root.manager.loggerDict)
    return [name for name, each in known.items() if isinstance(each, logging.Logger) and each.level]
