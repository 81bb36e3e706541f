"""How test files are spread over the processes of pytest-xdist.

Tests with Spark use the processor, those with brokers mostly wait: at any time some of both should run. The longest
files start first, the many short ones fill the gaps at the end.
"""

from itertools import accumulate
from operator import itemgetter

import pytest
from xdist.scheduler import LoadFileScheduling

# Seconds that the longest files take, roughly: see pytest --durations. For others see `_DEFAULTS`.
_SECONDS = {
    "connect/test_rest_against_connect.py": 90, "runtime/test_exactness.py": 80, "connect/test_serve.py": 75,
    "runtime/test_run.py": 70, "runtime/test_takeover.py": 65, "runtime/test_once_denied.py": 40,
    "cli/test_status.py": 40, "cli/test_plan.py": 40, "monitoring/test_live.py": 40,
    "versions/test_versions.py": 300, "replicate/test_faults.py": 110, "replicate/test_source_changes.py": 85, "replicate/test_secured_clusters.py": 70,
    "replicate/test_recovery.py": 45, "replicate/test_equality.py": 45, "replicate/test_misbehaving_target.py": 45,
    "cli/test_doctor.py": 40, "replicate/test_truncation_and_loss.py": 40, "replicate/test_producer_state.py": 35,
    "replicate/test_reported_status.py": 30, "failover/test_offsets_command.py": 30, "soak/test_soak.py": 300,
}  # fmt: skip
_DEFAULTS = {"spark": 25, "broker": 10, "": 1}
# These share a `twinlog serve` and a Connect worker.
_TOGETHER = {
    f"tests/connect/{name}.py": "tests/connect/test_rest_against_connect.py"
    for name in ("test_file_access", "test_inline_secrets", "test_plugin_classes")
}


class Scheduler(LoadFileScheduling):
    """One unit of work per file, or per group of files."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return _TOGETHER.get(file, file)


def order(items: list[pytest.Item]) -> None:
    """Sorts files; the tests of a file keep their order."""
    by_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_file.setdefault(item.nodeid.partition("::")[0], []).append(item)
    kinds: dict[str, list[tuple[float, str]]] = {"spark": [], "broker": [], "": []}
    for file, tests in by_file.items():
        kind = _kind(tests)
        kinds[kind].append((_SECONDS.get(file.removeprefix("tests/"), _DEFAULTS[kind]), file))
    # Spark and brokers are interleaved, so that of both kinds the same share of the work is done at any time.
    mixed = sorted([*_progress(kinds["spark"]), *_progress(kinds["broker"])], key=itemgetter(0))
    files = [file for _, file in [*mixed, *_progress(kinds[""])]]
    items[:] = [item for file in files for item in by_file[file]]


def _kind(tests: list[pytest.Item]) -> str:
    marks = {mark.name for test in tests for mark in test.iter_markers()}
    if "spark" in marks:
        return "spark"
    return "broker" if marks & {"broker", "java", "tools", "fuzz"} else ""


def _progress(files: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Longest first, each with the share of the work that is done before it."""
    files = sorted(files, key=lambda each: (-each[0], each[1]))
    done = [0.0, *accumulate(seconds for seconds, _ in files)]
    return [(before / done[-1], file) for before, (_, file) in zip(done, files, strict=False)]
