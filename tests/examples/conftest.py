"""Fixtures for the examples: their modules, and run.py in its own process."""

import importlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = 900.0  # for a busy machine

RunExample = Callable[..., str]


@pytest.fixture
def module() -> Iterator[Callable[[str, str], ModuleType]]:
    """Imports a module of an example by folder and name; it can import the other modules of its folder."""
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
def run_example(tmp_path: Path) -> RunExample:
    """Runs an example, which must exit with code 0, and returns its output."""

    def run(example: str, *arguments: str) -> str:
        command = [sys.executable, str(EXAMPLES / example / "run.py"), "--folder", str(tmp_path), *arguments]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        ) as process:
            try:
                output, _ = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)  # it cleans up
                output, _ = process.communicate(timeout=60)
                pytest.fail(f"examples/{example} is still running after {SECONDS:.0f} s; output:\n{output}")
            except BaseException:
                process.kill()  # its cleanup process removes the clusters
                raise
        assert process.returncode == 0, output
        return output

    return run
