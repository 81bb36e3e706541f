"""Whether a connector's configuration is taken: by MM2's own rules first, then by whether it could be run here."""

from collections.abc import Callable, Mapping

from twinlog.config.problems import Problems
from twinlog.config.providers import Providers
from twinlog.config.values import Origin, Value
from twinlog.connect import plugins
from twinlog.connect.errors import ConnectError
from twinlog.connect.validate import validate

Check = Callable[[str, Mapping[str, str]], None]


class Checker:
    """Raises ConnectError as Connect does, with every mistake."""

    def __init__(self, providers: Providers, wrong: Callable[[str, Mapping[str, str]], str]) -> None:
        self._providers = providers
        self._wrong = wrong

    def __call__(self, name: str, config: Mapping[str, str]) -> None:
        kind = config.get("connector.class")
        if not kind:
            raise ConnectError(400, f"Connector config {{{', '.join(sorted(config))}}} contains no connector type")
        if plugins.resolve(kind) is None:
            known = ", ".join(each["class"] for each in plugins.listed())
            what = f"Failed to find any class that implements Connector and which name matches {kind}"
            _refuse([f"{what}, available connectors are: {known}"])
        resolved = self._resolved(config)
        if errors := validate(kind, {key: value.text for key, value in resolved.items()}).errors:
            _refuse([_hiding(error, resolved) for error in errors])
        if reason := self._wrong(name, config):
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


def _hiding(error: str, values: Mapping[str, Value]) -> str:
    """What a provider resolved may be a secret: the reference stands for it."""
    for value in values.values():
        if value.reference and value.text:
            error = error.replace(value.text, value.reference)
    return error
