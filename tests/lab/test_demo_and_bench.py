"""The demo and the bench, as `make` runs them, only shorter."""

import json
from pathlib import Path

import pytest

from twinlog.lab import bench, demo

pytestmark = pytest.mark.broker


def test_the_demo_proves_that_both_logs_are_equal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(demo, "SECONDS", 3)
    monkeypatch.setattr(demo, "FILE", tmp_path / "demo" / "mm2.properties")
    assert demo.main() == 0
    said = capsys.readouterr().out
    assert "us->eu: topics access-logs" in said
    assert "eu->us: heartbeats only" in said
    records = int(said.splitlines()[-1].split()[0].replace(",", ""))
    assert records > 100
    assert said.endswith(" records: equal in key, value, headers, timestamp and order\n")


def test_the_bench_measures_and_writes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(bench, "LOADS", (bench.Load("1 KB", 1024),))
    monkeypatch.setattr(bench, "CONTENDERS", {"MM2 tuned": bench.TUNED})
    bench.bench(megabytes=20, out=tmp_path / "bench.json")
    (outcome,) = json.loads((tmp_path / "bench.json").read_text())["outcomes"]
    assert outcome["records"] == 20_000_000 // 1024
    assert outcome["records_per_second"] > 0
    table = capsys.readouterr().out.splitlines()
    assert table[2].startswith("1 KB     MM2 tuned")
    assert len(table[0]) == len(table[1])
