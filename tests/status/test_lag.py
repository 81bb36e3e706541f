"""How long a partition is behind: by the ends that its source had, else by the newest record that was copied."""

import pytest

from twinlog.status.lag import Sample, add_sample, lag_seconds


def sampled(*reports: tuple[float, int, int]) -> list[Sample]:
    """(when, end, position) as reported."""
    samples: list[Sample] = []
    for now, end, position in reports:
        add_sample(samples, now, end, position)
    return samples


def test_no_lag_at_the_end() -> None:
    assert lag_seconds(100, 7, 7, [], None) == 0
    assert lag_seconds(100, 8, 7, [], None) == 0


@pytest.mark.parametrize(("position", "end"), [(-1, 5), (5, -1), (-1, -1)])
def test_an_unknown_position_has_an_unknown_lag(position: int, end: int) -> None:
    assert lag_seconds(100, position, end, [], 50) is None


def test_it_is_as_long_as_the_end_has_been_beyond_the_position() -> None:
    samples = sampled((10, 100, 100), (20, 110, 100), (30, 120, 100))
    assert lag_seconds(35, 100, 120, samples, 1) == 15
    assert lag_seconds(35, 109, 120, samples, 1) == 15
    assert lag_seconds(35, 110, 120, samples, 1) == 5, "the end was at 110 from 20 on, and beyond it from 30 on"


def test_a_partition_that_was_idle_is_behind_since_its_next_record() -> None:
    samples = sampled((0, 100, 100), (5000, 150, 100))
    assert lag_seconds(5003, 100, 150, samples, 0) == 3


def test_without_old_samples_the_newest_record_counts() -> None:
    samples = sampled((10, 1000, 0), (20, 1010, 5))
    assert lag_seconds(21, 5, 1010, samples, newest_copied=3.5) == 17.5
    assert lag_seconds(21, 5, 1010, samples, newest_copied=None) is None
    assert lag_seconds(21, 5, 1010, samples, newest_copied=99) == 0, (
        "a record from the future does not make the lag negative"
    )


def test_catching_up_resets_the_lag() -> None:
    samples = sampled((10, 100, 100), (20, 110, 100), (30, 110, 110), (40, 115, 110))
    assert lag_seconds(41, 110, 115, samples, 1) == 1


def test_a_re_created_log_drops_the_samples() -> None:
    samples = sampled((10, 100, 100), (20, 5, 0))
    assert samples == [(20, 5)]
    assert lag_seconds(21, 0, 5, samples, None) is None


def test_a_clock_that_goes_back_makes_no_negative_lag() -> None:
    samples = sampled((50, 100, 100), (40, 110, 100))
    assert samples == [(50, 100), (50, 110)]
    assert lag_seconds(45, 100, 110, samples, None) == 0


def test_few_samples_are_kept_and_they_are_near_the_truth() -> None:
    samples = sampled((0, 0, 0), *((second, 10 * second, 0) for second in range(1, 3601)))
    assert len(samples) <= 33
    assert samples[0][1] == 0, "from where on it is behind"
    for position in (5, 1005, 12_345, 30_000, 35_995):
        truth = 3600 - (position // 10 + 1)
        assert truth - 400 <= (lag_seconds(3600, position, 36_000, samples, None) or 0) <= truth


def test_what_lies_behind_the_position_is_let_go() -> None:
    samples = sampled(*((second, 10 * second, 10 * second - 15) for second in range(2, 1000)))
    assert len(samples) == 3
