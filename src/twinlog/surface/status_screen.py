"""The text of `twinlog status` made fit for a terminal: nothing goes without a sign. Pure."""

import textwrap
from typing import Final

_MARKS: Final = ("  ! ", "  - ")  # what is wrong, and what is only worth knowing
_INDENT: Final = "    "
_NARROWEST: Final = 20  # below it, words would be torn into letters


def wrapped(text: str, width: int) -> list[str]:
    """Its lines; those that say what is wrong and what to do on as many as they need. A command is not torn at `-`."""
    found: list[str] = []
    for line in text.split("\n"):
        if len(line) > width and line.startswith(_MARKS):
            mark, words = line[: len(_INDENT)], line[len(_INDENT) :]
            found += textwrap.wrap(
                words,
                max(width, _NARROWEST),
                initial_indent=mark,
                subsequent_indent=_INDENT,
                break_on_hyphens=False,
            )
        else:
            found.append(line)
    return found


def picture(text: str, clock: str, width: int, height: int) -> list[str]:
    """For a live view: never wider or higher than that. A table's last column is its error, so that is what is cut
    first; the reasons above have the whole of it. The clock moves, or else nobody could tell that the picture hangs.
    """
    lines = [cut(line, width) for line in wrapped(f"{clock}  {text}", width)]
    if len(lines) <= height:
        return lines
    kept = max(height - 1, 0)
    return [*lines[:kept], cut(f"… {len(lines) - kept:,} more lines", width)]


def cut(line: str, width: int) -> str:
    """The sign stands in the last column: right behind a number it would look as if digits were gone."""
    return line if len(line) <= width else f"{line[: max(width - 1, 0)]}…"
