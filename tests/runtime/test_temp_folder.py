"""The temporary folder for Spark, in a folder that other users can write to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# In a subprocess with a timeout.
MAKE = "from twinlog.runtime.temp_folder import temp_folder\nwith temp_folder() as folder:\n    print(folder)\n"


def start(temporary: Path) -> Path:
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(
        [sys.executable, "-c", MAKE], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return Path(done.stdout.strip())


def test_the_folder_of_a_killed_run_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "twinlog-run-left"
    left.mkdir(mode=0o700)
    (left / "owned").touch()
    made = start(tmp_path)
    assert made.parent == tmp_path
    assert not list(tmp_path.iterdir())


def test_a_fifo_does_not_hang_a_start(tmp_path: Path) -> None:
    for name in ("twinlog-run-a", "twinlog-run-b"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "twinlog-run-a" / "owned")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "twinlog-run-b" / "owned").symlink_to(tmp_path / "pipe")
    start(tmp_path)
    assert (tmp_path / "twinlog-run-a").is_dir(), "not one of ours"
    assert (tmp_path / "twinlog-run-b").is_dir()


def test_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "owned").touch()
    (tmp_path / "twinlog-run-link").symlink_to(elsewhere)
    start(tmp_path)
    assert (elsewhere / "owned").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to make a file of another user")
def test_another_users_folder_is_left_alone(tmp_path: Path) -> None:
    others = tmp_path / "twinlog-run-others"
    others.mkdir()
    (others / "owned").touch()
    os.chown(others / "owned", 54_321, 54_321)
    os.chown(others, 54_321, 54_321)
    start(tmp_path)
    assert (others / "owned").exists()
