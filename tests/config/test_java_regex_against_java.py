"""Random patterns and names are compared with `java.util.regex`: same result, or the pattern is rejected.

Two ways to write a pattern: by a grammar (mostly valid, nested) and as a soup of tokens (mostly not). Patterns and
names are tiny, so that no pair of them can run for long in either engine.
"""

import random
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from lab.kafka_classes import KafkaJvm
from twinlog.config.java_regex import JavaRegexError, compile_java

pytestmark = pytest.mark.java

PATTERNS = 3_000
NAMES = 8

# Whatever else Java accepts, we must accept.
ONLY_JAVA = re.compile(
    r"flag [muUc] .*|property .*|character name .*|\\G|\\X|\\b\{g\}|\\R in a repeated group"
    r"|look-behind of variable length|look-behind at characters beyond U\+FFFF|half of a surrogate pair"
    r"|reference to a group in a repetition, an atomic group or a look-around"
    r"|repetition, twice or more, of a group that can match nothing"
    r"|repetition of a group that can match nothing in an atomic or possessive one"
    r"|&& with nothing on one side|single & after &&|white space or # within an element under flag x"
)

PLAIN = [*"aaaaaabbbbbbcA1_-.^&,:]}", "é", "É", "\U0001f600", " ", "#", "\n", "\r", "\x85", "\u2028"]
CLASS_ESCAPES = [*(rf"\{c}" for c in "dDhHsSvVwW"), r"\p{Alpha}", r"\p{Punct}", r"\P{Lower}", r"\p{Upper}", r"\pL"]
CLASS_ESCAPES += [r"\p{Lu}", r"\p{IsLl}", r"\PN", r"\p{gc=Nd}", r"\p{Cntrl}", r"\p{javaLowerCase}", r"\p{IsGreek}"]
CHAR_ESCAPES = [r"\t", r"\n", r"\r", r"\f", r"\a", r"\e", r"\cA", r"\ca", r"\07", r"\0141", r"\x61", r"\x{62}"]
CHAR_ESCAPES += [r"\u0061", r"\ud83d\ude00", r"\N{LATIN SMALL LETTER A}", r"\.", r"\-", r"\\", r"\[", r"\&", r"\#"]
CHAR_ESCAPES += [r"\ ", r"\Qa\E", r"\Q.]\E", r"\Q1\E", r"\x4", r"\u00", r"\08", r"\ud83d", r"\y", r"\é"]
ANCHORS = ["^", "$", r"\A", r"\z", r"\Z", r"\b", r"\B", r"\G", r"\b{g}"]
QUANTIFIERS = ["?", "*", "+", "{2}", "{1,}", "{0,2}", "{1,2}", "{0}", "{,2}", "{2,1}", "{", "{1 }", "{99999999999}"]
FLAGS = [
    "i",
    "s",
    "d",
    "x",
    "-i",
    "i-s",
    "x-i",
    "-x",
    "-d",
    "is",
    "xd",
    "",
    "m",
    "u",
    "U",
    "-m",
    "i-i",
    "c",
    "-s-i",
    "z",
]
OPENINGS = ["(", "(", "(?:", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?<n>", "(?<m>", "(?i:", "(?x:", "(?-i:"]
TOKENS = [*PLAIN, *CLASS_ESCAPES, *CHAR_ESCAPES, *ANCHORS, *QUANTIFIERS, *OPENINGS, ")", ")", ")", ")", "[", "[", "[^"]
TOKENS += ["]", "]", "]", "&&", "&&", "-", "|", "|", ".", r"\1", r"\2", r"\11", r"\k<n>", r"\k<", r"\Q", r"\E", r"\R"]
TOKENS += [
    r"\X",
    "(?i)",
    "(?x)",
    "(?x)",
    "(?d)",
    "(?s)",
    "(?",
    "(?<",
    r"\p{",
    r"\p",
    r"\x{",
    r"\N{",
    "\\",
    "?",
    "+",
    "a",
]


class Grammar:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def pattern(self) -> str:
        if self._rng.random() < 0.25:
            return "".join(self._rng.choices(TOKENS, k=self._rng.randint(1, 7)))
        return self._alternation(3)

    def names(self, pattern: str) -> list[str]:
        """Made of what the pattern is made of, so that a good part of them match."""
        stock = [c for c in pattern if c not in "()[]{}|*+?\\"] + list("aabbAB")
        return ["".join(self._rng.choices(self._stock(stock), k=self._rng.randint(0, 5))) for _ in range(NAMES)]

    def _stock(self, stock: list[str]) -> list[str]:
        kind = self._rng.random()
        return (
            ["a", "b"]
            if kind < 0.4
            else stock
            if kind < 0.7
            else [*stock, *PLAIN]
            if kind < 0.85
            else ["\r", "\n", "a"]
        )

    def _alternation(self, depth: int) -> str:
        return "|".join(self._sequence(depth) for _ in range(self._rng.choices((1, 2, 3), (6, 3, 1))[0]))

    def _sequence(self, depth: int) -> str:
        return "".join(self._repeated(depth) for _ in range(self._rng.choices((0, 1, 2, 3), (1, 5, 4, 2))[0]))

    def _repeated(self, depth: int) -> str:
        element = self._element(depth)
        if self._rng.random() < 0.35:
            weights = [6] * 8 + [1] * (len(QUANTIFIERS) - 8) if self._rng.random() < 0.2 else [1] * 8 + [0] * 5
            element += self._rng.choices(QUANTIFIERS, weights)[0] + self._rng.choices(("", "?", "+"), (5, 1, 2))[0]
        return element

    def _element(self, depth: int) -> str:
        rng, kind = self._rng, self._rng.random()
        if depth and kind < 0.30:
            return rng.choice(OPENINGS) + self._alternation(depth - 1) + ")"
        if kind < 0.40:
            return self._class(2)
        if kind < 0.44:
            return f"(?{rng.choice(FLAGS[:12] if rng.random() < 0.9 else FLAGS)})"
        if kind < 0.49:
            return rng.choice([r"\1", r"\1", r"\2", r"\k<n>", r"\11", r"\3"])
        if kind < 0.54:
            return rng.choice(ANCHORS[:7] if rng.random() < 0.95 else ANCHORS)
        if kind < 0.60:
            return rng.choice([".", ".", r"\R", rng.choice(CLASS_ESCAPES)])
        if kind < 0.66:
            return rng.choice(CHAR_ESCAPES)
        return rng.choice("ab") if kind < 0.93 else rng.choice(PLAIN)

    def _class(self, depth: int) -> str:
        members = [self._member(depth) for _ in range(self._rng.choices((1, 2, 3), (4, 4, 2))[0])]
        if self._rng.random() < 0.3:
            members.insert(self._rng.choices((1, 0, len(members)), (8, 1, 1))[0], "&&")
        return self._rng.choice(("[", "[", "[^")) + "".join(members) + "]"

    def _member(self, depth: int) -> str:
        rng, kind = self._rng, self._rng.random()
        if depth and kind < 0.2:
            return self._class(depth - 1)
        if kind < 0.45:
            return rng.choice(("a-b", "A-z", "a-c", "!-&", "b-", "-", r"\v-a", "b-a", r"a-\d", r"\x61-é", "Z-a", " -~"))
        if kind < 0.6:
            return rng.choice(CLASS_ESCAPES)
        return rng.choice(CHAR_ESCAPES) if kind < 0.7 else rng.choice(PLAIN)


def difference(pattern: str, names: Sequence[str], java: Sequence[bool] | None) -> str | None:
    """What is wrong with our reading of `pattern`, given Java's verdicts (None: refused); None when all is well."""
    try:
        ours = compile_java(pattern)
    except JavaRegexError as error:
        if java is not None and (error.by_java or not ONLY_JAVA.fullmatch(error.construct)):
            return f"Java accepts it, we say: {error}"
        return None
    if java is None:
        return f"Java refuses it, we made {ours.pattern!r} of it"
    for name, verdict in zip(names, java, strict=True):
        if bool(ours.fullmatch(name)) != verdict:
            return f"on {name!r} Java's result is {verdict}; ours is {ours.pattern!r}"
    return None


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with KafkaJvm() as kafka:
        yield kafka.jvm


def verdicts(jvm: Any, pattern: str, names: Sequence[str]) -> list[bool] | None:
    """None where Java refuses: when it compiles, or (a bug of JDK 17 with `[[a]b&&]`) as late as when it matches."""
    try:
        matcher = jvm.java.util.regex.Pattern.compile(pattern).asMatchPredicate()
        return [bool(matcher.test(name)) for name in names]
    except Py4JJavaError:
        return None


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_patterns_mean_what_they_mean_in_java(jvm: Any, seed: int) -> None:
    grammar = Grammar(random.Random(seed))
    ascii_boundaries = int(jvm.java.lang.Runtime.version().feature()) >= 19  # see \b in javaregex.py
    accepted = matched = 0
    for number in range(PATTERNS // 3):
        pattern = grammar.pattern()
        names = grammar.names(pattern)
        if not ascii_boundaries and re.search(r"\\[bB]", pattern):
            names = [name for name in names if name.isascii()]
        java = verdicts(jvm, pattern, names)
        accepted += java is not None
        matched += any(java or [])
        problem = difference(pattern, names, java)
        assert not problem, f"seed {seed}, pattern {number} is {pattern!r}: {problem}"
    assert accepted > PATTERNS // 9, "the generator writes too few valid patterns to be worth its time"
    assert matched > PATTERNS // 18, "the generator writes too few names that match"


@pytest.mark.parametrize("flags", ["", "(?i)"])
@pytest.mark.parametrize("name", ["Alnum", "Punct", "Graph", "Lower", "Space", "L", "Lu", "IsNd", "gc=Sc", "LC", "L1"])
def test_a_property_holds_the_same_characters(jvm: Any, name: str, flags: str) -> None:
    """Up to U+05FF: no Unicode version moves anything there, so the ages of Python's and Java's tables do not matter."""
    pattern = f"{flags}\\p{{{name}}}"
    characters = [chr(code) for code in range(1, 0x600) if unicodedata.category(chr(code)) != "Cn"]
    ours = compile_java(pattern)
    # One call for all: Java removes what matches, and leaves the rest.
    left = jvm.java.util.regex.Pattern.compile(pattern).matcher("".join(characters)).replaceAll("")
    assert left == "".join(char for char in characters if not ours.fullmatch(char))


def test_a_character_by_name_is_the_same(jvm: Any) -> None:
    for name in ("LATIN SMALL LETTER A", "latin small letter e with acute", " HYPHEN-MINUS ", "GRINNING FACE"):
        (char,) = (chr(code) for code in [jvm.java.lang.Character.codePointOf(name)])
        assert compile_java(f"\\N{{{name}}}").fullmatch(char)
