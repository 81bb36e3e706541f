"""Policies and filters of the operator's own, in Python: `replication.policy.class = acme.names:FlatPolicy`.

| key                          | what the class has                                                      |
|------------------------------|-------------------------------------------------------------------------|
| replication.policy.class     | the methods of ReplicationPolicy (policy.py); best a subclass of one    |
|                              | of MM2's policies there                                                 |
| topic.filter.class           | accepts(name: str) -> bool                                              |
| group.filter.class           | accepts(name: str) -> bool                                              |
| config.property.filter.class | accepts(name: str) -> bool; names of topic configs                      |

If its constructor takes an argument, it is given the connector's settings, a dict of texts. The module must be
importable wherever Twinlog and its Spark tasks run: installed, or on PYTHONPATH. MM2's own classes are meant by their
Java names.
"""

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from twinlog.errors import ConfigError

_POSITIONAL = {
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
}


class NameFilter(Protocol):
    def accepts(self, name: str, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class CustomFilter:
    """What the operator's class decides. An error in there is one of the configuration, and is told with its key."""

    key: str
    name: str  # package.module:Class
    inner: NameFilter

    def accepts(self, name: str, /) -> bool:
        try:
            return bool(self.inner.accepts(name))
        except Exception as error:
            raise ConfigError(f"{self.key} = {self.name!r}: accepts({name!r}) failed: {_told(error)}") from error

    def reason(self, name: str) -> str:
        return f"{self.key} {self.name} {'accepts' if self.accepts(name) else 'does not accept'} it"


def is_python(name: str) -> bool:
    """A class of the operator's own, as told from the Java name of one of MM2's."""
    return ":" in name


def custom_filter(key: str, name: str, settings: Mapping[str, str]) -> CustomFilter:
    return CustomFilter(key, name, instance(key, name, settings, ["accepts"]))


def instance(
    key: str, name: str, settings: Mapping[str, str], methods: Iterable[str], known: Mapping[str, Any] | None = None
) -> Any:
    """An object of the class that is called `name`. Of `known` it gets what its constructor has keywords for."""

    def wrong(complaint: str) -> ConfigError:
        return ConfigError(f"{key} = {name!r}: {complaint}")

    module_name, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise wrong(f"its module cannot be imported: {_told(error)}") from error
        raise wrong(f"there is no module {error.name!r}: install it, or put its folder on PYTHONPATH") from error
    except Exception as error:
        raise wrong(f"its module cannot be imported: {_told(error)}") from error
    for part in path.split("."):
        if (found := getattr(found, part, None)) is None:
            raise wrong(f"module {module_name!r} has no class {path!r}")
    if not isinstance(found, type):
        raise wrong("this is not a class")
    try:
        made = _construct(found, dict(settings), known or {})
    except Exception as error:
        raise wrong(f"its constructor failed: {_told(error)}") from error
    if missing := [method for method in methods if not callable(getattr(made, method, None))]:
        raise wrong(f"it has no method {missing[0]}")
    return made


def _construct(kind: Callable[..., Any], settings: dict[str, str], known: Mapping[str, Any]) -> Any:
    parameters = inspect.signature(kind).parameters
    keywords = {
        word: value
        for word, value in known.items()
        if word in parameters and parameters[word].kind is inspect.Parameter.KEYWORD_ONLY
    }
    if any(parameter.kind in _POSITIONAL for parameter in parameters.values()):
        return kind(settings, **keywords)
    return kind(**keywords)


def _told(error: Exception) -> str:
    """In one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
