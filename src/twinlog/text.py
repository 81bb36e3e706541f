"""Formatting of text output: numbers, tables, shortened lists, and escaping of unsafe characters."""

import json
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit

MASK: Final = "********"  # in place of a secret
_ALLOWED: Final = "\n\t"
_MAX_LENGTH: Final = 200


def amount(number: int) -> str:
    return f"{number:,}"


def counted(number: int, thing: str) -> str:
    """`1 topic`, `1,200 topics`."""
    return f"{amount(number)} {thing}{'' if number == 1 else 's'}"


def size(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.2f} GB"


def table(rows: Iterable[Sequence[str]], indent: str = "  ") -> list[str]:
    """A line for each row; all rows have the same length. The last column is not padded."""
    cells = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
    return [
        indent + "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in cells
    ]


def some(names: Sequence[str], most: int = 5) -> str:
    """`a, b, c and 12 more`."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


# Text of others: consumer group ids, record keys, messages of brokers and token endpoints


def visible(text: str) -> str:
    r"""Escapes characters that would have an effect in a terminal or a log.

    ESC starts terminal commands, a carriage return overwrites the line, and bidirectional controls reorder text. They
    are escaped as in JSON (`\u001b`), so JSON output keeps its meaning.
    """
    if text.isprintable():
        return text
    return "".join(char if _is_harmless(char) else json.dumps(char)[1:-1] for char in text)


def _is_harmless(char: str) -> bool:
    return char.isprintable() or char in _ALLOWED or unicodedata.category(char) == "Zs"


def one_line(text: str, hidden: Iterable[str] = ()) -> str:
    """Printable characters only, shortened, on one line; the `hidden` texts are masked."""
    for secret in filter(None, hidden):
        text = text.replace(secret, MASK)
    words = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * _MAX_LENGTH]).split())
    return words if len(words) <= _MAX_LENGTH else f"{words[:_MAX_LENGTH]}..."


def redacted_url(url: str) -> str:
    """The URL without credentials and query, for messages."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
