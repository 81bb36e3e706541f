"""Limits on connectors that protect the worker: patterns that would block it, and values that change after the check.

Python's regular expressions block the whole process while they match, and nested repetitions can take exponential time.
The value behind a reference may change after it was checked. The operator's own files are not limited.
"""

import re
from collections.abc import Iterator, Mapping
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

from twinlog.config.java_regex import JavaRegexError, compile_list
from twinlog.config.value_types import split_list

MAX_SETTINGS: Final = 1000
_PATTERNS: Final = ("topics", "topics.exclude", "groups", "groups.exclude", "config.properties.exclude")
_NO_REFERENCE: Final = re.compile(r"(?:\.class|\.location|\.url|\.file)$")  # which code runs, what is read


def exceeds_limits(config: Mapping[str, str | None]) -> str:
    """Why a connector with this configuration (unresolved) must not run; empty if it may."""
    if len(config) > MAX_SETTINGS:
        return f"{len(config)} settings: more than the {MAX_SETTINGS} that a connector may have; remove some"
    for key, text in config.items():
        if text is not None and _NO_REFERENCE.search(key) and "${" in text:
            return f"{key}: references are not allowed, as the value may change after the check; set the value itself"
        if text is not None and key in _PATTERNS and _has_nested_repetition(text):
            return f"{key}: nested repetition, such as (a+)+, can block the worker; rewrite the pattern"
    return ""


def _has_nested_repetition(text: str) -> bool:
    try:
        pattern = compile_list([each for each in split_list(text) if each])
    except JavaRegexError:
        return False  # rejected elsewhere
    return pattern is not None and _nested(_parser.parse(pattern.pattern, pattern.flags), inside=False)


def _nested(tree: Any, *, inside: bool) -> bool:
    """Whether an unbounded repetition is inside another; possessive ones never backtrack."""
    for operator, argument in tree:
        repeats = operator in (sre.MAX_REPEAT, sre.MIN_REPEAT) and argument[1] == sre.MAXREPEAT
        if (repeats and inside) or any(_nested(each, inside=inside or repeats) for each in _subpatterns(argument)):
            return True
    return False


def _subpatterns(argument: Any) -> Iterator[Any]:
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, tuple | list):
        for each in argument:
            yield from _subpatterns(each)
