r"""Java's characters and classes: the reading half of the translator in javaregex.py.

What one element of a pattern can be, inside and outside of brackets: a character in any of its spellings, or a set of
characters (charset.py). Flags that change what a character means are resolved here.
"""

import re
from typing import NoReturn

from twinlog.config import charset
from twinlog.config.charset import CharSet

# Java's escapes of characters and classes.
_CONTROLS = {"a": 0x07, "e": 0x1B, "f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09}
_CLASSES = {"d": charset.DIGIT, "h": charset.HORIZONTAL, "s": charset.SPACE, "v": charset.VERTICAL, "w": charset.WORD}
_CLASSES |= {letter.upper(): ~members for letter, members in _CLASSES.items()}

_QUOTE = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.|.", re.DOTALL)
_OCTAL = re.compile(r"[0-3][0-7]{2}|[0-7]{1,2}")
_HEX = re.compile(r"[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]+\}")
_UTF16 = re.compile(r"[0-9A-Fa-f]{4}")
_LOW_SURROGATE = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_BRACED = re.compile(r"\{([^}]+)\}")
_BLANK = " \t\n\x0b\f\r"
END = "\0"  # stands behind the pattern, so that the next character can always be asked for


class JavaRegexError(ValueError):
    """`position` counts from 0 in the pattern; `by_java` tells a mistake from a construct that only Java can do."""

    def __init__(self, construct: str, position: int, *, by_java: bool) -> None:
        where = f"{construct} at {position}"
        super().__init__(f"Java itself refuses it: {where}" if by_java else f"{where}: Python cannot keep its meaning")
        self.construct = construct
        self.position = position
        self.by_java = by_java


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


class CharacterReader:
    """`_at` is the position in the unquoted text; `start`, below, that of an element's first character."""

    def __init__(self, pattern: str) -> None:
        unquoted, self._places = _unquote(pattern)
        self._text = unquoted + END
        self._at = 0
        self._flags: frozenset[str] = frozenset()  # of i, s, d, x

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
                while self._text[self._at] not in line_ends + END:
                    self._at += 1
        return self._text[self._at]

    def _within(self) -> str:
        """The next character inside of an element."""
        if "x" in self._flags and self._text[self._at] in _BLANK + "#":
            self._cannot_keep("white space or # within an element under flag x", self._at)
        return self._text[self._at]

    def _take(self) -> str:
        char = self._text[self._at]
        self._at += char != END
        return char

    def _scan(self, syntax: re.Pattern[str], otherwise: str, start: int) -> re.Match[str]:
        """The rest of the element at `start`, of which every character must stand `_within` it."""
        found = syntax.match(self._text, self._at)
        end = found.end() if found else len(self._text)
        while self._at < end and self._within() != END:
            self._at += 1
        return found or self._java_refuses(otherwise, start)

    def _cased(self, first: int, last: int, at: int) -> CharSet:
        if 0xD800 <= first <= 0xDFFF or 0xD800 <= last <= 0xDFFF:
            self._cannot_keep("half of a surrogate pair", at)
        members = CharSet(((first, last),))
        return members.fold() if "i" in self._flags else members

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
        if char == "c" and self._within() != END:
            return ord(self._take()) ^ 64  # hence \ca is not \cA
        if char == END or (char.isascii() and char.isalnum()):
            self._java_refuses("trailing backslash" if char == END else f"illegal escape \\{char}", start)
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
            if char == END:
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
        while (char := self._peek()) not in "]&" + END:
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
