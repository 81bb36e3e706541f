"""Fuzzes the targets, guided by the coverage of Twinlog's and kafka-python's code.

Code compiled by Numba has no coverage and no bounds checks, so here it runs as Python, with all indexes checked.
--replay runs the known inputs through the compiled code, with Numba's bounds checks.
"""

import argparse
import base64
import importlib
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
NO_ATHERIS = 3  # exit code
_INPUT_SECONDS = 20  # nearly all inputs take microseconds
_MEMORY_MIB = 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="targets to fuzz (default: all)")
    parser.add_argument("--runs", type=int, default=20_000, help="runs per target, multiplied by its share")
    parser.add_argument("--seconds", type=int, default=0, help="time per target, instead of runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="folder for new inputs and failures")
    parser.add_argument("--replay", action="store_true", help="only run known inputs, through the compiled code")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.path[:0] = [str(HERE.parents[1] / "src"), str(HERE.parents[1])]
    return _replay(options) if options.replay else _fuzz(options)


def _replay(options: argparse.Namespace) -> int:
    os.environ["NUMBA_BOUNDSCHECK"] = "1"
    with tempfile.TemporaryDirectory() as cache:
        os.environ["NUMBA_CACHE_DIR"] = cache  # code compiled with checks must not be used elsewhere
        for target in _targets(options):
            folder = options.keep / target.name
            more = [file.read_bytes() for file in sorted(folder.iterdir())] if folder.is_dir() else []
            inputs = _known(target) + more
            for data in inputs:
                target.run(data)
            _print(f"{target.name}: {len(inputs)} inputs")
    return 0


def _fuzz(options: argparse.Namespace) -> int:
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        _print("atheris is not installed: it is available for Python 3.11 to 3.13 on Linux (x86-64)")
        return NO_ATHERIS
    with atheris.instrument_imports(include=["twinlog", "kafka.protocol"], enable_loader_override=False):
        targets = _targets(options)
    failed = 0
    for target in targets:
        began = time.monotonic()
        status = _in_child(_fuzzing(atheris, target, options))
        _print(f"{target.name}: {'FAILED' if status else 'fine'} in {time.monotonic() - began:.1f} s")
        failed += status != 0
    return 1 if failed else 0


def _targets(options: argparse.Namespace) -> list["Target"]:
    """Imported late: the environment variables set before affect the import."""
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415

    return [TARGETS[name] for name in options.targets or TARGETS]


def _known(target: "Target") -> list[bytes]:
    """Valid inputs, and the corpus: inputs found by long runs, one per line in base64."""
    file = CORPUS / f"{target.name}.txt"
    return target.seeds() + [base64.b64decode(line) for line in file.read_text().split()]


def _in_child(work: Callable[[], None]) -> int:
    """libFuzzer exits the process when it is done, and importing everything again takes longer than a round."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:  # noqa: BLE001  # the child must not continue with the parent's code
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(4)
    return os.waitpid(child, 0)[1]


def _fuzzing(atheris: Any, target: "Target", options: argparse.Namespace) -> Callable[[], None]:
    keep = options.keep / target.name
    keep.mkdir(parents=True, exist_ok=True)
    failing = options.keep / f"{target.name}-failing"

    def run(data: bytes) -> None:
        try:
            target.run(data)
        except BaseException:
            failing.write_bytes(data)
            sys.stderr.write(f"failing input: {failing}\n")
            raise

    def work() -> None:
        with tempfile.TemporaryDirectory() as seeds:
            for number, seed in enumerate(_known(target)):
                (Path(seeds) / f"{number}").write_bytes(seed)
            duration = f"max_total_time={options.seconds}" if options.seconds else f"runs={_runs(target, options)}"
            limits = {
                "seed": options.seed, "timeout": _INPUT_SECONDS, "rss_limit_mb": _MEMORY_MIB, "max_len": 4096,
                "print_final_stats": 1, "verbosity": int(bool(options.seconds)), "artifact_prefix": f"{failing}-",
            }  # fmt: skip
            settings = [f"-{name}={value}" for name, value in limits.items()]
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            atheris.Setup(["fuzz", str(keep), seeds, *settings, f"-{duration}"], run)
            atheris.Fuzz()

    return work


def _runs(target: "Target", options: argparse.Namespace) -> int:
    return int(options.runs * target.share)


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
