r"""Parses characters and character classes of Java regular expressions, for java_regex.py.

An element of a pattern is a character in one of its notations, or a set of characters (java_charset.py). Flags that
change the meaning of a character are resolved here.
"""

import re
from typing import NoReturn

from twinlog.config import java_charset
from twinlog.config.java_charset import CharSet

# Java's escapes of characters and classes.
_CONTROLS = {"a": 0x07, "e": 0x1B, "f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09}
_CLASSES = {
    "d": java_charset.DIGIT,
    "h": java_charset.HORIZONTAL,
    "s": java_charset.SPACE,
    "v": java_charset.VERTICAL,
    "w": java_charset.WORD,
}
_CLASSES |= {letter.upper(): ~members for letter, members in _CLASSES.items()}

_QUOTE = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.|.", re.DOTALL)
_OCTAL = re.compile(r"[0-3][0-7]{2}|[0-7]{1,2}")
_HEX = re.compile(r"[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]+\}")
_UTF16 = re.compile(r"[0-9A-Fa-f]{4}")
_LOW_SURROGATE = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_BRACED = re.compile(r"\{([^}]+)\}")
_BLANK = " \t\n\x0b\f\r"
END = "\0"  # appended to the pattern, so that there always is a next character


class JavaRegexError(ValueError):
    """`position` counts from 0; `by_java`: invalid in Java, otherwise a construct without an equivalent in Python."""

    def __init__(self, construct: str, position: int, *, by_java: bool) -> None:
        where = f"{construct} at {position}"
        super().__init__(
            f"invalid Java regular expression: {where}" if by_java else f"{where} is not supported; rewrite it"
        )
        self.construct = construct
        self.position = position
        self.by_java = by_java


def _unquote(pattern: str) -> tuple[str, list[int]]:
    r"""Escapes the text between \Q and \E; also returns each character's position in `pattern`.

    Java does this before parsing, so a quotation may begin and end anywhere, even inside a class or a name.
    """
    text, positions = "", []
    for token in _QUOTE.finditer(pattern):
        quoted = token[1] is not None
        for offset, char in enumerate(token[1] if quoted else token[0]):
            if not quoted or not char.isascii() or char.isalpha() or (char.isdigit() and offset):
                escaped = char
            else:  # a leading digit must not extend a \1 before the quotation
                escaped = f"\\x3{char}" if char.isdigit() else "\\" + char
            text += escaped
            positions += [token.start() + offset + 2 * quoted] * len(escaped)
    return text, [*positions, len(pattern), len(pattern)]


class CharacterReader:
    """`_at` is the position in the unquoted text; `start` (below) that of an element's first character."""

    def __init__(self, pattern: str) -> None:
        unquoted, self._positions = _unquote(pattern)
        self._text = unquoted + END
        self._at = 0
        self._flags: frozenset[str] = frozenset()  # of i, s, d, x

    def _invalid(self, why: str, at: int) -> NoReturn:
        raise JavaRegexError(why, self._positions[at], by_java=True)

    def _unsupported(self, construct: str, at: int) -> NoReturn:
        raise JavaRegexError(construct, self._positions[at], by_java=False)

    # Reading. Under flag x, white space and comments between elements are ignored. Within an element Java is
    # inconsistent about them, so they are rejected.

    def _peek(self) -> str:
        """The next significant character."""
        while "x" in self._flags and (char := self._text[self._at]) in _BLANK + "#":
            self._at += 1
            if char == "#":
                line_ends = "\n" if "d" in self._flags else "\n\r\x85\u2028\u2029"
                while self._text[self._at] not in line_ends + END:
                    self._at += 1
        return self._text[self._at]

    def _within(self) -> str:
        """The next character inside an element."""
        if "x" in self._flags and self._text[self._at] in _BLANK + "#":
            self._unsupported("white space or # within an element under flag x", self._at)
        return self._text[self._at]

    def _take(self) -> str:
        char = self._text[self._at]
        self._at += char != END
        return char

    def _scan(self, syntax: re.Pattern[str], otherwise: str, start: int) -> re.Match[str]:
        """The rest of the element at `start`; every character of it must be `_within` it."""
        found = syntax.match(self._text, self._at)
        end = found.end() if found else len(self._text)
        while self._at < end and self._within() != END:
            self._at += 1
        return found or self._invalid(otherwise, start)

    def _cased(self, first: int, last: int, at: int) -> CharSet:
        if 0xD800 <= first <= 0xDFFF or 0xD800 <= last <= 0xDFFF:
            self._unsupported("half of a surrogate pair", at)
        members = CharSet(((first, last),))
        return members.fold() if "i" in self._flags else members

    def _escaped(self, start: int, *, in_range: bool = False) -> int | CharSet:
        """An escape that is allowed inside and outside a class."""
        char = self._take()
        if char == "v" and in_range:  # the meaning of \v before Java 8
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
            self._invalid("trailing backslash" if char == END else f"illegal escape \\{char}", start)
        return ord(char)

    def _coded(self, kind: str, start: int) -> int:
        syntax = {"0": _OCTAL, "x": _HEX, "u": _UTF16}[kind]
        digits = self._scan(syntax, f"illegal escape \\{kind}", start)[0].strip("{}")
        code = int(digits, 8 if kind == "0" else 16)
        if code > 0x10FFFF:
            self._invalid(f"illegal escape \\{kind}", start)
        if kind == "u" and 0xD800 <= code <= 0xDBFF and (low := _LOW_SURROGATE.match(self._text, self._at)):
            self._at = low.end()
            return 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00
        return code

    def _named_character(self, start: int) -> int:
        written = self._scan(_BRACED, r"illegal escape \N", start)[1]
        code = java_charset.character(written)
        return self._unsupported(f"character name \\N{{{written}}}", start) if code is None else code

    def _property(self, start: int) -> CharSet:
        braced = self._within() == "{"
        name = self._scan(_BRACED, r"unclosed or empty \p", start)[1] if braced else self._take()
        members = java_charset.named(name, ignore_case="i" in self._flags)
        return self._unsupported(f"property \\p{{{name}}}", start) if members is None else members

    # Classes. `start` is the position of the opening bracket.

    def _class(self) -> CharSet:
        start = self._at
        negated = self._text.startswith("^", start + 1)
        self._at += 1 + negated
        members = self._members(start)
        self._at += 1
        return ~members if negated else members

    def _members(self, start: int) -> CharSet:
        """Up to the closing bracket, which is not consumed. A leading bracket is a member."""
        members: CharSet | None = None
        while (char := self._peek()) != "]" or members is None:
            at = self._at
            if char == END:
                self._invalid("unclosed character class", start)
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
        """After `&&`. Its right side extends to the closing bracket, or to a `&` after a bracket."""
        right: CharSet | None = None
        while (char := self._peek()) not in "]&" + END:
            found = self._class() if char == "[" else self._members(start)
            right = found if right is None else right | found
        if left is None or right is None:
            self._unsupported("&& with nothing on one side", at)
        if char == "&" and self._text[self._at + 1] != "&":  # Java then re-adds parts of the left side
            self._unsupported("single & after &&", self._at)
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
            self._invalid("illegal character range", at)
        return self._cased(first, last, at)

    def _member(self, *, in_range: bool) -> int | CharSet:
        start, char = self._at, self._take()
        return self._escaped(start, in_range=in_range) if char == "\\" else ord(char)
