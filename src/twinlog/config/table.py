"""How a setting is declared: a dataclass field annotated with its Key is parser, default, check and documentation."""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from twinlog.config.kinds import Check, Kind, checked
from twinlog.config.problems import Problems
from twinlog.config.values import Value

T = TypeVar("T")
_ROWS: dict[type[Any], tuple["Row", ...]] = {}


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    kind: Kind
    doc: str
    check: Check | None = None
    # Whether MM2 hands a top-level value of this name to its connectors. The few that it forgets
    # (use.defaults.from, exactly.once.support ...) work only at the level of a flow.
    declared: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table, with what the dataclass adds to its Key."""

    key: Key
    field: str
    default: Any
    required: bool


def rows(settings: type[Any]) -> tuple[Row, ...]:
    """The table that a settings class is."""
    if settings in _ROWS:
        return _ROWS[settings]
    hints = typing.get_type_hints(settings, include_extras=True)
    found = []
    for field in dataclasses.fields(settings):
        key = next(extra for extra in hints[field.name].__metadata__ if isinstance(extra, Key))
        required = field.default is dataclasses.MISSING
        found.append(Row(key, field.name, None if required else field.default, required))
    return _ROWS.setdefault(settings, tuple(found))


def read(settings: type[T], values: Mapping[str, Value], where: str, problems: Problems) -> T | None:
    """The typed settings in these values; None when one that is required is missing or wrong (then problems know)."""
    arguments: dict[str, Any] = {}
    whole = True
    for row in rows(settings):
        if (value := values.get(row.key.name)) is not None:
            try:
                arguments[row.field] = checked(row.key.kind, row.key.check, value.text)
            except ValueError as error:
                problems.value(value, str(error))
        elif row.required:
            problems.error(where, f"{row.key.name} is missing")
        whole = whole and (row.field in arguments or not row.required)
    return settings(**arguments) if whole else None
