"""Caches hold code: what another user could have put there is not loaded."""

import os
import pickle
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from twinlog import cache
from twinlog.java import Java
from twinlog.kafka import native
from twinlog.spark import session, spark_home

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
STRANGER = 54321


class Planted:
    def __init__(self, mark: str) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self._mark,)


def imported(environment: dict[str, str]) -> list[str]:
    """The folder in which a new process caches compiled code, and the folder's mode."""
    program = "import os, twinlog.kafka.native; f = os.environ['NUMBA_CACHE_DIR']; print(f, oct(os.lstat(f).st_mode))"
    rest = {key: text for key, text in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    done = subprocess.run([sys.executable, "-c", program], env={**rest, **environment}, capture_output=True, check=True)
    return done.stdout.decode().split()


@pytest.fixture
def planted(tmp_path: Path) -> tuple[Path, Path]:
    """A folder with Numba's indexes, each of which creates `mark` when it is loaded."""
    folder, mark = tmp_path / "cache" / "native", tmp_path / "mark"
    assert native.COLUMNS
    shutil.copytree(os.environ["NUMBA_CACHE_DIR"], folder)
    indexes = list(folder.rglob("*.nbi"))
    assert indexes
    for index in indexes:
        index.write_bytes(pickle.dumps(Planted(str(mark))))
    return folder, mark


@pytest.mark.heavy
def test_planted_code_in_a_folder_writable_by_others_does_not_run(planted: tuple[Path, Path]) -> None:
    folder, mark = planted
    folder.chmod(0o777)
    used, mode = imported({"TWINLOG_CACHE": str(folder.parent)})
    assert not mark.exists()
    assert Path(used) != folder
    assert mode == oct(stat.S_IFDIR | 0o700)
    assert not Path(used).exists()  # it went with the process


@as_root
@pytest.mark.heavy
def test_planted_code_in_a_folder_of_another_user_does_not_run(planted: tuple[Path, Path]) -> None:
    folder, mark = planted
    os.chown(folder, STRANGER, STRANGER)
    used, _ = imported({"NUMBA_CACHE_DIR": str(folder)})
    assert not mark.exists()
    assert Path(used) != folder


@pytest.mark.heavy
def test_without_a_cache_folder_nothing_predictable_is_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    used, mode = imported({"TWINLOG_CACHE": str(tmp_path / "file" / "x"), "TMPDIR": str(temporary)})
    assert Path(used).parent == temporary
    assert mode == oct(stat.S_IFDIR | 0o700)
    assert not list(temporary.iterdir())


def test_compiled_code_of_a_read_only_image_is_copied(tmp_path: Path) -> None:
    shutil.copytree(os.environ["NUMBA_CACHE_DIR"], tmp_path / "native")
    made = cache.private_copy(tmp_path / "native")
    assert {file.name for file in made.rglob("*.nbi")} == {file.name for file in tmp_path.rglob("*.nbi")} != set()
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_who_can_change_a_folder(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    cache.make_private(inner)
    assert stat.S_IMODE(inner.stat().st_mode) == stat.S_IMODE(inner.parent.stat().st_mode) == 0o700
    assert not cache.changeable_by_others(inner)
    inner.parent.chmod(0o1777)  # like /tmp: other users cannot rename what is in it
    assert not cache.changeable_by_others(inner)
    inner.parent.chmod(0o757)
    assert str(inner.parent) in cache.changeable_by_others(inner)
    inner.parent.chmod(0o755)
    inner.chmod(0o1777)
    assert str(inner) in cache.changeable_by_others(inner)
    assert cache.changeable_by_others(tmp_path / "missing")


@as_root
def test_links_and_files_of_other_users(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    link = tmp_path / "link"
    link.symlink_to(inner)
    assert not cache.changeable_by_others(link)
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    assert "link" in cache.changeable_by_others(link)
    (inner / "file").touch()
    assert not cache.tree_changeable_by_others(inner)
    os.chown(inner / "file", STRANGER, STRANGER)
    assert "file" in cache.tree_changeable_by_others(inner)


def test_only_folders_of_dead_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    (tmp_path / f"twinlog-cache-{int(dead.stdout)}-x").mkdir()
    (tmp_path / f"twinlog-cache-{os.getpid()}-x").mkdir()
    (tmp_path / "twinlog-cache-x").mkdir()
    made = cache.private_copy(tmp_path / "none")
    assert {each.name for each in tmp_path.iterdir()} == {
        made.name, f"twinlog-cache-{os.getpid()}-x", "twinlog-cache-x",
    }  # fmt: skip


def test_a_spark_home_writable_by_others_is_not_used(tmp_path: Path) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    home = spark_home.overlay(shared, own)
    assert home.parent == shared
    (home / "python" / "lib").chmod(0o777)
    assert spark_home.overlay(shared, own).parent == own


def test_a_class_archive_writable_by_others_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "java.jsa"
    archive.touch()

    def place(_home: Path, _java: Java) -> Path:
        return archive

    monkeypatch.setattr(spark_home, "archive", place)
    assert session._archive(tmp_path) == [f"-XX:SharedArchiveFile={archive}"]
    archive.chmod(0o666)
    assert session._archive(tmp_path) == []
