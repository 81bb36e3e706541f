"""Prometheus's text format 0.0.4, and JMX's quoting of label values. Pure."""

import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_PLAIN = re.compile(r"[A-Za-z0-9_\-%. \t]*")
_SAFE = re.compile(r'[^"\\\n]*')
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_JMX = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "*": "\\*", "?": "\\?"})


@lru_cache(maxsize=1024)
def jmx(value: str) -> str:
    """A label value as exported from JMX: unless plain, it includes quotes."""
    return value if _PLAIN.fullmatch(value) else f'"{value.translate(_JMX)}"'


def labels(names: Sequence[str], values: Iterable[object]) -> str:
    """`{topic="orders",partition="0"}`, to be put between a name and a value."""
    pairs = [f'{name}="{_escaped(str(value))}"' for name, value in zip(names, values, strict=True)]
    return f"{{{','.join(pairs)}}}" if names else ""


@lru_cache(maxsize=1024)
def _escaped(value: str) -> str:
    return value if _SAFE.fullmatch(value) else value.translate(_ESCAPES)


def head(name: str, kind: str, help_text: str) -> str:
    escaped = help_text.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {escaped}\n# TYPE {name} {kind}\n"


def number(value: float | None, *, rounded: bool = False) -> str:
    if value is None or value != value:  # noqa: PLR0124 - only NaN differs from itself
        return "NaN"
    if isinstance(value, float) and math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.3f}" if rounded else repr(value)
