"""Load of partitions, from reports."""

from typing import Any

import pytest

from twinlog.journal.messages import Report
from twinlog.model import TopicPartition
from twinlog.spark.partition_loads import Loads

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 1)


def report(second: float, epoch: int = 1, **copied: int) -> Report:
    """`copied`: bytes since the epoch began."""
    tps = {"orders": ORDERS, "clicks": CLICKS}
    content: dict[str, dict[str, Any]] = {
        name: {"topic": tps[name].topic, "partition": tps[name].partition, "bytes": count}
        for name, count in copied.items()
    }
    return Report("run", epoch, 0, 0, int(1_000_000 + second * 1000), content, [])


def test_rates_need_two_reports() -> None:
    loads = Loads()
    loads.add(report(0, orders=500))
    assert loads.rates() == {}
    loads.add(report(1, orders=2500))
    assert loads.rates() == {ORDERS: 2000.0}


def test_rates_are_smoothed() -> None:
    loads = Loads()
    for second in range(5):
        loads.add(report(second, orders=1000 * second))
    assert loads.rates()[ORDERS] == pytest.approx(1000)
    loads.add(report(5, orders=4000 + 11_000))
    assert 1000 < loads.rates()[ORDERS] < 11_000
    for second in range(6, 20):
        loads.add(report(second, orders=15_000 + 11_000 * (second - 5)))
    assert loads.rates()[ORDERS] == pytest.approx(11_000, rel=0.05)


def test_counters_restart_with_an_epoch_or_another_attempt() -> None:
    loads = Loads()
    for epoch in (1, 2):
        for second in range(3):
            loads.add(report(epoch * 10 + second, epoch, orders=1000 * second))
    loads.add(report(30, 2, orders=10))  # a retried task counts from zero
    assert loads.rates()[ORDERS] == pytest.approx(1000)


def test_a_partition_without_reports_has_no_load() -> None:
    """Only active partitions are reported."""
    loads = Loads()
    for second in range(40):
        loads.add(report(second, clicks=100 * second, **({"orders": 1000 * second} if second < 10 else {})))
    assert loads.rates() == {ORDERS: 0.0, CLICKS: pytest.approx(100)}


def test_invalid_reports_are_ignored() -> None:
    loads = Loads()
    odd: dict[str, dict[str, Any]] = {"": {"latency_p50_ms": 3.0}, "x": {"topic": "x", "partition": 0, "bytes": "many"}}
    loads.add(Report("run", 1, 0, 0, 1, odd, []))
    assert loads.rates() == {}
