"""The rows of the page's tables."""

from tests.status.samples import made_flow
from twinlog.http.page_rows import PARTITION, flow_json, partition_row


def test_a_partition_has_a_value_for_each_column() -> None:
    flow = made_flow(1, 1, lag=3, lost=4)
    (status,) = flow.partitions.values()
    row = dict(zip(PARTITION, partition_row(status, flow), strict=True))
    rates = {name: row.pop(name) for name in ("lag_seconds", "records_per_s", "bytes_per_s")}
    assert row == {
        "partition": 0, "state": "running", "lane": "fast", "task": 0, "executor": "worker-1:4711", "start": 0,
        "position": 1008, "end": 1011, "target": 1008, "lag": 3, "latency_ms": 4.0, "latency_max_ms": 4.0, "records": 8,
        "lost": 4, "error": "", "level": "healthy", "waits": "",
    }  # fmt: skip
    assert all(value == round(value, 1) for value in rates.values()), "noise is not a change"
    assert rates["bytes_per_s"] >= 50


def test_a_flow_has_its_counters() -> None:
    assert flow_json(made_flow(2, 2, lost=4))["counters"] == {
        "records": 32, "bytes": 3200, "rebuilt": 0, "lost": 4, "foreign": 0, "duplicates": 0, "skipped": 0,
        "recoveries": 0, "stalls": 0, "source_throttled_ms": 0, "target_throttled_ms": 0,
    }  # fmt: skip
