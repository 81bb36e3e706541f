"""When acknowledgements are read together with the next records, instead of waking the loop of a task."""

import pytest

from twinlog.replicate.ack_deferral import AckDeferral


def at_interval(seconds: float, *, count: int = 100) -> tuple[AckDeferral, float]:
    """After batches at this interval, and the time of the last one."""
    deferral, now = AckDeferral(), 1000.0
    for _ in range(count):
        now += seconds
        deferral.fetched(now, measure=False)
        deferral.acknowledged()
    return deferral, now


def seconds(deferral: AckDeferral, now: float, *, pending_bytes: int = 500, open_requests: int = 1) -> float:
    return deferral.seconds(now, pending_bytes=pending_bytes, open_requests=open_requests)


def test_acknowledgements_wait_for_the_next_batch_of_a_steady_trickle() -> None:
    deferral, now = at_interval(0.01)
    assert seconds(deferral, now) > 0.01


def test_they_are_read_in_time_even_if_no_batch_follows() -> None:
    deferral, now = at_interval(0.01)
    first = seconds(deferral, now)
    assert seconds(deferral, now + first / 2) == pytest.approx(first / 2)
    assert seconds(deferral, now + first) == 0


@pytest.mark.parametrize("interval", [0.02, 0.5, 30.0])
def test_rare_batches_are_acknowledged_at_once(interval: float) -> None:
    deferral, now = at_interval(interval)
    assert seconds(deferral, now) == 0


def test_the_first_batches_are_acknowledged_at_once() -> None:
    deferral, now = at_interval(0.01, count=2)
    assert seconds(deferral, now) == 0


def test_a_backlog_is_not_slowed_down() -> None:
    deferral, now = at_interval(0.01)
    assert seconds(deferral, now, pending_bytes=1 << 20) == 0, "much is pending"
    assert seconds(deferral, now, open_requests=3) == 0, "soon no request could be sent without an acknowledgement"
    deferral.backlog(now)
    assert seconds(deferral, now) == 0, "batches wait for others to be acknowledged"
    assert seconds(deferral, now + 0.9) == 0


def test_nothing_is_deferred_without_an_open_request() -> None:
    deferral, now = at_interval(0.01)
    assert seconds(deferral, now, open_requests=0) == 0


def test_an_acknowledgement_is_awaited_to_measure_the_latency() -> None:
    deferral, now = at_interval(0.01)
    deferral.fetched(now, measure=True)
    assert seconds(deferral, now) == 0
    deferral.acknowledged()
    deferral.fetched(now + 0.01, measure=False)
    assert seconds(deferral, now + 0.01) > 0
