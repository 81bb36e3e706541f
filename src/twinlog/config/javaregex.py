r"""Java regular expressions keep their meaning in Python; what cannot be kept is refused by name.

MM2 joins the elements of `topics`, `groups` and their like with `|` into one Java pattern and matches whole names.
Handed to `re` as they are, many such patterns compile and mean something else: `{,3}`, `\Z`, `[a-z&&[^b]]`, `$`, an
inline flag in the middle. So nothing is handed over. The pattern is parsed as Java parses it, and written anew in the
part of Python's syntax that has one meaning: flags are resolved while reading, classes are computed (charset.py),
anchors are spelled out.

    (?i)a|[b-d&&[^c]]\Z    becomes    [Aa]|[BDbd](?=\r\n\Z|(?<!\r)\n\Z|[\r\x85\u2028\u2029]\Z|\Z)

Refusals come in two kinds: Java itself would refuse the pattern, or Java's meaning is out of reach here.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from twinlog.config import charset
from twinlog.config.charset import CharSet
from twinlog.config.javachars import END, CharacterReader, JavaRegexError


def compile_java(pattern: str) -> re.Pattern[str]:
    """For `fullmatch`, which is Java's `matches()`."""
    try:
        # ASCII: `\b`, and the case of what a back-reference repeats, are ASCII matters in Java.
        return re.compile(_Translator(pattern).translate(), re.ASCII)
    except (RecursionError, OverflowError, re.error) as error:
        # Size is all that is left to object to: groups nested hundreds deep, a look-behind of gigabytes.
        raise JavaRegexError(f"a pattern too large for Python ({error})", 0, by_java=False) from error


def compile_list(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """As MM2 reads a list: one pattern, so an inline flag holds for the later elements too; None for an empty list.

    The position in an error counts in the joined pattern.
    """
    return compile_java("|".join(patterns)) if patterns else None


__all__ = ["JavaRegexError", "compile_java", "compile_list"]

_ASTRAL = "may take a character of two UTF-16 units"
_BREAKS = "holds a line break, \\R, that is not in an atomic group"
_GOES_ON = "holds a loop that goes on after an empty round, where Java's does not"


@dataclass(frozen=True, slots=True)
class _Piece:
    """Translated text, with what a quantifier or a look-behind around it must know."""

    text: str
    shortest: float = 0  # in characters
    longest: float = 0
    traits: frozenset[str] = frozenset()
    groups: frozenset[int] = frozenset()

    def __add__(self, other: "_Piece") -> "_Piece":
        lengths = self.shortest + other.shortest, self.longest + other.longest
        return _Piece(self.text + other.text, *lengths, self.traits | other.traits, self.groups | other.groups)

    def __or__(self, other: "_Piece") -> "_Piece":
        lengths = min(self.shortest, other.shortest), max(self.longest, other.longest)
        return _Piece(f"{self.text}|{other.text}", *lengths, self.traits | other.traits, self.groups | other.groups)

    def times(self, low: int, high: float, mode: str) -> "_Piece":
        """`mode` is ? for lazy and + for possessive.

        Java's possessive loop commits to each round as it goes. Some Pythons only commit to the last, or get it wrong
        altogether, so it is spelled out with atomic groups, which they agree on.
        """
        count = f"{{{low},{'' if high == math.inf else high}}}"
        text = f"(?>(?>{self.text}){count})" if mode == "+" else f"(?:{self.text}){count}{mode}"
        longest = self.longest * high if 0 < self.longest < math.inf else self.longest
        return replace(self, text=text, shortest=self.shortest * low, longest=longest)


# Python's \Z is Java's \z. JDK 19 made \b as ASCII as \w is (it knew all letters before): we keep the newer, documented
# meaning. \B is written as the opposite of \b because Python's own, before 3.14, does not match an empty text.
_ANCHORS = {"A": r"\A", "z": r"\Z", "b": r"\b", "B": r"(?!\b)"}
_LINE_BREAK = _Piece(r"(?:\r\n|[\n-\r\x85\u2028\u2029])", 1, 2, frozenset({_BREAKS}))
_KINDS_OF_GROUP = (":", "=", "!", ">", "<=", "<!", "<")
_FLAGS_ONLY_IN_JAVA = {"m": "multiline", "u": "Unicode case", "U": "Unicode classes", "c": "canonical equivalence"}

_BOUNDS = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_GROUP_NAME = re.compile(r"([A-Za-z][A-Za-z0-9]*)>")
_MODIFIERS = re.compile(r"([imsducxU]*)(?:-([imsducxU]*))?([:)])")
_MOST = 2**31 - 1


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
        if (nul := self._text.index(END)) < len(self._text) - 1:  # Java marks the end with it, too
            self._cannot_keep("a NUL character", nul)
        piece = self._alternation()
        if self._peek() != END:
            self._java_refuses("unmatched closing )", self._at)
        for number, at in self._references:
            if number in self._volatile:
                self._cannot_keep("reference to a group in a repetition, an atomic group or a look-around", at)
        return piece.text

    # Structure.

    def _alternation(self) -> _Piece:
        whole = self._sequence()
        while self._peek() == "|":
            self._at += 1
            whole |= self._sequence()
        return whole

    def _sequence(self) -> _Piece:
        whole = _Piece("")
        while (char := self._peek()) not in "|)" + END:
            piece = self._group() if char == "(" else self._atom(char)
            if piece is not None:
                whole += self._quantified(piece, is_group=char == "(")
        return whole

    def _atom(self, char: str) -> _Piece:
        start = self._at
        if char == "[":
            return _one_of(self._class())
        if char == "{":  # a repetition behind nothing, or behind a repetition as in a{2}{3}, repeats nothing
            return _Piece("")
        self._at += 1
        if char == "\\":
            return self._escape(start)
        if char == ".":
            ends = charset.chars("\n") if "d" in self._flags else charset.LINE_TERMINATORS
            return _one_of(~CharSet() if "s" in self._flags else ~ends)
        if char == "^":
            return _Piece(_ANCHORS["A"])
        if char == "$":
            return self._last_line_end()
        if char in "?*+":
            self._java_refuses(f"dangling {char}", start)
        return _one_of(self._cased(ord(char), ord(char), start))

    def _last_line_end(self) -> _Piece:
        r"""Java's $ and \Z also stand before the line terminator that ends the text, but not inside of a \r\n."""
        if "d" in self._flags:
            return _Piece(r"(?=\n?\Z)")
        return _Piece(r"(?=\r\n\Z|(?<!\r)\n\Z|[\r\x85\u2028\u2029]\Z|\Z)")

    def _quantified(self, piece: _Piece, *, is_group: bool) -> _Piece:
        char, start = self._peek(), self._at
        if char == "{":
            low, high = self._bounds(start)
        elif char in "?*+":
            self._at += 1
            low, high = int(char == "+"), 1 if char == "?" else math.inf
        else:
            return piece
        mode = self._take() if self._peek() in "?+" else ""
        if piece == _LINE_BREAK:  # once repeated, it no longer gives back the \n of a \r\n
            piece = replace(piece, text=f"(?>{piece.text})", traits=frozenset())
        if _BREAKS in piece.traits:  # whether it gives back depends on what else is in the group
            self._cannot_keep(r"\R in a repeated group", start)
        if is_group:
            self._volatile |= piece.groups
            # A round that matches nothing ends Java's loop, even before its minimum is reached. Python goes on. With a
            # minimum of one only the order of attempts differs, which nothing but an atomic group can show.
            if piece.shortest == 0 and low > 1:
                self._cannot_keep("repetition, twice or more, of a group that can match nothing", start)
            if piece.shortest == 0 and low == 1:
                piece = replace(piece, traits=piece.traits | {_GOES_ON})
            # For a look-behind Java, too, must know how long a match can get: of a repeated group it mostly does not.
            piece = replace(piece, longest=math.inf)
        if mode == "+":
            self._check_atomic(piece, start)
        return piece.times(low, high, mode)

    def _check_atomic(self, piece: _Piece, start: int) -> None:
        if _GOES_ON in piece.traits:
            self._cannot_keep("repetition of a group that can match nothing in an atomic or possessive one", start)

    def _bounds(self, start: int) -> tuple[int, float]:
        found = self._scan(_BOUNDS, "illegal repetition", start)
        low = int(found[1])
        high = int(found[3]) if found[3] else math.inf if found[2] else low
        if low > _MOST or not (low <= high <= _MOST or high == math.inf):
            self._java_refuses("illegal repetition range", start)
        return low, high

    def _group(self) -> _Piece | None:
        """None for a group that only sets flags: they hold to the end of the group around it."""
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
            self._java_refuses("unclosed group", start)
        self._at += 1
        self._flags = flags_outside
        return piece

    def _capturing(self, start: int, name: str | None = None) -> _Piece:
        self._groups += 1
        number = self._groups
        if name is not None and self._names.setdefault(name, number) != number:
            self._java_refuses(f"second group named {name}", start)
        self._open.add(number)
        body = self._alternation()
        self._open.remove(number)
        return replace(body, text=f"(?P<g{number}>{body.text})", groups=body.groups | {number})

    def _look_behind(self, opening: str, start: int) -> _Piece:
        """Python wants one length per look-behind: branches of several lengths become one look-behind each."""
        branches = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence())
        if any(branch.shortest != branch.longest for branch in branches):
            self._cannot_keep("look-behind of variable length", start)
        # Java steps back by UTF-16 units, and may land in the middle of a character.
        if any(_ASTRAL in branch.traits for branch in branches):
            self._cannot_keep("look-behind at characters beyond U+FFFF", start)
        self._volatile = self._volatile.union(*(branch.groups for branch in branches))
        parts = [f"{opening}{branch.text})" for branch in branches]
        return _Piece(f"(?:{'|'.join(parts)})" if opening.endswith("=") else "".join(parts))

    def _set_flags(self, start: int) -> str:
        found = self._scan(_MODIFIERS, "unknown inline modifier", start)
        for flag, meaning in _FLAGS_ONLY_IN_JAVA.items():
            if flag in found[1]:
                self._cannot_keep(f"flag {flag} ({meaning})", start)
        self._flags = (self._flags | set(found[1])) - set(found[2] or "")
        return str(found[3])

    # Escapes. `start` is the position of the backslash.

    def _escape(self, start: int) -> _Piece:
        char = self._text[self._at]
        if char in "GX" or self._text.startswith("b{g}", self._at):
            self._cannot_keep({"G": r"\G", "X": r"\X"}.get(char, r"\b{g}"), start)
        if char in "123456789":
            return self._numbered_reference(start)
        if char in "AzbBZRk":
            self._at += 1
            if char in _ANCHORS:
                return _Piece(_ANCHORS[char])
            if char == "Z":
                return self._last_line_end()
            return _LINE_BREAK if char == "R" else self._named_reference(start)
        found = self._escaped(start)
        return _one_of(found if isinstance(found, CharSet) else self._cased(found, found, start))

    def _named_reference(self, start: int) -> _Piece:
        if self._take() != "<":
            self._java_refuses(r"\k without <name>", start)
        name = self._scan(_GROUP_NAME, "illegal group name", start)[1]
        if name not in self._names:
            self._java_refuses(f"no group named {name}", start)
        return self._reference(self._names[name], start)

    def _numbered_reference(self, start: int) -> _Piece:
        """The first digit always counts; a further one only if that many groups have been opened by then."""
        number = int(self._take())
        while (char := self._text[self._at]) in "0123456789" and number * 10 + int(char) <= self._groups:
            number = number * 10 + int(self._take())
        return self._reference(number, start)

    def _reference(self, number: int, start: int) -> _Piece:
        """A group's text, once it has matched.

        What is left of a group after a round of a loop, or after leaving an atomic group or a look-around, differs:
        Java forgets to reset some. Refused at the end, when all groups are known. Elsewhere a reference to a group that
        is still open, comes later or never, cannot match.
        """
        self._references.append((number, start))
        if number > self._groups or number in self._open:
            return _Piece("(?!)", 0, math.inf)
        text = f"(?P=g{number})"
        return _Piece(f"(?i:{text})" if "i" in self._flags else text, 0, math.inf)


def _one_of(members: CharSet) -> _Piece:
    return _Piece(members.emit(), 1, 1, frozenset({_ASTRAL} if members.astral else ()))
