"""Kafka's types of settings: parses texts exactly as Kafka's ConfigDef does."""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final

# A check of a parsed value: returns what is wrong with it, or None.
Check = Callable[[Any], str | None]


class Expected(str):
    """A complaint that states what is allowed without quoting the value, so it may be shown for a secret."""

    __slots__ = ()


class InvalidValueError(ValueError):
    def __init__(self, complaint: str) -> None:
        super().__init__(complaint)
        self.complaint = complaint


class Kind(StrEnum):
    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    SHORT = "short"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"
    CLASS = "class"
    PASSWORD = "password"  # noqa: S105  (a type's name)


EMPTY_ELEMENT = "empty element in the list; remove the extra comma"

_BITS = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_LONGEST_NUMBER: Final = 100  # digits, more than any type has
_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[dDfF]?")


def java_trim(text: str) -> str:
    """Java's String.trim: removes characters up to U+0020, but no other white space."""
    return text.strip("".join(map(chr, range(33))))


def parse(kind: Kind, text: str) -> Any:
    """The value, or InvalidValueError with what was expected."""
    text = java_trim(text)
    match kind:
        case Kind.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise InvalidValueError(Expected("expected true or false"))
            return text.lower() == "true"
        case Kind.SHORT | Kind.INT | Kind.LONG:
            limit = 1 << (_BITS[kind] - 1)
            if not _WHOLE.fullmatch(text):
                raise InvalidValueError(Expected("expected a whole number"))
            # Python refuses to convert more than 4300 digits.
            number = int(text) if len(text) < _LONGEST_NUMBER else limit
            if not -limit <= number < limit:
                raise InvalidValueError(Expected(f"expected a whole number from {-limit} to {limit - 1}"))
            return number
        case Kind.DOUBLE:
            if not (match := _REAL.fullmatch(text)):
                raise InvalidValueError(Expected("expected a number"))
            return float(match[1])
        case Kind.LIST:
            return split_list(text)
        case _:
            return text


def checked(kind: Kind, check: Check | None, text: str) -> Any:
    """The parsed value if it passes the check; otherwise InvalidValueError."""
    value = parse(kind, text)
    if check and (complaint := check(value)):
        raise InvalidValueError(complaint)
    return tuple(dict.fromkeys(value)) if kind is Kind.LIST else value  # Kafka drops duplicates


def split_list(text: str) -> tuple[str, ...]:
    r"""Kafka's LIST: trimmed, split on `\s*,\s*`, empty elements kept; an empty text is an empty list."""
    text = java_trim(text)
    return tuple(re.split(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*", text)) if text else ()


def no_empty(values: Sequence[str]) -> str | None:
    """Kafka 4.2 and newer reject empty elements of a list."""
    return EMPTY_ELEMENT if "" in values else None


def no_duplicates(values: Sequence[str]) -> str | None:
    """Kafka rejects duplicate names of transforms and predicates."""
    for number, value in enumerate(values):
        if value in values[:number]:
            return f"{value!r} is in the list twice; remove one"
    return None


def one_of(*choices: str, ignore_case: bool = False) -> Check:
    def check(value: str) -> str | None:
        known = value.lower() in [c.lower() for c in choices] if ignore_case else value in choices
        return None if known else Expected(f"expected one of {', '.join(choices)}")

    return check


def all_of(*choices: str) -> Check:
    def check(values: Sequence[str]) -> str | None:
        wrong = [value for value in values if value not in choices]
        if not values:
            return Expected(f"expected at least one of {', '.join(choices)}")
        return Expected(f"expected only {', '.join(choices)}") if wrong else no_empty(values)

    return check


def at_least(least: float) -> Check:
    return lambda value: None if value >= least else Expected(f"expected at least {least}")


def at_most(most: float) -> Check:
    return lambda value: None if value <= most else Expected(f"expected at most {most}")


def between(least: float, most: float) -> Check:
    return lambda value: None if least <= value <= most else Expected(f"expected {least} to {most}")


def factor(value: int) -> str | None:
    """Replication factors and partition counts: -1 is the broker's default."""
    return None if value == -1 or value >= 1 else Expected("expected at least 1, or -1 for the broker's default")


def not_empty(value: str) -> str | None:
    return None if value else "must not be empty"
