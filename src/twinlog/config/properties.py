"""Reads Java .properties files, with the line of every key.

The grammar is exactly that of `java.util.Properties`; a test compares the two. (The library javaproperties differs for
a line with only a backslash, and does not provide line numbers.)
"""

import re
from collections.abc import Iterator, Mapping

from twinlog.config.problems import Problems
from twinlog.config.values import Origin, Value, shown_key

_BLANK = " \t\f"
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})?|(.))", re.DOTALL)
_LETTERS = {"t": "\t", "r": "\r", "n": "\n", "f": "\f"}
_NAMES = {character: f"\\{letter}" for letter, character in _LETTERS.items()}


def read_properties(text: str, name: str, problems: Problems) -> dict[str, Value]:
    """Key -> value; of duplicate keys the last counts, as in Java. `name`: of the file, for messages."""
    found: dict[str, Value] = {}
    for number, line in _logical_lines(text):
        try:
            key, value = (_unescaped(part) for part in _split(line))
        except ValueError as error:
            problems.error(f"{name}:{number}", str(error))
            continue
        if key in found:
            first = found[key].origin.line
            problems.warn(
                f"{name}:{number}", f"{shown_key(key)} is set twice: this line overrides line {first}; remove one"
            )
        found[key] = Value(key, value, Origin("file", name, number, key))
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Joins lines that end in an odd number of backslashes; skips comments and empty lines.

    A line with only a backslash does not continue on the next one, which may be a comment.
    """
    start, joined = 0, ""
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        rest = natural.lstrip(_BLANK)
        if not joined:
            if not rest or rest[0] in "#!":
                continue
            start = number
        joined += rest
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1]
        elif joined:
            yield start, joined
            joined = ""
    if joined:
        yield start, joined


def _split(line: str) -> tuple[str, str]:
    """At the first unescaped `=`, `:` or blank."""
    match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", line, re.DOTALL)
    assert match  # every part of the pattern may be empty
    return match[1], line[match.end() :]


def _unescaped(text: str) -> str:
    def meaning(match: re.Match[str]) -> str:
        if match[2] is not None:
            return _LETTERS.get(match[2], match[2])
        if match[1] is None:
            raise ValueError(r"invalid \u escape: four hexadecimal digits expected; for a backslash write \\")
        return chr(int(match[1], 16))

    # Java's characters are UTF-16: two escapes may form one character.
    return _ESCAPE.sub(meaning, text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def properties_text(values: Mapping[str, str]) -> str:
    """A file from which Java reads exactly these values."""
    return "".join(f"{_escaped(key, ' =:')}={_escaped(text, '')}\n" for key, text in values.items())


def _escaped(text: str, separators: str) -> str:
    parts = []
    for number, character in enumerate(text):
        if character in _NAMES:
            parts.append(_NAMES[character])
        elif character == "\\" or character in separators or (number == 0 and character in "#! "):
            parts.append("\\" + character)
        elif " " <= character <= "~":
            parts.append(character)
        else:  # as UTF-16 units, like Java's characters
            units = character.encode("utf-16-be").hex()
            parts += [f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)]
    return "".join(parts)
