"""Fuzzes the targets, guided by the coverage of Twinlog's and kafka-python's code.

The loops that Numba compiles give no coverage, and check no bounds. Here they run as Python, with every index checked.
With --replay what was found before passes through the compiled loops, with Numba's own check of bounds.
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
_PATIENCE = 20  # seconds for one input: nearly all take microseconds
_MEMORY = 1024  # MiB


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="all, if none is named")
    parser.add_argument("--runs", type=int, default=20_000, help="of each target, times its share")
    parser.add_argument("--seconds", type=int, default=0, help="for each target, instead of runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="for what raises coverage, or fails")
    parser.add_argument("--replay", action="store_true", help="the corpus only, through the compiled loops")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.path[:0] = [str(HERE.parents[1] / "src"), str(HERE.parents[1])]
    return _replay(options) if options.replay else _fuzz(options)


def _replay(options: argparse.Namespace) -> int:
    os.environ["NUMBA_BOUNDSCHECK"] = "1"
    with tempfile.TemporaryDirectory() as cache:
        os.environ["NUMBA_CACHE_DIR"] = cache  # what is compiled with checks must not be taken by others
        for target in _targets(options):
            folder = options.keep / target.name
            more = [file.read_bytes() for file in sorted(folder.iterdir())] if folder.is_dir() else []
            inputs = _known(target) + more
            for data in inputs:
                target.run(data)
            _say(f"{target.name}: {len(inputs)} inputs")
    return 0


def _fuzz(options: argparse.Namespace) -> int:
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        _say("no atheris here: it comes for Python 3.11 to 3.13 on Linux (x86-64)")
        return NO_ATHERIS
    with atheris.instrument_imports(include=["twinlog", "kafka.protocol"], enable_loader_override=False):
        targets = _targets(options)
    failed = 0
    for target in targets:
        began = time.monotonic()
        status = _in_child(_fuzzing(atheris, target, options))
        _say(f"{target.name}: {'FAILED' if status else 'fine'} in {time.monotonic() - began:.1f} s")
        failed += status != 0
    return 1 if failed else 0


def _targets(options: argparse.Namespace) -> list["Target"]:
    """Imported only now: they obey what was set before."""
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415

    return [TARGETS[name] for name in options.targets or TARGETS]


def _known(target: "Target") -> list[bytes]:
    """What reaches far into the code: well-behaved inputs, and what long runs have found. One to a line, in base64."""
    file = CORPUS / f"{target.name}.txt"
    return target.seeds() + [base64.b64decode(line) for line in file.read_text().split()]


def _in_child(work: Callable[[], None]) -> int:
    """libFuzzer ends its process when it has done, and to import everything again would take longer than a round."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:  # noqa: BLE001  # nothing may get from the child into what the parent has to do
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
            sys.stderr.write(f"the input is in {failing}\n")
            raise

    def work() -> None:
        with tempfile.TemporaryDirectory() as seeds:
            for number, seed in enumerate(_known(target)):
                (Path(seeds) / f"{number}").write_bytes(seed)
            how_long = f"max_total_time={options.seconds}" if options.seconds else f"runs={_runs(target, options)}"
            limits = {
                "seed": options.seed, "timeout": _PATIENCE, "rss_limit_mb": _MEMORY, "max_len": 4096,
                "print_final_stats": 1, "verbosity": int(bool(options.seconds)), "artifact_prefix": f"{failing}-",
            }  # fmt: skip
            settings = [f"-{name}={value}" for name, value in limits.items()]
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            atheris.Setup(["fuzz", str(keep), seeds, *settings, f"-{how_long}"], run)
            atheris.Fuzz()

    return work


def _runs(target: "Target", options: argparse.Namespace) -> int:
    return int(options.runs * target.share)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
