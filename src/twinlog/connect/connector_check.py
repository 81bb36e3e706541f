"""Checks a connector's configuration: first by MM2's own rules, then whether it can run here."""

from collections.abc import Callable, Mapping

from twinlog.config.problems import Problems
from twinlog.config.providers import Providers
from twinlog.config.values import Origin, Value
from twinlog.connect import connector_plugins
from twinlog.connect.errors import ConnectError
from twinlog.connect.validate import validate

Check = Callable[[str, Mapping[str, str | None]], None]


class Checker:
    """Raises ConnectError as Connect does, with every error.

    `problem`: why the connector cannot run here; empty if it can.
    """

    def __init__(self, providers: Providers, problem: Callable[[str, Mapping[str, str | None]], str]) -> None:
        self._providers = providers
        self._problem = problem

    def __call__(self, name: str, config: Mapping[str, str | None]) -> None:
        kind = config.get("connector.class")
        if not kind:
            raise ConnectError(400, f"Connector config {{{', '.join(sorted(config))}}} contains no connector type")
        if connector_plugins.resolve(kind) is None:
            _refuse([connector_plugins.unknown(kind)])
        resolved = self._resolved({key: text for key, text in config.items() if text is not None})
        texts = {key: resolved[key].text if key in resolved else None for key in config}
        if errors := validate(kind, texts).errors:
            _refuse([_without_secrets(error, resolved) for error in errors])
        if reason := self._problem(name, config):
            _refuse([reason])

    def _resolved(self, config: Mapping[str, str]) -> dict[str, Value]:
        values = {key: Value(key, text, Origin("file", "", 0, key)) for key, text in config.items()}
        problems = Problems()
        found = self._providers.resolve_all(values, problems)
        if problems.errors:
            _refuse([problem.text for problem in problems.found if problem.level == "error"])
        return found


def _refuse(errors: list[str]) -> None:
    lines = "".join(f"\n{error}" for error in errors)
    raise ConnectError(
        400,
        f"Connector configuration is invalid and contains the following {len(errors)} error(s):{lines}\n"
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`",
    )


def _without_secrets(error: str, values: Mapping[str, Value]) -> str:
    """Replaces values from config providers, which may be secrets, by their references."""
    for value in values.values():
        if value.reference and value.text:
            error = error.replace(value.text, value.reference)
    return error
