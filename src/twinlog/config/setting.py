"""Declares settings: a dataclass field annotated with its Key has type, default, check and documentation."""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from twinlog.config.problems import Problems
from twinlog.config.value_types import Check, InvalidValueError, Kind, checked
from twinlog.config.values import Value

T = TypeVar("T")
_ROWS: dict[type[Any], tuple["Row", ...]] = {}


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    kind: Kind
    doc: str
    check: Check | None = None
    # Whether MM2 passes a top-level value of this name to its connectors. The few that it does not declare
    # (use.defaults.from, exactly.once.support ...) only work per flow.
    declared: bool = True
    # Why the setting is accepted but has no effect; empty if it has one, which a test verifies.
    no_effect: str = ""
    no_note_for: tuple[str, ...] = ()  # values that match the fixed behaviour, so that no note is needed

    def note(self, value: Value) -> str:
        """The note for an operator who set it; may be empty."""
        if not self.no_effect or value.origin.kind != "file" or value.text.strip() in self.no_note_for:
            return ""
        return f"{value.origin.key or value.key} has no effect: {self.no_effect}"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: a Key with its dataclass field."""

    key: Key
    field: str
    default: Any
    required: bool


def rows(settings: type[Any]) -> tuple[Row, ...]:
    """The rows of a settings class."""
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
    """The typed settings in these values; None if a required one is missing or invalid (added to `problems`)."""
    arguments: dict[str, Any] = {}
    complete = True
    for row in rows(settings):
        if (value := values.get(row.key.name)) is not None:
            if note := row.key.note(value):
                problems.note(value.origin, note)
            try:
                arguments[row.field] = checked(row.key.kind, row.key.check, value.text)
            except InvalidValueError as error:
                problems.value(value, error.complaint)
        elif row.required:
            problems.error(where, f"{row.key.name} is missing")
        complete = complete and (row.field in arguments or not row.required)
    return settings(**arguments) if complete else None
