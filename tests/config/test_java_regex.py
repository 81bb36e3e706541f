r"""What a topic pattern means, by example. Every row was checked against `java.util.regex` (JDK 17, 21, 25).

Read the tables as documentation: what Java does, where Python's own `re` would do something else.
"""

import random
import re

import pytest

from twinlog.config.java_charset import CharSet, chars
from twinlog.config.java_regex import JavaRegexError, compile_java, compile_list

MEANINGS = {
    "plain names are patterns": (r"orders.v1", ["orders.v1", "orders-v1"], ["orders.v10", "my.orders.v1"]),
    "the whole name counts, also with |": (r"a|ab", ["a", "ab"], ["abb", "ba"]),
    # Flags
    "a flag in the middle holds from there on": (r"a(?i)b|c", ["ab", "aB", "c", "C"], ["AB"]),
    "... to the end of its group": (r"(?:(?i)a)b", ["ab", "Ab"], ["aB"]),
    "... or for its own group": (r"(?i:a)b(?-i:c)", ["Abc"], ["aBc"]),
    "ignoring case is a matter of ASCII": (r"(?i)é|k", ["é", "k", "K"], ["É", "\u212a"]),
    "... in ranges and negations too": (r"(?i)[b-d][^x]", ["Ca", "bY"], ["aa", "bX"]),
    "a property about case then takes any case": (r"(?i)\p{Lower}\p{Lu}", ["Aa", "aÉ"], ["éa"]),
    "flag x": ("(?x) a b # comment\n [c d] \\ ", ["abc ", "abd "], ["ab  ", "a bc "]),
    "a dot stops at five line terminators": (r".", ["a", "\t", "\U0001f600"], ["\n", "\r", "\x85", "\u2028", "\u2029"]),
    "... at one under flag d": (r"(?d).", ["\r", "\x85"], ["\n"]),
    "... at none under flag s": (r"(?s).", ["\n"], [""]),
    # Quotation
    "quoted": (r"\Qa.b*\E+", ["a.b*", "a.b**"], ["aab", "a.ba.b*"]),
    "... without an end": (r"\Qa|b", ["a|b"], ["a", "b"]),
    "... inside of a class": (r"[\Q^-]\E]", ["^", "-", "]"], ["a"]),
    # Classes
    "union": (r"[a-c[x-z]]", ["b", "y"], ["m"]),
    "intersection": (r"[a-z&&[^aeiou]]+", ["xyz"], ["xaz"]),
    "... reaches to the bracket": (r"[a-z&&b-dx]", ["c", "x"], ["a", "&"]),
    "... and comes before the negation": (r"[^a-c&&b-d]", ["a", "d"], ["b", "c"]),
    "a bracket in first place, a dash at the end": (r"[]a-]+", ["]a-"], ["b"]),
    "\\w, \\d and \\s are ASCII": (r"\w\d\s", ["a1 "], ["é1 ", "a\u0661 ", "a1\xa0"]),
    "\\h and \\v": (r"\h\v", ["\xa0\x85", " \n"], ["\n ", "ab"]),
    "... but \\v in a range is one character": (r"[\v-\r]", ["\x0b", "\r"], ["\n", "\x85"]),
    "POSIX classes are ASCII": (r"\p{Alpha}\p{Punct}\P{Digit}", ["a-b"], ["é-b", "a1b", "a-1"]),
    "categories are Unicode": (r"\p{L}\pN\p{IsLu}\p{gc=Nd}", ["é1É\u0661"], ["-1A1"]),
    # Escapes
    "by number": (r"\x41\x{1F600}\u0041\0101", ["A\U0001f600AA"], ["A"]),
    "by two surrogates": (r"\ud83d\ude00", ["\U0001f600"], [""]),
    "by name": (r"\N{LATIN SMALL LETTER A}", ["a"], ["A"]),
    "control characters": (r"\t\e\cA\ca", ["\t\x1b\x01!"], ["\t\x1b\x01\x01"]),
    "an octal number ends at 0377": (r"\0477", ["'7"], ["\u013f"]),
    # Anchors
    "$ matches before a final line terminator": ("a$(?s:.*)", ["a", "a\n", "a\r\n", "a\u2028"], ["ab", "a\n\n"]),
    "... but not within it": ("a\r$\n", [], ["a\r\n"]),
    "\\Z is $, \\z is the end": (r"a\Z\n|b\z\n", ["a\n"], ["b\n", "b"]),
    "a word boundary is ASCII (since JDK 19)": (r".\b.", ["a-", "aé"], ["ab", "é-"]),
    "no boundary in an empty name": (r"\B", [""], ["a"]),
    "any line break": (r"\R", ["\r\n", "\r", "\n", "\x0b", "\u2029"], ["\n\r", "a"]),
    "... gives back its half": (r"\R\n", ["\r\n", "\n\n"], ["\n"]),
    "... but not when repeated": (r"\R+\n", ["\r\n\n"], ["\r\n"]),
    # Repetition
    "counted": (r"a{2}b{1,}c{0,1}", ["aab", "aabbc"], ["ab", "aabcc"]),
    "a count behind a count counts nothing": (r"a{2}{3}", ["aa"], ["aaaaaa"]),
    "lazy": (r"a*?b+?", ["ab", "bb"], ["a"]),
    "possessive": (r"a*+a|b++c", ["bbc"], ["a", "aa"]),
    "a possessive loop commits to each round": (r"(?:a|ab){2}+", ["aa"], ["aba"]),
    "atomic": (r"(?>a|ab)c", ["ac"], ["abc"]),
    # Groups
    "by number, by name": (r"(a|b)(?<n>c|d)\1\k<n>", ["acac", "bdbd"], ["acbc", "acad"]),
    "ignoring case": (r"(a)(?i)\1", ["aA"], ["AA"]),
    "\\11 is \\1 and a 1 until there are eleven groups": (r"(a)\11", ["aa1"], ["aa"]),
    "a group that does not exist never matches": (r"a|b\7", ["a"], ["b", "b7"]),
    "look-ahead": (r"(?!test-).*(?=s).", ["orders"], ["test-orders", "order"]),
    "look-behind": (r".*(?<!-internal|\.tmp)", ["orders", "internal"], ["x-internal", "x.tmp"]),
}

REFUSED_BY_JAVA = {
    r"(a": "invalid Java regular expression: unclosed group at 0",
    r"a)": "invalid Java regular expression: unmatched closing ) at 1",
    r"*.orders": "invalid Java regular expression: dangling * at 0",
    r"a**": "invalid Java regular expression: dangling * at 2",
    r"(?i)+": "invalid Java regular expression: dangling + at 4",
    r"a{,3}": "invalid Java regular expression: illegal repetition at 1",
    r"a{": "invalid Java regular expression: illegal repetition at 1",
    r"a{2,1}": "invalid Java regular expression: illegal repetition range at 1",
    r"a{2147483648}": "invalid Java regular expression: illegal repetition range at 1",
    r"[a": "invalid Java regular expression: unclosed character class at 0",
    r"[]": "invalid Java regular expression: unclosed character class at 0",
    r"[b-a]": "invalid Java regular expression: illegal character range at 1",
    r"[a-\d]": "invalid Java regular expression: illegal character range at 1",
    r"[\b]": r"invalid Java regular expression: illegal escape \b at 1",
    r"\y": r"invalid Java regular expression: illegal escape \y at 0",
    r"\x4": r"invalid Java regular expression: illegal escape \x at 0",
    r"\x{110000}": r"invalid Java regular expression: illegal escape \x at 0",
    r"\08": r"invalid Java regular expression: illegal escape \0 at 0",
    r"\u12": r"invalid Java regular expression: illegal escape \u at 0",
    r"\c": r"invalid Java regular expression: illegal escape \c at 0",
    r"\N": r"invalid Java regular expression: illegal escape \N at 0",
    r"\p{}": r"invalid Java regular expression: unclosed or empty \p at 0",
    "a\\": "invalid Java regular expression: trailing backslash at 1",
    r"(?P<n>a)": "invalid Java regular expression: unknown inline modifier at 0",
    r"(?#a)": "invalid Java regular expression: unknown inline modifier at 0",
    r"(?<n_1>a)": "invalid Java regular expression: illegal group name at 0",
    r"(?<n>a)(?<n>b)": "invalid Java regular expression: second group named n at 7",
    r"\k<n>(?<n>a)": "invalid Java regular expression: no group named n at 0",
    r"\kn": r"invalid Java regular expression: \k without <name> at 0",
    r"\Q((\E(": "invalid Java regular expression: unclosed group at 6",
}

OUT_OF_REACH = {
    r"(?m)a": "flag m (multiline) at 0",
    r"(?iu)a": "flag u (Unicode case) at 0",
    r"(?U:a)": "flag U (Unicode classes) at 0",
    r"(?c)a": "flag c (canonical equivalence) at 0",
    r"a\G": r"\G at 1",
    r"\X": r"\X at 0",
    r"\b{g}": r"\b{g} at 0",
    r"\p{javaLowerCase}": r"property \p{javaLowerCase} at 0",
    r"\p{IsAlphabetic}": r"property \p{IsAlphabetic} at 0",
    r"\p{IsGreek}": r"property \p{IsGreek} at 0",
    r"[\P{InGreek}]": r"property \p{InGreek} at 1",
    r"\N{CJK UNIFIED IDEOGRAPHS 4E00}": r"character name \N{CJK UNIFIED IDEOGRAPHS 4E00} at 0",
    r"\ud83d": "half of a surrogate pair at 0",
    "a\0": "NUL character at 1",
    r".*(?<=a?)": "look-behind of variable length at 2",
    r"(?<!(?:ab){2})": "look-behind of variable length at 0",
    r"(?<=.)a": "look-behind at characters beyond U+FFFF at 0",
    r"(a)*\1": "reference to a group in a repetition, an atomic group or a look-around at 4",
    r"(?=(a))\1": "reference to a group in a repetition, an atomic group or a look-around at 7",
    r"(?:^|a){2}": "repetition, twice or more, of a group that can match nothing at 7",
    r"(?>(?:a?)+)": "repetition of a group that can match nothing in an atomic or possessive one at 0",
    r"(?:\R)+": r"\R in a repeated group at 6",
    r"[&&a]": "&& with nothing on one side at 1",
    r"[a&&&b]": "&& with nothing on one side at 2",
    r"[b&&[c]&d]": "single & after && at 7",
    r"(?x)a{1, 2}": "white space or # within an element under flag x at 8",
}


@pytest.mark.parametrize(("pattern", "matching", "others"), MEANINGS.values(), ids=list(MEANINGS))
def test_a_pattern_keeps_its_meaning(pattern: str, matching: list[str], others: list[str]) -> None:
    compiled = compile_java(pattern)
    assert [name for name in matching + others if compiled.fullmatch(name)] == matching


@pytest.mark.parametrize(("pattern", "message"), REFUSED_BY_JAVA.items())
def test_invalid_java_patterns_are_rejected(pattern: str, message: str) -> None:
    with pytest.raises(JavaRegexError) as caught:
        compile_java(pattern)
    assert str(caught.value) == message
    assert caught.value.by_java
    assert message.endswith(f" at {caught.value.position}")


@pytest.mark.parametrize(("pattern", "message"), OUT_OF_REACH.items())
def test_unsupported_constructs_are_rejected_by_name(pattern: str, message: str) -> None:
    with pytest.raises(JavaRegexError) as caught:
        compile_java(pattern)
    assert str(caught.value) == f"{message} is not supported; rewrite it"
    assert not caught.value.by_java


def test_a_pattern_too_deep_for_python_is_rejected() -> None:
    with pytest.raises(JavaRegexError, match="too large for Python"):
        compile_java("(" * 2000 + ")" * 2000)


def test_a_list_is_one_pattern() -> None:
    topics = compile_list(["orders", "(?i)payments", "audit"])
    assert topics is not None
    names = ["orders", "ORDERS", "Payments", "AUDIT", "orders|payments"]
    assert [name for name in names if topics.fullmatch(name)] == ["orders", "Payments", "AUDIT"]


def test_an_empty_list_is_no_pattern() -> None:
    assert compile_list([]) is None


def test_mm2s_default_exclusions() -> None:
    excluded = compile_list([r"mm2.*\.internal", r".*\.replica", r"__.*"])
    assert excluded is not None
    assert excluded.fullmatch("mm2-offset-syncs.b.internal")
    assert not excluded.fullmatch("orders")


def test_sets_obey_the_laws_of_sets() -> None:
    rng = random.Random(7)

    def some() -> CharSet:
        return chars(*("".join(sorted(rng.choices("abcdefgh\U0010ffff\0", k=2))) for _ in range(rng.randint(0, 3))))

    for _ in range(300):
        a, b = some(), some()
        assert ~~a == a
        assert ~(a | b) == ~a & ~b
        assert a & (a | b) == a
        one = re.compile(a.emit())
        for char in "abcdefghi\U0010ffff\0":
            assert (ord(char) in a) == bool(one.fullmatch(char))
