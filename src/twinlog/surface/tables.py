"""Columns that line up, and lists that end before nobody reads them any more."""

from collections.abc import Iterable, Sequence


def table(rows: Iterable[Sequence[str]], indent: str = "  ") -> list[str]:
    """A line for each row, all of the same length. The last column may be long, so nothing is aligned behind it."""
    kept = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*kept, strict=True)][:-1]
    return [
        indent + "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in kept
    ]


def some(names: Sequence[str], most: int = 5) -> str:
    """`a, b, c and 12 more`."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown
