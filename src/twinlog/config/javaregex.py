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
from typing import NoReturn

from twinlog.config import charset
from twinlog.config.charset import CharSet


class JavaRegexError(ValueError):
    """`position` counts from 0 in the pattern; `by_java` tells a mistake from a construct that only Java can do."""

    def __init__(self, construct: str, position: int, *, by_java: bool) -> None:
        where = f"{construct} at {position}"
        super().__init__(f"Java itself refuses it: {where}" if by_java else f"{where}: Python cannot keep its meaning")
        self.construct = construct
        self.position = position
        self.by_java = by_java


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


# Java's escapes, first those of characters and classes.
_CONTROLS = {"a": 0x07, "e": 0x1B, "f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09}
_CLASSES = {"d": charset.DIGIT, "h": charset.HORIZONTAL, "s": charset.SPACE, "v": charset.VERTICAL, "w": charset.WORD}
_CLASSES |= {letter.upper(): ~members for letter, members in _CLASSES.items()}
# Python's \Z is Java's \z. JDK 19 made \b as ASCII as \w is (it knew all letters before): we keep the newer, documented
# meaning. \B is written as the opposite of \b because Python's own, before 3.14, does not match an empty text.
_ANCHORS = {"A": r"\A", "z": r"\Z", "b": r"\b", "B": r"(?!\b)"}
_LINE_BREAK = _Piece(r"(?:\r\n|[\n-\r\x85\u2028\u2029])", 1, 2, frozenset({_BREAKS}))
_KINDS_OF_GROUP = (":", "=", "!", ">", "<=", "<!", "<")
_FLAGS_ONLY_IN_JAVA = {"m": "multiline", "u": "Unicode case", "U": "Unicode classes", "c": "canonical equivalence"}

_QUOTE = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.|.", re.DOTALL)
_BOUNDS = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_OCTAL = re.compile(r"[0-3][0-7]{2}|[0-7]{1,2}")
_HEX = re.compile(r"[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]+\}")
_UTF16 = re.compile(r"[0-9A-Fa-f]{4}")
_LOW_SURROGATE = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_BRACED = re.compile(r"\{([^}]+)\}")
_GROUP_NAME = re.compile(r"([A-Za-z][A-Za-z0-9]*)>")
_MODIFIERS = re.compile(r"([imsducxU]*)(?:-([imsducxU]*))?([:)])")
_BLANK = " \t\n\x0b\f\r"
_MOST = 2**31 - 1
_END = "\0"  # stands behind the pattern, so that the next character can always be asked for


def _unquote(pattern: str) -> tuple[str, list[int]]:
    r"""Escapes what stands between \Q and \E; also gives each character's position in `pattern`.

    Java does this before it parses, so a quotation may begin and end anywhere, even inside of a class or a name.
    """
    text, places = "", []
    for token in _QUOTE.finditer(pattern):
        quoted = token[1] is not None
        for offset, char in enumerate(token[1] if quoted else token[0]):
            if not quoted or not char.isascii() or char.isalpha() or (char.isdigit() and offset):
                escaped = char
            else:  # a digit in first place must not lengthen a \1 in front of the quotation
                escaped = f"\\x3{char}" if char.isdigit() else "\\" + char
            text += escaped
            places += [token.start() + offset + 2 * quoted] * len(escaped)
    return text, [*places, len(pattern), len(pattern)]


class _Translator:
    """A recursive-descent parser that emits as it reads. `_at` is the position in the unquoted text."""

    def __init__(self, pattern: str) -> None:
        unquoted, self._places = _unquote(pattern)
        self._text = unquoted + _END
        self._at = 0
        self._flags: frozenset[str] = frozenset()  # of i, s, d, x
        self._groups = 0
        self._open: set[int] = set()
        self._names: dict[str, int] = {}
        self._references: list[tuple[int, int]] = []  # number, position
        self._volatile: set[int] = set()

    def translate(self) -> str:
        if (nul := self._text.index(_END)) < len(self._text) - 1:  # Java marks the end with it, too
            self._cannot_keep("a NUL character", nul)
        piece = self._alternation()
        if self._peek() != _END:
            self._java_refuses("unmatched closing )", self._at)
        for number, at in self._references:
            if number in self._volatile:
                self._cannot_keep("reference to a group in a repetition, an atomic group or a look-around", at)
        return piece.text

    def _java_refuses(self, why: str, at: int) -> NoReturn:
        raise JavaRegexError(why, self._places[at], by_java=True)

    def _cannot_keep(self, construct: str, at: int) -> NoReturn:
        raise JavaRegexError(construct, self._places[at], by_java=False)

    # Reading. Under flag x, white space and comments mean nothing between two elements. Within an element Java skips
    # them here and trips over them there: we refuse them.

    def _peek(self) -> str:
        """The next character that means something."""
        while "x" in self._flags and (char := self._text[self._at]) in _BLANK + "#":
            self._at += 1
            if char == "#":
                line_ends = "\n" if "d" in self._flags else "\n\r\x85\u2028\u2029"
                while self._text[self._at] not in line_ends + _END:
                    self._at += 1
        return self._text[self._at]

    def _within(self) -> str:
        """The next character inside of an element."""
        if "x" in self._flags and self._text[self._at] in _BLANK + "#":
            self._cannot_keep("white space or # within an element under flag x", self._at)
        return self._text[self._at]

    def _take(self) -> str:
        char = self._text[self._at]
        self._at += char != _END
        return char

    def _scan(self, syntax: re.Pattern[str], otherwise: str, start: int) -> re.Match[str]:
        """The rest of the element at `start`, of which every character must stand `_within` it."""
        found = syntax.match(self._text, self._at)
        end = found.end() if found else len(self._text)
        while self._at < end and self._within() != _END:
            self._at += 1
        return found or self._java_refuses(otherwise, start)

    # Structure.

    def _alternation(self) -> _Piece:
        whole = self._sequence()
        while self._peek() == "|":
            self._at += 1
            whole |= self._sequence()
        return whole

    def _sequence(self) -> _Piece:
        whole = _Piece("")
        while (char := self._peek()) not in "|)" + _END:
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

    def _cased(self, first: int, last: int, at: int) -> CharSet:
        if 0xD800 <= first <= 0xDFFF or 0xD800 <= last <= 0xDFFF:
            self._cannot_keep("half of a surrogate pair", at)
        members = CharSet(((first, last),))
        return members.fold() if "i" in self._flags else members

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

    def _escaped(self, start: int, *, in_range: bool = False) -> int | CharSet:
        """What may stand inside of a class as well as outside."""
        char = self._take()
        if char == "v" and in_range:  # what \v meant before Java 8
            return 0x0B
        if char in _CLASSES:
            return _CLASSES[char]
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in "pP":
            return self._property(start) if char == "p" else ~self._property(start)
        if char == "N":
            return self._named_character(start)
        if char in "0xu":
            return self._coded(char, start)
        if char == "c" and self._within() != _END:
            return ord(self._take()) ^ 64  # hence \ca is not \cA
        if char == _END or (char.isascii() and char.isalnum()):
            self._java_refuses("trailing backslash" if char == _END else f"illegal escape \\{char}", start)
        return ord(char)

    def _coded(self, kind: str, start: int) -> int:
        syntax = {"0": _OCTAL, "x": _HEX, "u": _UTF16}[kind]
        digits = self._scan(syntax, f"illegal escape \\{kind}", start)[0].strip("{}")
        code = int(digits, 8 if kind == "0" else 16)
        if code > 0x10FFFF:
            self._java_refuses(f"illegal escape \\{kind}", start)
        if kind == "u" and 0xD800 <= code <= 0xDBFF and (low := _LOW_SURROGATE.match(self._text, self._at)):
            self._at = low.end()
            return 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00
        return code

    def _named_character(self, start: int) -> int:
        written = self._scan(_BRACED, r"illegal escape \N", start)[1]
        code = charset.character(written)
        return self._cannot_keep(f"character name \\N{{{written}}}", start) if code is None else code

    def _property(self, start: int) -> CharSet:
        braced = self._within() == "{"
        name = self._scan(_BRACED, r"unclosed or empty \p", start)[1] if braced else self._take()
        members = charset.named(name, ignore_case="i" in self._flags)
        return self._cannot_keep(f"property \\p{{{name}}}", start) if members is None else members

    # Classes. `start` is the position of the opening bracket.

    def _class(self) -> CharSet:
        start = self._at
        negated = self._text.startswith("^", start + 1)
        self._at += 1 + negated
        members = self._members(start)
        self._at += 1
        return ~members if negated else members

    def _members(self, start: int) -> CharSet:
        """Up to the closing bracket, which stays. A bracket in first place is a member."""
        members: CharSet | None = None
        while (char := self._peek()) != "]" or members is None:
            at = self._at
            if char == _END:
                self._java_refuses("unclosed character class", start)
            if char == "&" and self._is_intersection():
                members = self._intersection(members, start, at)
                continue
            found = self._class() if char == "[" else self._range()
            members = found if members is None else members | found
        return members

    def _is_intersection(self) -> bool:
        self._at += 1
        found = self._within() == "&"
        self._at += 1 if found else -1
        return found

    def _intersection(self, left: CharSet | None, start: int, at: int) -> CharSet:
        """After `&&`. Its right side is all up to the closing bracket, or up to a `&` that follows a bracket."""
        right: CharSet | None = None
        while (char := self._peek()) not in "]&" + _END:
            found = self._class() if char == "[" else self._members(start)
            right = found if right is None else right | found
        if left is None or right is None:
            self._cannot_keep("&& with nothing on one side", at)
        if char == "&" and self._text[self._at + 1] != "&":  # Java then brings back some of the left side
            self._cannot_keep("single & after &&", self._at)
        return left & right

    def _range(self) -> CharSet:
        at = self._at
        first = self._member(in_range=self._text.startswith("-", at + 2))
        if isinstance(first, CharSet):
            return first
        if self._peek() != "-" or self._text[self._at + 1] in "[]":
            return self._cased(first, first, at)
        self._at += 1
        self._within()
        last = self._member(in_range=True)
        if isinstance(last, CharSet) or last < first:
            self._java_refuses("illegal character range", at)
        return self._cased(first, last, at)

    def _member(self, *, in_range: bool) -> int | CharSet:
        start, char = self._at, self._take()
        return self._escaped(start, in_range=in_range) if char == "\\" else ord(char)


def _one_of(members: CharSet) -> _Piece:
    return _Piece(members.emit(), 1, 1, frozenset({_ASTRAL} if members.astral else ()))
