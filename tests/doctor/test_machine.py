"""What a flow needs of the machine that it runs on."""

import tempfile
from pathlib import Path

import pytest

from twinlog.doctor import machine
from twinlog.doctor.machine import Machine

GOOD = {"scratch": "/tmp", "free": 5 << 30, "cache": "/home/me/.cache"}


def told(**seen: object) -> list[tuple[str, str, str]]:
    findings = list(machine.findings(Machine(**{**GOOD, **seen})))  # type: ignore[arg-type]
    assert all(each.advice for each in findings)
    return [(each.status, each.where, each.found) for each in findings]


def test_a_machine_that_has_all() -> None:
    assert told() == told(wanted="/tmp") == []


def test_no_java() -> None:
    missing = "no Java found: install a JDK 17 or newer"
    assert told(no_java=missing) == [("error", "Java", "no Java found")]


def test_nowhere_to_write() -> None:
    assert [each[:2] for each in told(scratch="")] == [("error", "TMPDIR")]


def test_a_folder_that_was_asked_for_and_cannot_be_used() -> None:
    (first,) = told(wanted="/opt/kafka/logs")
    assert first == ("warning", "TMPDIR", "/opt/kafka/logs cannot be written to: /tmp is used instead")


def test_little_space_and_no_cache() -> None:
    assert [each[:2] for each in told(free=100 << 20, cache_open=False)] == [
        ("warning", "TMPDIR"),
        ("note", "TWINLOG_CACHE"),
    ]


def test_this_very_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)  # it is found once, and then kept
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("TWINLOG_CACHE", str(tmp_path / "not" / "yet"))
    seen = machine.looked_at()
    assert (seen.scratch, seen.cache_open) == (str(tmp_path.resolve()), True)
    assert list(machine.findings(seen)) == []
    assert list(tmp_path.iterdir()) == []  # nothing stays

    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(file / "below"))
    monkeypatch.setenv("TWINLOG_CACHE", str(file / "below"))
    seen = machine.looked_at()
    assert (seen.wanted, seen.cache_open) == (str(file.resolve() / "below"), False)
    assert ("warning", "TMPDIR") in [(each.status, each.where) for each in machine.findings(seen)]


def test_no_folder_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    assert machine.looked_at().scratch == ""
