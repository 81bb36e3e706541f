"""Least, average and most of the last minute."""

import pytest

from twinlog.status.recent_stats import RecentStats


def test_what_happened_within_a_minute_counts() -> None:
    window = RecentStats()
    assert window.over(100) is None
    window.add(100, [2, 10.0, 3.0, 7.0])
    window.add(101, [1, 20.0, 20.0, 20.0])
    window.add(130, [1, 2.0, 2.0, 2.0])
    assert window.over(135) == pytest.approx((2.0, 8.0, 20.0))
    assert window.over(165) == pytest.approx((2.0, 2.0, 2.0)), "the first two are older than a minute"
    assert window.over(300) is None


def test_it_is_small_and_can_be_made_again() -> None:
    window = RecentStats()
    for second in range(1000):
        window.add(second, [1, float(second), float(second), float(second)])
    buckets = window.buckets(999)
    assert len(buckets) <= 6
    assert RecentStats(buckets).over(999) == window.over(999)
    assert window.buckets(2000) == []


def test_a_report_that_comes_late_is_not_lost() -> None:
    window = RecentStats()
    window.add(120, [1, 5.0, 5.0, 5.0])
    window.add(95, [1, 1.0, 1.0, 1.0])
    assert window.over(120) == (1.0, 3.0, 5.0)
