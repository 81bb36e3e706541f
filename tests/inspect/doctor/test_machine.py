"""Checks of the machine."""

import tempfile
from pathlib import Path

import pytest

from twinlog.inspect.doctor import machine
from twinlog.inspect.doctor.machine import Machine

GOOD = {"scratch": "/tmp", "free": 5 << 30, "cache": "/home/me/.cache"}


def found(**seen: object) -> list[tuple[str, str, str]]:
    findings = list(machine.findings(Machine(**{**GOOD, **seen})))  # type: ignore[arg-type]
    assert all(each.advice for each in findings)
    return [(each.status, each.where, each.found) for each in findings]


def test_a_machine_without_problems() -> None:
    assert found() == found(wanted="/tmp") == []


def test_no_java() -> None:
    seen = found(no_java="Java not found", java_advice="install JDK 17 or newer")
    assert seen == [("error", "Java", "Java not found")]


def test_nowhere_to_write() -> None:
    assert [each[:2] for each in found(scratch="")] == [("error", "TMPDIR")]


def test_a_tmpdir_that_is_not_writable() -> None:
    (first,) = found(wanted="/opt/kafka/logs")
    assert first == ("warning", "TMPDIR", "/opt/kafka/logs is not writable: using /tmp")


def test_little_space_and_no_cache() -> None:
    assert [each[:2] for each in found(free=100 << 20, cache_writable=False)] == [
        ("warning", "TMPDIR"),
        ("note", "TWINLOG_CACHE"),
    ]


def test_this_very_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)  # it is cached
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("TWINLOG_CACHE", str(tmp_path / "not" / "yet"))
    seen = machine.inspect()
    assert (seen.scratch, seen.cache_writable) == (str(tmp_path.resolve()), True)
    assert list(machine.findings(seen)) == []
    assert list(tmp_path.iterdir()) == []  # nothing stays

    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(file / "below"))
    monkeypatch.setenv("TWINLOG_CACHE", str(file / "below"))
    seen = machine.inspect()
    assert (seen.wanted, seen.cache_writable) == (str(file.resolve() / "below"), False)
    assert ("warning", "TMPDIR") in [(each.status, each.where) for each in machine.findings(seen)]


def test_no_folder_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    assert machine.inspect().scratch == ""
