"""The number of fetch connections follows the throughput."""

from twinlog.replicate.connection_count import ConnectionCount


def _settled(limit: int, rate: float, per_connection: float, *, seconds: float = 30) -> int:
    """The number after some time, over a link with this rate, if each connection carries `per_connection`."""
    count = ConnectionCount(limit, 0.1)
    now, step = 0.0, 0.1
    while now < seconds:
        wanted = count.wanted(now)
        count.received(int(min(wanted * per_connection, rate) * step), now)
        now += step
    return wanted


def test_it_grows_while_each_connection_adds_throughput() -> None:
    assert _settled(32, rate=1e9, per_connection=1e6) == 32


def test_it_stops_where_more_connections_add_nothing() -> None:
    assert _settled(32, rate=8e6, per_connection=1e6, seconds=14) == 8


def test_the_limit_holds_from_the_start() -> None:
    assert _settled(2, rate=1e9, per_connection=1e6) == 2


def test_without_any_response_it_does_not_grow() -> None:
    assert _settled(32, rate=0, per_connection=0) == 8
