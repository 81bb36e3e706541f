"""Why a topic lags, in words: what holds it up comes first, and speed is told only where speed is the matter."""

import time
from typing import Any

import pytest

from twinlog.status.flow import FlowStatus
from twinlog.status.partition import PartitionStatus
from twinlog.surface.http.lagging import level, partition_waits, reasons, waits
from twinlog.surface.http.rows import PARTITION, TOPIC, TopicRows, partition_row

TOO_LARGE = "the record at offset 24 of images-0 is refused by eu: MESSAGE_SIZE_TOO_LARGE"


@pytest.fixture
def flow() -> FlowStatus:
    made = FlowStatus("run", "us->eu", "us", "eu")
    made.state = "running"
    return made


def at(partition: int, *, lag: int = 0, speed: float = 0.0, behind: float = 300.0, **more: Any) -> PartitionStatus:
    """At offset 168. `behind`: for how many seconds, if it lags."""
    now = time.time()
    made = PartitionStatus("payments", partition, "us.payments", "running", "fast", 168, 168 + lag, **more)
    made.samples = [(now - behind - 1, 168), (now - behind, 168 + lag)] if lag else [(now, 168)]
    made.since, made.latest = (now - 10, 0, 0), (now, round(10 * speed), 0)
    return made


def transaction(partition: int, lag: int = 1212, behind: float = 300.0, **more: Any) -> PartitionStatus:
    return at(partition, lag=lag, behind=behind, stable=168, **more)


def stopped(partition: int, error: str = TOO_LARGE) -> PartitionStatus:
    made = at(partition, lag=9, error=error)
    made.state, made.lane = "stopped", "rebuild"
    return made


def test_an_open_transaction_is_the_reason_and_the_speed_of_others_is_not(flow: FlowStatus) -> None:
    assert reasons(flow, [at(0, speed=8), transaction(1), at(2, speed=4)]) == [
        "Partition 1 waits at offset 168 for a transaction that is open on us: 1,212 records wait behind it. "
        "Let its producer end it, or find and abort it there: "
        "kafka-transactions.sh --bootstrap-server ... find-hanging --topic payments --partition 1, then "
        "kafka-transactions.sh --bootstrap-server ... abort --topic payments --partition 1 --start-offset 168"
    ]


def test_a_transaction_that_is_open_for_a_moment_alarms_nobody(flow: FlowStatus) -> None:
    brief = transaction(1, lag=1, behind=2.0)
    assert reasons(flow, [at(0), brief]) == [
        "Partition 1: a producer's transaction is open on us, as is usual for a moment; 1 record waits for its end."
    ]
    assert (waits([brief], time.time()), partition_waits(brief, time.time()), level(brief)) == ("", "", "healthy")


def test_many_open_transactions_are_told_in_few_lines(flow: FlowStatus) -> None:
    found = reasons(flow, [transaction(number, lag=100 - number) for number in range(5)])
    assert [line.split(" waits")[0] for line in found[:3]] == ["Partition 0", "Partition 1", "Partition 2"]
    assert found[3:] == ["Partitions 3, 4: wait for transactions that are open on us, too."]
    assert reasons(flow, [transaction(number) for number in range(4)])[3:] == [
        "Partition 3: waits for a transaction that is open on us, too."
    ]


def test_a_stopped_partition_is_the_reason(flow: FlowStatus) -> None:
    """Neither its records nor its lane are a matter of speed."""
    assert reasons(flow, [stopped(0), at(1)]) == [f"Partition 0 is stopped: {TOO_LARGE}"]
    others = [at(number, lag=9, error="us: no leader") for number in (1, 2)]
    assert reasons(flow, [*others, stopped(3), stopped(4)])[:2] == [
        f"Partitions 3, 4 are stopped: {TOO_LARGE}",
        "Partitions 1, 2: us: no leader",
    ]


def test_an_error_is_told_instead_of_a_transaction(flow: FlowStatus) -> None:
    failed = transaction(1, error="us: no leader")
    assert reasons(flow, [failed])[0] == "Partition 1: us: no leader"
    assert not any("transaction" in line for line in reasons(flow, [failed]))
    assert partition_waits(failed, time.time()) == ""


def test_what_lags_besides_is_told_apart(flow: FlowStatus) -> None:
    assert reasons(flow, [stopped(0), at(1, lag=600, speed=10), at(2, lag=3, behind=1.0)])[1:] == [
        "Apart from that: 600 records wait; 10 are copied each second, so this is about 60 s of work."
    ]


@pytest.mark.parametrize(
    ("speed", "words"),
    [
        (10, "600 records wait; 10 are copied each second, so this is about 60 s of work."),
        (0.5, "600 records wait; less than one is copied each second."),
        (0, "600 records wait, and none were copied in the last seconds although tasks run."),
    ],
)
def test_work_is_measured_by_those_that_lag(flow: FlowStatus, speed: float, words: str) -> None:
    found = reasons(flow, [at(0, speed=500), at(1, lag=600, speed=speed), at(2, speed=500)])
    assert found == [words, "Partition 1 alone has 100 % of the lag."]


def test_nothing_lags(flow: FlowStatus) -> None:
    assert reasons(flow, [at(0), at(1, speed=5)]) == []


def test_rows_say_in_short_what_holds_them_up(flow: FlowStatus) -> None:
    flow.partitions = {"payments-0": at(0), "payments-1": transaction(1)}
    changed, _ = TopicRows().changed(flow)
    topic = dict(zip(TOPIC, changed["payments"], strict=True))
    assert (topic["waits"], topic["error"], topic["level"]) == (
        "partition 1 waits for an open transaction at offset 168",
        "",
        "lagging",
    )
    rows = [dict(zip(PARTITION, partition_row(each, flow), strict=True)) for each in flow.partitions.values()]
    assert [(row["waits"], row["level"]) for row in rows] == [
        ("", "healthy"),
        ("waits for an open transaction at offset 168", "lagging"),
    ]
    flow.partitions = {"payments-0": transaction(0), "payments-1": transaction(1)}
    changed, _ = TopicRows().changed(flow)
    assert dict(zip(TOPIC, changed["payments"], strict=True))["waits"] == "2 partitions wait for open transactions"
