"""Twenty faults, as `make soak` injects them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def test_twenty_faults_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    options = ["--faults", "20", "--minutes", "60", "--longest", "4", "--seed", "20", "--logs", str(tmp_path)]
    # A process of its own: it has a mount namespace of its own, too.
    done = subprocess.run(
        [sys.executable, "-m", "soak", *options, "--report", str(tmp_path / "report")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["findings"] == []
    assert sum(report["by_kind"].values()) >= 17, report["injected"]
    topics = {topic["topic"]: topic for topic in report["topics"]}
    assert {"soak-none", "soak-zstd", "soak-compacted", "soak-transactions"} < topics.keys()
    for name, topic in topics.items():
        assert topic["equal"] > 0, name
        if name != "soak-compacted":
            assert topic["acknowledged"] <= topic["found"] == topic["equal"], name
    assert "No findings" in (tmp_path / "report.md").read_text()
