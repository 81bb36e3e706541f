"""The examples as a new user meets them: their own modules, and run.py in a process of its own."""

import importlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = 900.0  # for a machine that does much else

Play = Callable[..., str]


@pytest.fixture
def module() -> Iterator[Callable[[str, str], ModuleType]]:
    """A module of an example, by its folder and its name; it finds those beside it, as it does when it is run."""
    before = set(sys.modules)

    def load(example: str, name: str) -> ModuleType:
        folder = str(EXAMPLES / example)
        sys.path.insert(0, folder)
        try:
            return importlib.import_module(name)
        finally:
            sys.path.remove(folder)

    yield load
    for name in set(sys.modules) - before:  # two examples may have modules of the same name
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(EXAMPLES)):
            del sys.modules[name]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Runs an example to its end, which must be exit code 0; what it said."""

    def run(example: str, *arguments: str) -> str:
        command = [sys.executable, str(EXAMPLES / example / "run.py"), "--folder", str(tmp_path), *arguments]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        ) as process:
            try:
                said, _ = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)  # it cleans up
                said, _ = process.communicate(timeout=60)
                pytest.fail(f"examples/{example} still runs after {SECONDS:.0f} s; it said:\n{said}")
            except BaseException:
                process.kill()  # its guardian cleans up
                raise
        assert process.returncode == 0, said
        return said

    return run
