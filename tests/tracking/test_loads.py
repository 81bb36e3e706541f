"""What each partition carries, learned from reports."""

from typing import Any

import pytest

from twinlog.model import TopicPartition
from twinlog.tracking.journal import Report
from twinlog.tracking.loads import Loads

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 1)


def report(second: float, epoch: int = 1, **carried: int) -> Report:
    """`carried`: bytes since the epoch began."""
    places = {"orders": ORDERS, "clicks": CLICKS}
    content: dict[str, dict[str, Any]] = {
        name: {"topic": places[name].topic, "partition": places[name].partition, "bytes": count}
        for name, count in carried.items()
    }
    return Report("run", epoch, 0, 0, int(1_000_000 + second * 1000), content, [])


def test_nothing_is_known_before_the_second_report() -> None:
    loads = Loads()
    loads.add(report(0, orders=500))
    assert loads.rates() == {}
    loads.add(report(1, orders=2500))
    assert loads.rates() == {ORDERS: 2000.0}


def test_a_change_shows_soon_but_not_at_once() -> None:
    loads = Loads()
    for second in range(5):
        loads.add(report(second, orders=1000 * second))
    assert loads.rates()[ORDERS] == pytest.approx(1000)
    loads.add(report(5, orders=4000 + 11_000))
    assert 1000 < loads.rates()[ORDERS] < 11_000
    for second in range(6, 20):
        loads.add(report(second, orders=15_000 + 11_000 * (second - 5)))
    assert loads.rates()[ORDERS] == pytest.approx(11_000, rel=0.05)


def test_counters_begin_anew_with_an_epoch_or_another_attempt() -> None:
    loads = Loads()
    for epoch in (1, 2):
        for second in range(3):
            loads.add(report(epoch * 10 + second, epoch, orders=1000 * second))
    loads.add(report(30, 2, orders=10))  # a task that was tried again counts from zero
    assert loads.rates()[ORDERS] == pytest.approx(1000)


def test_who_was_busy_once_and_is_silent_now_weighs_nothing() -> None:
    """Only partitions in which something moves are reported: so silence is not a lack of news."""
    loads = Loads()
    for second in range(40):
        loads.add(report(second, clicks=100 * second, **({"orders": 1000 * second} if second < 10 else {})))
    assert loads.rates() == {ORDERS: 0.0, CLICKS: pytest.approx(100)}


def test_what_makes_no_sense_is_passed_over() -> None:
    loads = Loads()
    odd: dict[str, dict[str, Any]] = {"": {"latency_p50_ms": 3.0}, "x": {"topic": "x", "partition": 0, "bytes": "many"}}
    loads.add(Report("run", 1, 0, 0, 1, odd, []))
    assert loads.rates() == {}
