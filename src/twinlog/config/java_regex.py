r"""Translates Java regular expressions to Python with the same meaning, or rejects the construct by name.

MM2 joins the elements of `topics`, `groups` and similar lists with `|` into one Java pattern and matches full names.
Python's `re` compiles many such patterns with another meaning: `{,3}`, `\Z`, `[a-z&&[^b]]`, `$`, an inline flag in the
middle. So the pattern is parsed by Java's rules and rewritten in an unambiguous subset of Python's syntax: flags are
resolved while parsing, classes are computed (java_charset.py), anchors are spelled out.

    (?i)a|[b-d&&[^c]]\Z    becomes    [Aa]|[BDbd](?=\r\n\Z|(?<!\r)\n\Z|[\r\x85\u2028\u2029]\Z|\Z)

A pattern is rejected if it is invalid in Java, or if Python has no equivalent.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from twinlog.config import java_charset
from twinlog.config.java_chars import END, CharacterReader, JavaRegexError
from twinlog.config.java_charset import CharSet


def compile_java(pattern: str) -> re.Pattern[str]:
    """For `fullmatch`, which is Java's `matches()`."""
    try:
        # ASCII: in Java, `\b` and the case of back-references are limited to ASCII.
        return re.compile(_Translator(pattern).translate(), re.ASCII)
    except (RecursionError, OverflowError, re.error) as error:
        # Only the size can be the cause here: groups nested hundreds deep, a look-behind of gigabytes.
        raise JavaRegexError(f"pattern too large for Python ({error})", 0, by_java=False) from error


def compile_list(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """As in MM2, one pattern, so an inline flag applies to the following elements too; None for an empty list.

    The position in an error refers to the joined pattern.
    """
    return compile_java("|".join(patterns)) if patterns else None


__all__ = ["JavaRegexError", "compile_java", "compile_list"]

_ASTRAL = "may match a character of two UTF-16 units"
_LINE_BREAKS = "contains a line break, \\R, that is not in an atomic group"
_EMPTY_LOOP = "contains a loop that continues after an empty iteration, unlike Java's"


@dataclass(frozen=True, slots=True)
class _Fragment:
    """Translated text, with the properties that an enclosing quantifier or look-behind needs."""

    text: str
    shortest: float = 0  # in characters
    longest: float = 0
    traits: frozenset[str] = frozenset()
    groups: frozenset[int] = frozenset()

    def __add__(self, other: "_Fragment") -> "_Fragment":
        lengths = self.shortest + other.shortest, self.longest + other.longest
        return _Fragment(self.text + other.text, *lengths, self.traits | other.traits, self.groups | other.groups)

    def __or__(self, other: "_Fragment") -> "_Fragment":
        lengths = min(self.shortest, other.shortest), max(self.longest, other.longest)
        return _Fragment(f"{self.text}|{other.text}", *lengths, self.traits | other.traits, self.groups | other.groups)

    def times(self, low: int, high: float, mode: str) -> "_Fragment":
        """`mode` is ? for lazy and + for possessive.

        Java's possessive loop commits to each iteration. Some versions of Python commit only to the last, or have
        bugs, so atomic groups are used instead.
        """
        count = f"{{{low},{'' if high == math.inf else high}}}"
        text = f"(?>(?>{self.text}){count})" if mode == "+" else f"(?:{self.text}){count}{mode}"
        longest = self.longest * high if 0 < self.longest < math.inf else self.longest
        return replace(self, text=text, shortest=self.shortest * low, longest=longest)


# Python's \Z is Java's \z. Since JDK 19 \b is limited to ASCII, as \w is: this newer, documented behaviour is used.
# \B is written as the negation of \b because Python's \B, before 3.14, does not match an empty text.
_ANCHORS = {"A": r"\A", "z": r"\Z", "b": r"\b", "B": r"(?!\b)"}
_LINE_BREAK = _Fragment(r"(?:\r\n|[\n-\r\x85\u2028\u2029])", 1, 2, frozenset({_LINE_BREAKS}))
_KINDS_OF_GROUP = (":", "=", "!", ">", "<=", "<!", "<")
_FLAGS_ONLY_IN_JAVA = {"m": "multiline", "u": "Unicode case", "U": "Unicode classes", "c": "canonical equivalence"}

_BOUNDS = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_GROUP_NAME = re.compile(r"([A-Za-z][A-Za-z0-9]*)>")
_MODIFIERS = re.compile(r"([imsducxU]*)(?:-([imsducxU]*))?([:)])")
_MAX_REPEAT = 2**31 - 1


class _Translator(CharacterReader):
    """A recursive-descent parser that emits as it reads."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self._groups = 0
        self._open: set[int] = set()
        self._names: dict[str, int] = {}
        self._references: list[tuple[int, int]] = []  # number, position
        self._volatile: set[int] = set()

    def translate(self) -> str:
        if (nul := self._text.index(END)) < len(self._text) - 1:  # Java uses it as an end marker too
            self._unsupported("NUL character", nul)
        piece = self._alternation()
        if self._peek() != END:
            self._invalid("unmatched closing )", self._at)
        for number, at in self._references:
            if number in self._volatile:
                self._unsupported("reference to a group in a repetition, an atomic group or a look-around", at)
        return piece.text

    # Structure.

    def _alternation(self) -> _Fragment:
        result = self._sequence()
        while self._peek() == "|":
            self._at += 1
            result |= self._sequence()
        return result

    def _sequence(self) -> _Fragment:
        result = _Fragment("")
        while (char := self._peek()) not in "|)" + END:
            piece = self._group() if char == "(" else self._atom(char)
            if piece is not None:
                result += self._quantified(piece, is_group=char == "(")
        return result

    def _atom(self, char: str) -> _Fragment:
        start = self._at
        if char == "[":
            return _one_of(self._class())
        if char == "{":  # a repetition of nothing, or of a repetition as in a{2}{3}, has no effect
            return _Fragment("")
        self._at += 1
        if char == "\\":
            return self._escape(start)
        if char == ".":
            ends = java_charset.chars("\n") if "d" in self._flags else java_charset.LINE_TERMINATORS
            return _one_of(~CharSet() if "s" in self._flags else ~ends)
        if char == "^":
            return _Fragment(_ANCHORS["A"])
        if char == "$":
            return self._last_line_end()
        if char in "?*+":
            self._invalid(f"dangling {char}", start)
        return _one_of(self._cased(ord(char), ord(char), start))

    def _last_line_end(self) -> _Fragment:
        r"""Java's $ and \Z also match before a final line terminator, but not inside \r\n."""
        if "d" in self._flags:
            return _Fragment(r"(?=\n?\Z)")
        return _Fragment(r"(?=\r\n\Z|(?<!\r)\n\Z|[\r\x85\u2028\u2029]\Z|\Z)")

    def _quantified(self, piece: _Fragment, *, is_group: bool) -> _Fragment:
        char, start = self._peek(), self._at
        if char == "{":
            low, high = self._bounds(start)
        elif char in "?*+":
            self._at += 1
            low, high = int(char == "+"), 1 if char == "?" else math.inf
        else:
            return piece
        mode = self._take() if self._peek() in "?+" else ""
        if piece == _LINE_BREAK:  # when repeated, it does not backtrack into a \r\n
            piece = replace(piece, text=f"(?>{piece.text})", traits=frozenset())
        if _LINE_BREAKS in piece.traits:  # whether it backtracks depends on the rest of the group
            self._unsupported(r"\R in a repeated group", start)
        if is_group:
            self._volatile |= piece.groups
            # An empty iteration ends Java's loop, even before its minimum. Python's continues. With a minimum of one
            # only the order of attempts differs, which is visible only in an atomic group.
            if piece.shortest == 0 and low > 1:
                self._unsupported("repetition, twice or more, of a group that can match nothing", start)
            if piece.shortest == 0 and low == 1:
                piece = replace(piece, traits=piece.traits | {_EMPTY_LOOP})
            # For a look-behind Java needs a maximum length too, and mostly has none for a repeated group.
            piece = replace(piece, longest=math.inf)
        if mode == "+":
            self._check_atomic(piece, start)
        return piece.times(low, high, mode)

    def _check_atomic(self, piece: _Fragment, start: int) -> None:
        if _EMPTY_LOOP in piece.traits:
            self._unsupported("repetition of a group that can match nothing in an atomic or possessive one", start)

    def _bounds(self, start: int) -> tuple[int, float]:
        found = self._scan(_BOUNDS, "illegal repetition", start)
        low = int(found[1])
        high = int(found[3]) if found[3] else math.inf if found[2] else low
        if low > _MAX_REPEAT or not (low <= high <= _MAX_REPEAT or high == math.inf):
            self._invalid("illegal repetition range", start)
        return low, high

    def _group(self) -> _Fragment | None:
        """None for a group that only sets flags: they apply up to the end of the enclosing group."""
        start, flags_outside = self._at, self._flags
        self._at += 1
        if self._peek() != "?":
            piece = self._capturing(start)
        else:
            self._at += 1
            kind = next((kind for kind in _KINDS_OF_GROUP if self._text.startswith(kind, self._at)), None)
            if kind is None:
                if self._set_flags(start) == ")":
                    return None
                kind = ":"
            else:
                self._at += len(kind)
            if kind in ("<=", "<!"):
                piece = self._look_behind(f"(?{kind}", start)
            elif kind == "<":
                piece = self._capturing(start, self._scan(_GROUP_NAME, "illegal group name", start)[1])
            else:
                body = self._alternation()
                piece = replace(body, text=f"(?{kind}{body.text})")
                if kind != ":":
                    self._volatile |= body.groups
                if kind == ">":
                    self._check_atomic(body, start)
                elif kind in "=!":
                    piece = replace(piece, shortest=0, longest=0)
        if self._peek() != ")":
            self._invalid("unclosed group", start)
        self._at += 1
        self._flags = flags_outside
        return piece

    def _capturing(self, start: int, name: str | None = None) -> _Fragment:
        self._groups += 1
        number = self._groups
        if name is not None and self._names.setdefault(name, number) != number:
            self._invalid(f"second group named {name}", start)
        self._open.add(number)
        body = self._alternation()
        self._open.remove(number)
        return replace(body, text=f"(?P<g{number}>{body.text})", groups=body.groups | {number})

    def _look_behind(self, opening: str, start: int) -> _Fragment:
        """Python requires a fixed length per look-behind: each branch becomes a look-behind of its own."""
        branches = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence())
        if any(branch.shortest != branch.longest for branch in branches):
            self._unsupported("look-behind of variable length", start)
        # Java steps back by UTF-16 units, possibly into the middle of a character.
        if any(_ASTRAL in branch.traits for branch in branches):
            self._unsupported("look-behind at characters beyond U+FFFF", start)
        self._volatile = self._volatile.union(*(branch.groups for branch in branches))
        parts = [f"{opening}{branch.text})" for branch in branches]
        return _Fragment(f"(?:{'|'.join(parts)})" if opening.endswith("=") else "".join(parts))

    def _set_flags(self, start: int) -> str:
        found = self._scan(_MODIFIERS, "unknown inline modifier", start)
        for flag, meaning in _FLAGS_ONLY_IN_JAVA.items():
            if flag in found[1]:
                self._unsupported(f"flag {flag} ({meaning})", start)
        self._flags = (self._flags | set(found[1])) - set(found[2] or "")
        return str(found[3])

    # Escapes. `start` is the position of the backslash.

    def _escape(self, start: int) -> _Fragment:
        char = self._text[self._at]
        if char in "GX" or self._text.startswith("b{g}", self._at):
            self._unsupported({"G": r"\G", "X": r"\X"}.get(char, r"\b{g}"), start)
        if char in "123456789":
            return self._numbered_reference(start)
        if char in "AzbBZRk":
            self._at += 1
            if char in _ANCHORS:
                return _Fragment(_ANCHORS[char])
            if char == "Z":
                return self._last_line_end()
            return _LINE_BREAK if char == "R" else self._named_reference(start)
        found = self._escaped(start)
        return _one_of(found if isinstance(found, CharSet) else self._cased(found, found, start))

    def _named_reference(self, start: int) -> _Fragment:
        if self._take() != "<":
            self._invalid(r"\k without <name>", start)
        name = self._scan(_GROUP_NAME, "illegal group name", start)[1]
        if name not in self._names:
            self._invalid(f"no group named {name}", start)
        return self._reference(self._names[name], start)

    def _numbered_reference(self, start: int) -> _Fragment:
        """The first digit always counts; further ones only if that many groups have been opened so far."""
        number = int(self._take())
        while (char := self._text[self._at]) in "0123456789" and number * 10 + int(char) <= self._groups:
            number = number * 10 + int(self._take())
        return self._reference(number, start)

    def _reference(self, number: int, start: int) -> _Fragment:
        """A group's text, once it has matched.

        The text of a group after an iteration of a loop, an atomic group or a look-around differs, because Java does
        not always reset it: such references are rejected at the end, when all groups are known. Otherwise a reference
        to a group that is still open, comes later, or does not exist cannot match.
        """
        self._references.append((number, start))
        if number > self._groups or number in self._open:
            return _Fragment("(?!)", 0, math.inf)
        text = f"(?P=g{number})"
        return _Fragment(f"(?i:{text})" if "i" in self._flags else text, 0, math.inf)


def _one_of(members: CharSet) -> _Fragment:
    return _Fragment(members.emit(), 1, 1, frozenset({_ASTRAL} if members.astral else ()))
