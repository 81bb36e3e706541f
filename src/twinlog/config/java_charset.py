"""Sets of characters as intervals of code points, and Java's named character classes.

Java has unions, intersections and complements of character classes, for which Python has no syntax. They are computed
here, and become one flat Python class each.
"""

import contextlib
import functools
import itertools
import sys
import unicodedata
from dataclasses import dataclass

_LAST = sys.maxunicode
_CASE = ord("a") - ord("A")


@dataclass(frozen=True, slots=True)
class CharSet:
    """Spans are inclusive, ascending, and neither overlap nor touch, so equal sets are equal values."""

    spans: tuple[tuple[int, int], ...] = ()

    def __or__(self, other: "CharSet") -> "CharSet":
        merged: list[tuple[int, int]] = []
        for first, last in sorted(self.spans + other.spans):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        return CharSet(tuple(merged))

    def __invert__(self) -> "CharSet":
        edges = [-1, *itertools.chain.from_iterable(self.spans), _LAST + 1]
        gaps = zip(edges[::2], edges[1::2], strict=True)
        return CharSet(tuple((left + 1, right - 1) for left, right in gaps if left + 1 < right))

    def __and__(self, other: "CharSet") -> "CharSet":
        return ~(~self | ~other)

    def __contains__(self, code: int) -> bool:
        return any(first <= code <= last for first, last in self.spans)

    @property
    def astral(self) -> bool:
        """Whether it has a character of two UTF-16 units (as in Java), or half of such a pair."""
        return bool((self & _TWO_UNITS).spans)

    def fold(self) -> "CharSet":
        """With the other case of its ASCII letters, as in Java without flag u."""
        return self | _shift(self & UPPER, _CASE) | _shift(self & LOWER, -_CASE)

    def emit(self) -> str:
        """A Python pattern that matches one character of this set; it needs no brackets around it."""
        if len(self.spans) == 1 and self.spans[0][0] == self.spans[0][1]:
            return escape(self.spans[0][0])
        gaps = (~self).spans
        if not self.spans or 0 < len(gaps) < len(self.spans):
            return f"[^{_emit_spans(gaps)}]"
        return f"[{_emit_spans(self.spans)}]"


def escape(code: int) -> str:
    """One literal character, valid inside and outside a class."""
    char = chr(code)
    if char.isascii() and char.isprintable():
        return char if char.isalnum() or char == "_" else "\\" + char
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def chars(*spans: str) -> CharSet:
    """Each span is given by its first and last character, or its only one."""
    return functools.reduce(CharSet.__or__, (CharSet(((ord(s[0]), ord(s[-1])),)) for s in spans), CharSet())


def _emit_spans(spans: tuple[tuple[int, int], ...]) -> str:
    return "".join(escape(a) if a == b else f"{escape(a)}-{escape(b)}" for a, b in spans)


def _shift(letters: CharSet, by: int) -> CharSet:
    return CharSet(tuple((first + by, last + by) for first, last in letters.spans))


UPPER = chars("AZ")
LOWER = chars("az")
DIGIT = chars("09")
WORD = UPPER | LOWER | DIGIT | chars("_")
SPACE = chars("\t\r", " ")
HORIZONTAL = chars("\t", " ", "\xa0", "\u1680", "\u180e", "\u2000\u200a", "\u202f", "\u205f", "\u3000")
VERTICAL = chars("\n\r", "\x85", "\u2028\u2029")
LINE_TERMINATORS = chars("\n", "\r", "\x85", "\u2028\u2029")
_TWO_UNITS = CharSet(((0xD800, 0xDFFF), (0x10000, _LAST)))

_ASCII_NAMES = {
    "ASCII": chars("\x00\x7f"),
    "Alnum": UPPER | LOWER | DIGIT,
    "Alpha": UPPER | LOWER,
    "Blank": chars("\t", " "),
    "Cntrl": chars("\x00\x1f", "\x7f"),
    "Digit": DIGIT,
    "Graph": chars("!~"),
    "Lower": LOWER,
    "Print": chars(" ~"),
    "Punct": chars("!/", ":@", "[`", "{~"),
    "Space": SPACE,
    "Upper": UPPER,
    "XDigit": chars("09", "AF", "af"),
    "L1": chars("\x00\xff"),
    "all": ~CharSet(),
}
_NAMED_BY_NUMBER = ("CJK UNIFIED IDEOGRAPH-", "HANGUL SYLLABLE ", "TANGUT IDEOGRAPH-")
# Under flag i a property of one case matches any case. Older JDKs did not; the newer behaviour is used.
_CASELESS = {"Lower": "Alpha", "Upper": "Alpha", "Lu": "LC", "Ll": "LC", "Lt": "LC"}


def named(name: str, *, ignore_case: bool) -> CharSet | None:
    r"""The set of `\p{name}`; None if not supported: scripts, blocks, binary and java... properties.

    Categories come from Python's Unicode tables. A JDK's tables may have another version: they agree on characters
    that both contain, except for a few that Unicode has reclassified.
    """
    family, equals, value = name.rpartition("=")
    if equals and family.lower() not in {"gc", "general_category"}:
        return None
    if not equals and value in _ASCII_NAMES:
        return _ASCII_NAMES[_CASELESS.get(value, value) if ignore_case else value]
    category = value if equals else value.removeprefix("Is")
    return _categories().get(_CASELESS.get(category, category) if ignore_case else category)


def character(name: str) -> int | None:
    r"""The character of `\N{name}`. Java has no aliases, and names ideographs and syllables by block and number."""
    wanted = name.strip().upper()
    with contextlib.suppress(KeyError, TypeError):  # unknown; a sequence of characters
        found = ord(unicodedata.lookup(wanted))
        if unicodedata.name(chr(found), "") == wanted and not wanted.startswith(_NAMED_BY_NUMBER):
            return found
    return None


@functools.cache
def _categories() -> dict[str, CharSet]:
    """The thirty general categories, their one-letter unions, and Java's LC (cased) and LD (letter or digit)."""
    found: dict[str, list[tuple[int, int]]] = {}
    for name, run in itertools.groupby(range(_LAST + 1), key=lambda code: unicodedata.category(chr(code))):
        codes = list(run)
        found.setdefault(name, []).append((codes[0], codes[-1]))
    sets = {name: CharSet(tuple(spans)) for name, spans in found.items()}
    for name, part in list(sets.items()):
        sets[name[0]] = sets.get(name[0], CharSet()) | part
    return sets | {"LC": sets["Lu"] | sets["Ll"] | sets["Lt"], "LD": sets["L"] | sets["Nd"]}
