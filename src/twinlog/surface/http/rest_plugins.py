"""`/connector-plugins`: what can be run here, how it is configured, and whether a configuration would be taken."""

from starlette.responses import Response
from starlette.routing import BaseRoute

from twinlog.connect import plugins
from twinlog.connect.validate import asked
from twinlog.surface.http.answers import answer
from twinlog.surface.http.bodies import texts
from twinlog.surface.http.resource import Call, Resource

_PLUGIN = "/connector-plugins/{plugin}/config"


def routes() -> list[BaseRoute]:
    return [
        Resource("/connector-plugins", {"GET": _list}),
        Resource(_PLUGIN, {"GET": _definitions}),
        Resource(f"{_PLUGIN}/validate", {"PUT": _validate}),
    ]


def _list(call: Call) -> Response:
    return answer(plugins.listed(connectors_only=call.flag("connectorsOnly", default=True)))


def _definitions(call: Call) -> Response:
    return answer(plugins.definitions(call.names["plugin"], call.query.get("version")))


def _validate(call: Call) -> Response:
    return answer(asked(call.names["plugin"], texts(call.json())).answer())
