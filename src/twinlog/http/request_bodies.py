"""Parses the JSON of requests as Connect's parser (Jackson) does."""

import re
from typing import Any

from starlette.exceptions import HTTPException

from twinlog.connect.errors import ConnectError


def members(body: Any, *known: str) -> dict[str, Any]:
    """A JSON object that may have only these members."""
    if not isinstance(body, dict):
        raise ConnectError(500, "The request must be a JSON object")
    if unknown := [name for name in body if name not in known]:
        raise ConnectError(500, f"Unrecognized field {unknown[0]!r}: expected {', '.join(known)}")
    return body


def texts(body: Any) -> dict[str, str | None]:
    """A configuration: numbers and booleans become strings; null stays."""
    if not isinstance(body, dict):
        raise ConnectError(500, "A configuration must be a JSON object of strings")
    return {key: text(key, value) for key, value in body.items()}


def text(key: str, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    kind = "an array" if isinstance(value, list) else "an object"
    raise ConnectError(500, f"The value of {key!r} must be a string, not {kind}")


def offset_entries(body: Any) -> list[dict[str, Any]] | None:
    """Entries with a partition and an offset, each an object or null; the worker checks their content."""
    if body is None:
        return None
    if not isinstance(body, list):
        raise ConnectError(500, "The offsets must be a JSON array")
    for entry in body:
        for name, value in members(entry, "partition", "offset").items():
            if value is not None and not isinstance(value, dict):
                raise ConnectError(500, f"The {name} in an entry of offsets must be a JSON object")
    return body


def number(text: str) -> int:
    """A task number in a path; anything else is 404."""
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", text) or not -(1 << 31) <= int(text) < 1 << 31:
        raise HTTPException(404)
    return int(text)
