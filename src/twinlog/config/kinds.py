"""Kafka's types of settings: how a text becomes a value, exactly as Kafka's ConfigDef reads it."""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

# A check of a parsed value: what is wrong with it, or None.
Check = Callable[[Any], str | None]


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


_BITS = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[dDfF]?")


def java_trim(text: str) -> str:
    """Java's String.trim: everything up to a blank goes, but no other kind of white space."""
    return text.strip("".join(map(chr, range(33))))


def parse(kind: Kind, text: str) -> Any:
    """The value, or ValueError with a sentence that says what was expected."""
    text = java_trim(text)
    match kind:
        case Kind.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise ValueError("expected true or false")
            return text.lower() == "true"
        case Kind.SHORT | Kind.INT | Kind.LONG:
            limit = 1 << (_BITS[kind] - 1)
            if not _WHOLE.fullmatch(text):
                raise ValueError("expected a whole number")
            if not -limit <= (number := int(text)) < limit:
                raise ValueError(f"expected a whole number from {-limit} to {limit - 1}")
            return number
        case Kind.DOUBLE:
            if not (match := _REAL.fullmatch(text)):
                raise ValueError("expected a number")
            return float(match[1])
        case Kind.LIST:
            return split_list(text)
        case _:
            return text


def checked(kind: Kind, check: Check | None, text: str) -> Any:
    """The value if it also passes its own check; ValueError with the sentence otherwise."""
    value = parse(kind, text)
    if check and (complaint := check(value)):
        raise ValueError(complaint)
    return tuple(dict.fromkeys(value)) if kind is Kind.LIST else value  # Kafka drops what stands twice


def split_list(text: str) -> tuple[str, ...]:
    r"""Kafka's LIST: trimmed, split on `\s*,\s*`, empty elements kept; an empty text is an empty list."""
    text = java_trim(text)
    return tuple(re.split(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*", text)) if text else ()


def no_gaps(values: Sequence[str]) -> str | None:
    """Kafka 4.2 and newer refuse empty elements of a list."""
    return "a list must not have an empty element: remove the extra comma" if "" in values else None


def no_doubles(values: Sequence[str]) -> str | None:
    """Names of transformations and predicates may not even stand twice."""
    for number, value in enumerate(values):
        if value in values[:number]:
            return f"{value!r} stands twice in the list: remove one"
    return None


def one_of(*choices: str, ignore_case: bool = False) -> Check:
    def check(value: str) -> str | None:
        known = value.lower() in [c.lower() for c in choices] if ignore_case else value in choices
        return None if known else f"expected one of {', '.join(choices)}"

    return check


def all_of(*choices: str) -> Check:
    def check(values: Sequence[str]) -> str | None:
        wrong = [value for value in values if value not in choices]
        if not values:
            return f"expected at least one of {', '.join(choices)}"
        return f"expected only {', '.join(choices)}" if wrong else no_gaps(values)

    return check


def at_least(least: float) -> Check:
    return lambda value: None if value >= least else f"expected at least {least}"


def between(least: float, most: float) -> Check:
    return lambda value: None if least <= value <= most else f"expected {least} to {most}"


def factor(value: int) -> str | None:
    """Replication factors and partition counts: -1 leaves it to the broker."""
    return None if value == -1 or value >= 1 else "expected at least 1, or -1 for the broker's default"


def not_empty(value: str) -> str | None:
    return None if value else "must not be empty"
