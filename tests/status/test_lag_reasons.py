"""Reasons for the lag of a topic: blocking causes first, and the rate only if it matters."""

import time
from typing import Any

import pytest

from twinlog.http.page_rows import PARTITION, TOPIC, TopicRows, partition_row
from twinlog.status.flow import FlowStatus
from twinlog.status.lag_reasons import level, partition_wait, reasons, topic_wait
from twinlog.status.partition import PartitionStatus

TOO_LARGE = "record at offset 24 of images-0 refused by eu: MESSAGE_TOO_LARGE"


def why(flow: FlowStatus, partitions: list[PartitionStatus]) -> list[str]:
    return list(map(str, reasons(flow, partitions)))


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
    assert why(flow, [at(0, speed=8), transaction(1), at(2, speed=4)]) == [
        "Partition 1 is blocked at offset 168 by an open transaction on us: 1,212 records wait behind it. "
        "Let its producer end it, or find and abort it: "
        "kafka-transactions.sh --bootstrap-server ... find-hanging --topic payments --partition 1, then "
        "kafka-transactions.sh --bootstrap-server ... abort --topic payments --partition 1 --start-offset 168"
    ]


def test_a_transaction_that_is_open_for_a_moment_is_normal(flow: FlowStatus) -> None:
    brief = transaction(1, lag=1, behind=2.0)
    assert why(flow, [at(0), brief]) == [
        "Partition 1: a transaction has been open on us for a few seconds, which is normal; 1 record waits for its end."
    ]
    assert (topic_wait([brief], time.time()), partition_wait(brief, time.time()), level(brief)) == ("", "", "healthy")


def test_many_open_transactions_are_summarized(flow: FlowStatus) -> None:
    found = why(flow, [transaction(number, lag=100 - number) for number in range(5)])
    assert [line.split(" is blocked")[0] for line in found[:3]] == ["Partition 0", "Partition 1", "Partition 2"]
    assert found[3:] == ["Partitions 3, 4 are also blocked by open transactions on us."]
    assert why(flow, [transaction(number) for number in range(4)])[3:] == [
        "Partition 3 is also blocked by an open transaction on us."
    ]


def test_a_stopped_partition_is_the_reason(flow: FlowStatus) -> None:
    """Neither its records nor its lane are a matter of speed."""
    assert why(flow, [stopped(0), at(1)]) == [f"Partition 0 is stopped: {TOO_LARGE}"]
    others = [at(number, lag=9, error="us: no leader") for number in (1, 2)]
    assert why(flow, [*others, stopped(3), stopped(4)])[:2] == [
        f"Partitions 3, 4 are stopped: {TOO_LARGE}",
        "Partitions 1, 2: us: no leader",
    ]


def test_an_error_takes_precedence_over_a_transaction(flow: FlowStatus) -> None:
    failed = transaction(1, error="us: no leader")
    assert why(flow, [failed])[0] == "Partition 1: us: no leader"
    assert not any("transaction" in line for line in why(flow, [failed]))
    assert partition_wait(failed, time.time()) == ""


def test_other_lagging_partitions_are_reported_separately(flow: FlowStatus) -> None:
    assert why(flow, [stopped(0), at(1, lag=600, speed=10), at(2, lag=3, behind=1.0)])[1:] == [
        "Apart from that: 600 records wait; 10 are copied each second: about 60 s left."
    ]


@pytest.mark.parametrize(
    ("speed", "words"),
    [
        (10, "600 records wait; 10 are copied each second: about 60 s left."),
        (0.5, "600 records wait; less than one is copied each second."),
        (0, "600 records wait; none were copied in the last few seconds although tasks run."),
    ],
)
def test_work_is_measured_by_those_that_lag(flow: FlowStatus, speed: float, words: str) -> None:
    found = why(flow, [at(0, speed=500), at(1, lag=600, speed=speed), at(2, speed=500)])
    assert found == [words, "Partition 1 alone has 100 % of the lag."]


def test_nothing_lags(flow: FlowStatus) -> None:
    assert why(flow, [at(0), at(1, speed=5)]) == []


def test_rows_have_a_short_reason(flow: FlowStatus) -> None:
    flow.partitions = {"payments-0": at(0), "payments-1": transaction(1)}
    changed, _ = TopicRows().changed(flow)
    topic = dict(zip(TOPIC, changed["payments"], strict=True))
    assert (topic["waits"], topic["error"], topic["level"]) == (
        "partition 1 blocked by an open transaction at offset 168",
        "",
        "lagging",
    )
    rows = [dict(zip(PARTITION, partition_row(each, flow), strict=True)) for each in flow.partitions.values()]
    assert [(row["waits"], row["level"]) for row in rows] == [
        ("", "healthy"),
        ("blocked by an open transaction at offset 168", "lagging"),
    ]
    flow.partitions = {"payments-0": transaction(0), "payments-1": transaction(1)}
    changed, _ = TopicRows().changed(flow)
    assert dict(zip(TOPIC, changed["payments"], strict=True))["waits"] == "2 partitions blocked by open transactions"


def test_a_quota_is_the_reason(flow: FlowStatus) -> None:
    held = at(1, lag=50, speed=5)
    held.throttled_at = {"source": time.time(), "target": time.time() - 3600}
    idle = at(0)
    idle.throttled_at = {"source": time.time()}
    assert why(flow, [idle, held])[0] == (
        "Partition 1: throttled by a quota on the source (us); raise consumer_byte_rate or request_percentage there for "
        "the client ids or the user of this flow."
    )
