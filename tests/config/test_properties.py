"""The grammar of .properties files is Java's."""

import random
from pathlib import Path

import pytest

from lab.kafka_classes import KafkaJvm
from twinlog.config.problems import Problems
from twinlog.config.properties import properties_text, read_properties


def texts(path: Path) -> dict[str, str]:
    return {
        key: value.text
        for key, value in read_properties(path.read_bytes().decode("latin-1"), path.name, Problems()).items()
    }


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a->b.enabled = true", "a->b.enabled", "true"),
        ("a:b", "a", "b"),
        ("a b c", "a", "b c"),
        ("a = b  ", "a", "b  "),  # trailing blanks stay
        ("a = b # no comment", "a", "b # no comment"),
        (r"topics = a\\.b", "topics", r"a\.b"),
        (r"topics = a\.b", "topics", "a.b"),
        ("topics = a,\\\n    b", "topics", "a,b"),
        (r"my\ cluster.x = 1", "my cluster.x", "1"),
        (r"a = \u00e9", "a", "é"),
        ("a", "a", ""),
        ("a = 1\na = 2", "a", "2"),
    ],
)
def test_a_line_is_read_as_java_reads_it(tmp_path: Path, text: str, key: str, value: str) -> None:
    path = tmp_path / "x.properties"
    path.write_text(text)
    assert texts(path) == {key: value}


def test_every_value_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.properties"
    path.write_text("# one\n\na = 1\nb = \\\n   2\n! five\r\nc = 3\r\nd=4")
    lines = {
        key: value.origin.line
        for key, value in read_properties(path.read_bytes().decode("latin-1"), path.name, Problems()).items()
    }
    assert lines == {"a": 3, "b": 4, "c": 7, "d": 8}


def test_a_duplicate_key_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "x.properties"
    path.write_text("a = 1\nb = 2\na = 3\n")
    problems = Problems()
    read_properties(path.read_bytes().decode("latin-1"), path.name, problems)
    assert [str(p) for p in problems.found] == [
        "x.properties:3: warning: a is set twice: this line overrides line 1; remove one"
    ]


AWKWARD = {
    "a b": " x ", "c=d": "#y", "e:f": "a\\b", "g": "l1\nl2\r\t\f", "#h": "é€😀", "A->B.x": "p,\\\\.q", "": "empty", "!": "",
}  # fmt: skip


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "x.properties"
    path.write_text(properties_text(AWKWARD))
    assert texts(path) == AWKWARD


@pytest.mark.java
def test_what_is_written_is_what_java_reads(kafka_jvm: KafkaJvm) -> None:
    assert kafka_jvm.properties(properties_text(AWKWARD).encode("latin-1")) == AWKWARD


@pytest.mark.java
def test_any_bytes_are_read_as_java_reads_them(kafka_jvm: KafkaJvm, tmp_path: Path) -> None:
    path = tmp_path / "x.properties"
    rng = random.Random(7)
    pieces = ["a", "b.c", "A->B", "=", ":", " ", "\t", "\f", "\\", "\n", "\r", "\r\n", "#", "!", "\\u0041", "\\n", "\\\n", "é",
              "\\t", "\x85", "\x1c", "\\u00", "${x}", '"', "\\\r\n", "\x0b", "\xa0"]  # fmt: skip
    for number in range(1500):
        content = "".join(rng.choices(pieces, k=rng.randint(1, 14))).encode("latin-1")
        path.write_bytes(content)
        try:
            theirs: dict[str, str] | str = {key: value for key, value in kafka_jvm.properties(content).items() if key}
        except Exception:  # noqa: BLE001  (malformed \\uxxxx: Java refuses the whole file)
            theirs = "refused"
        problems = Problems()
        # Of a backslash at the file's very end Java makes an empty key, which means nothing to anyone.
        read = {
            key: value.text
            for key, value in read_properties(path.read_bytes().decode("latin-1"), path.name, problems).items()
            if key
        }
        assert ("refused" if problems.errors else read) == theirs, f"case {number}: {content!r}"
