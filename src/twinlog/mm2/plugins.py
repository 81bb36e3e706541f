"""Custom policies and filters in Python: `replication.policy.class = acme.names:FlatPolicy`.

| key                          | methods of the class                                                    |
|------------------------------|-------------------------------------------------------------------------|
| replication.policy.class     | those of ReplicationPolicy (replication_policy.py); best a subclass of  |
|                              | one of MM2's policies there                                             |
| topic.filter.class           | accepts(name: str) -> bool                                              |
| group.filter.class           | accepts(name: str) -> bool                                              |
| config.property.filter.class | accepts(name: str) -> bool; for names of topic configs                  |
| forwarding.admin.class       | those of TopicAdmin here                                                |

The class must be a subclass of ReplicationPolicy or of a policy, of NameFilter or TopicAdmin here, or have the
attribute `twinlog_plugin = True`. No other class is instantiated, because a constructor can do anything with the
settings. Connectors from REST or from the config topic may only use classes that the operator has listed (`allowed`).

If its constructor takes an argument, it gets the connector's settings, a dict of strings. The module must be importable
wherever Twinlog and its Spark tasks run: installed, or on PYTHONPATH. MM2's own classes have their Java names.
"""

import importlib
import inspect
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from twinlog.errors import ConfigError

_POSITIONAL = {
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
}


KEYS: Final = (
    "replication.policy.class",
    "topic.filter.class",
    "group.filter.class",
    "config.property.filter.class",
    "forwarding.admin.class",
)
_MARK: Final = "twinlog_plugin"


class NameFilter(Protocol):
    def accepts(self, name: str, /) -> bool: ...


class TopicAdmin(Protocol):
    """Creates and alters the topics of a flow instead of Twinlog. An exception is reported, and the call is retried.

    Methods may be called again for a topic that is still being created: they must not fail then. They may return before
    the topic exists. A constructor with the keyword arguments `cluster` (the alias) and `side` (source or target) gets
    the cluster that it is for. A method `close()` is called at the end, if there is one.
    """

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: dict[str, str], /) -> None:
        """`replication_factor` -1: the cluster's default."""
        ...

    def create_partitions(self, name: str, partitions: int, /) -> None:
        """`partitions`: the new total."""
        ...

    def alter_configs(self, name: str, configs: dict[str, str | None], /) -> None:
        """Only these change; None: back to the cluster's default."""
        ...


@dataclass(frozen=True, slots=True)
class CustomFilter:
    """A filter class of the operator. An exception in it is a configuration error, reported with its key."""

    key: str
    name: str  # package.module:Class
    inner: NameFilter

    def accepts(self, name: str, /) -> bool:
        try:
            return bool(self.inner.accepts(name))
        except Exception as error:
            raise ConfigError(f"{self.key} = {self.name!r}: accepts({name!r}) failed: {_one_line(error)}") from error

    def reason(self, name: str) -> str:
        return f"{self.key} {self.name} {'accepts' if self.accepts(name) else 'does not accept'} it"


def is_python(name: str) -> bool:
    """Whether it is a Python class, not the Java name of one of MM2's."""
    return ":" in name


def not_allowed(settings: Mapping[str, str], allowed: Collection[str]) -> str:
    """Why the classes of a connector configured by others may not be used; empty if they may. Imports nothing.

    `settings` are resolved: a reference may contain any text.
    """
    for key in KEYS:
        name = settings.get(key, "").strip()
        if is_python(name) and name not in allowed:
            return (
                f"{key} = {name!r}: class not allowed on this worker; start it with --plugin {name}, or add the class "
                "to twinlog.plugins in the worker file"
            )
    return ""


def custom_filter(key: str, name: str, settings: Mapping[str, str]) -> CustomFilter:
    return CustomFilter(key, name, instance(key, name, settings, ["accepts"], (NameFilter,)))


def instance(
    key: str,
    name: str,
    settings: Mapping[str, str],
    methods: Iterable[str],
    interfaces: tuple[type, ...],
    known: Mapping[str, Any] | None = None,
) -> Any:
    """An instance of the class `name`. Its constructor gets those of `known` that it has keyword arguments for.

    The class is checked completely before its constructor runs.
    """

    def invalid(problem: str) -> ConfigError:
        return ConfigError(f"{key} = {name!r}: {problem}")

    module_name, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise invalid(f"import failed: {_one_line(error)}") from error
        raise invalid(f"no module {error.name!r}; install it, or add its directory to PYTHONPATH") from error
    except Exception as error:
        raise invalid(f"import failed: {_one_line(error)}") from error
    for part in path.split("."):
        if (found := getattr(found, part, None)) is None:
            raise invalid(f"module {module_name!r} has no class {path!r}")
    if not isinstance(found, type):
        raise invalid("not a class")
    if missing := [method for method in methods if not _has(found, method)]:
        raise invalid(f"no method {missing[0]}")
    if not set(interfaces) & set(found.__mro__) and getattr(found, _MARK, None) is not True:
        base = f"{interfaces[0].__module__}.{interfaces[0].__name__}"
        raise invalid(f"not marked as a plugin; derive it from {base}, or add the attribute {_MARK} = True")
    try:
        return _construct(found, dict(settings), known or {})
    except Exception as error:
        raise invalid(f"constructor failed: {_one_line(error)}") from error


def _has(kind: type, method: str) -> bool:
    """Defined by the class or by a base that is not a protocol."""
    owner = next((base for base in kind.__mro__ if method in vars(base)), None)
    return owner is not None and not _is_protocol(owner) and callable(getattr(kind, method))


def _is_protocol(kind: type) -> bool:
    return bool(vars(kind).get("_is_protocol", False))  # typing.is_protocol, from Python 3.13 on


def _construct(kind: type, settings: dict[str, str], known: Mapping[str, Any]) -> Any:
    if any(_is_protocol(base) for base in kind.__mro__) and not _has(kind, "__init__"):
        return kind()  # the signature of a protocol's constructor accepts anything
    parameters = inspect.signature(kind).parameters
    keywords = {
        word: value
        for word, value in known.items()
        if word in parameters and parameters[word].kind is inspect.Parameter.KEYWORD_ONLY
    }
    if any(parameter.kind in _POSITIONAL for parameter in parameters.values()):
        return kind(settings, **keywords)
    return kind(**keywords)


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
