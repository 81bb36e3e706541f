"""Fits the text of `twinlog status` to a terminal and marks what was cut. Pure."""

import textwrap
from typing import Final

_MARKS: Final = ("  ! ", "  - ")  # a problem, or information
_INDENT: Final = "    "
_MIN_WIDTH: Final = 20  # below it, words would be split into letters


def wrapped(text: str, width: int) -> list[str]:
    """The lines of the text; reasons are wrapped, but commands in them are not split at `-`."""
    found: list[str] = []
    for line in text.split("\n"):
        if len(line) > width and line.startswith(_MARKS):
            mark, words = line[: len(_INDENT)], line[len(_INDENT) :]
            found += textwrap.wrap(
                words, max(width, _MIN_WIDTH), initial_indent=mark, subsequent_indent=_INDENT, break_on_hyphens=False
            )
        else:
            found.append(line)
    return found


def screen_lines(text: str, clock: str, width: int, height: int) -> list[str]:
    """For a live view: never wider or higher than given. The last column of a table is the error, so that is cut first;
    the reasons above have it in full. The clock shows that the view is updating.
    """
    lines = [cut(line, width) for line in wrapped(f"{clock}  {text}", width)]
    if len(lines) <= height:
        return lines
    shown = max(height - 1, 0)
    return [*lines[:shown], cut(f"… {len(lines) - shown:,} more lines", width)]


def cut(line: str, width: int) -> str:
    """The ellipsis is in the last column: right after a number it would look as if digits were missing."""
    return line if len(line) <= width else f"{line[: max(width - 1, 0)]}…"
