"""A short, deterministic round of fuzzing: no crash, no hang, limited memory. `make fuzz` runs longer."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.fuzz

RUN = Path(__file__).with_name("run.py")
NAMES = re.findall(r"^@_target\(.*\n(?:def (\w+))", RUN.with_name("targets.py").read_text(), re.MULTILINE)
_RUNS = 1500
_SECONDS = 240  # for all targets on a busy machine; normally about 30


def _run(*options: str, folder: Path) -> tuple[int, str]:
    command = [sys.executable, "-W", "ignore", str(RUN), "--keep", str(folder), *options]
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_SECONDS, check=False
    )
    return done.returncode, done.stdout.decode(errors="replace")


@pytest.fixture(scope="module")
def round_of_fuzzing(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _run("--runs", str(_RUNS), folder=tmp_path_factory.mktemp("fuzz"))[1]


@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason="atheris is not installed: it is available for Python 3.11 to 3.13 on Linux (x86-64) only",
)
@pytest.mark.parametrize("name", NAMES)
def test_no_crash_no_hang(round_of_fuzzing: str, name: str) -> None:
    assert re.search(rf"^{name}: fine", round_of_fuzzing, re.MULTILINE), round_of_fuzzing[-10_000:]


def test_the_compiled_code_stays_within_bounds(tmp_path: Path) -> None:
    """Runs the known inputs through the code compiled by Numba, with bounds checks."""
    status, output = _run("--replay", "conversion", "conversion_with_codec", "topic_records", folder=tmp_path)
    assert status == 0, output[-10_000:]
    assert re.search(r"^conversion: \d\d+ inputs", output, re.MULTILINE)


def test_every_target_is_fuzzed() -> None:
    assert len(NAMES) >= 16
    assert {file.stem for file in RUN.with_name("corpus").glob("*.txt")} == set(NAMES)
