"""Healthy, lagging or broken, and words that say what to do."""

from typing import Any

import pytest
from tests.status.made import made_flow

from twinlog.status.flow import FlowStatus
from twinlog.status.health import Health, judge, span
from twinlog.status.partition import PartitionStatus
from twinlog.tracking.journal import Bulletin, Report

NOW = 1_800_000_000.0


def health_of(flow: FlowStatus, most: float = 60) -> Health:
    return judge(flow, most, NOW)


def told(flow: FlowStatus, state: str, *, ago: float = 0.0, began: float = 60.0, **rest: Any) -> FlowStatus:
    flow.bulletin(Bulletin(flow.name, flow.run, int((NOW - began) * 1000), int((NOW - ago) * 1000), state, **rest))
    return flow


def heard(flow: FlowStatus, ago: float = 0.0, **content: Any) -> FlowStatus:
    place = {"topic": "t", "partition": 0, "remote": "us.t", "state": "running", "position": 10, "end": 10}
    now = int((NOW - ago) * 1000)
    flow.add(Report(flow.run, 1, 0, 0, now, {"t-0": {**place, **content}}, []))
    return flow


def flow(state: str = "running", **rest: Any) -> FlowStatus:
    return told(FlowStatus("run", "us->eu", "us", "eu"), state, **rest)


def test_a_flow_that_has_all_is_healthy() -> None:
    health = made_flow().health()
    assert (health.level, health.reasons) == ("healthy", [])


def test_a_flow_with_nothing_to_do_is_healthy_once_somebody_has_looked() -> None:
    status = flow()
    assert health_of(status).level == "lagging"
    assert "no task has reported in 60 s" in health_of(status).reasons[0]
    status.stand([])
    assert health_of(status).level == "healthy"
    assert "no topic of the source is selected" in health_of(status).reasons[0]


def test_what_waits_before_the_tasks_begin_is_behind() -> None:
    status = flow("starting", began=5)
    status.stand([PartitionStatus("t", 0, "us.t", position=0, end=7)])
    assert (status.lag, health_of(status).level) == (7, "lagging")
    heard(status, position=7, end=7)
    assert (status.lag, health_of(status).level) == (0, "healthy")


def test_a_stopped_partition_breaks_it_and_its_error_is_the_reason() -> None:
    health = made_flow(stopped="change max.message.bytes").health()
    assert (health.level, health.reasons[0]) == ("broken", "topic-00000-0 is stopped: change max.message.bytes")


def test_an_error_that_lasts_breaks_it_and_a_short_one_does_not() -> None:
    status = heard(flow(), ago=40, error="cluster us cannot be reached", state="recovering")
    health = health_of(heard(status, error="cluster us cannot be reached", state="recovering"))
    assert (health.level, health.reasons) == ("broken", ["t-0 cannot go on for 40 s: cluster us cannot be reached"])
    health = health_of(heard(flow(), ago=1, error="us: no leader"))
    assert (health.level, health.reasons) == ("healthy", ["t-0 cannot go on for 1 s: us: no leader"])


def test_a_lag_is_judged_by_its_seconds() -> None:
    status = heard(heard(flow(), ago=100), ago=90, end=500)
    status = heard(status, end=510)
    health = health_of(status)
    assert health.level == "lagging"
    assert health.reasons == ["t-0 is behind by 500 records, 90 s: nothing is copied now"]
    assert health_of(status, 120).level == "healthy"


def test_what_is_being_caught_up_says_how_long_it_takes() -> None:
    status = flow()
    for ago in range(10, -1, -1):
        done = 100 * (10 - ago)
        status = heard(status, ago, position=done, end=2000, records=done, latency_ms=3_600_000.0)
    health = health_of(status)
    assert health.reasons == ["t-0 is behind by 1,000 records, 60 min: 100 records/s are copied, about 10 s to go"]


def test_a_lag_of_which_nobody_knows_how_long_it_is_lags() -> None:
    health = health_of(heard(flow(), position=0, end=5))
    assert health.level == "lagging"
    assert "for how long is not known" in health.reasons[0]


def test_an_open_transaction_is_the_reason() -> None:
    status = heard(heard(flow(), ago=100), ago=90, end=12, stable=10)
    health = health_of(heard(status, end=12, stable=10))
    assert health.level == "lagging"
    (reason,) = health.reasons
    assert reason.startswith("t-0 waits for a transaction that is open at offset 10 on us: 2 records behind, 90 s; ")
    assert reason.endswith(": kafka-transactions.sh abort --topic t --partition 0 --start-offset 10")


def test_more_tasks_are_no_remedy_for_what_waits_or_is_stopped() -> None:
    status = heard(heard(flow(), ago=100), ago=90, end=500, stable=10)
    status = heard(status, end=500, stable=10)
    health = health_of(status)
    assert not any("tasks.max" in reason or "is behind by" in reason for reason in health.reasons)
    stopped = heard(heard(flow(), ago=100, end=500), ago=90, end=500, state="stopped", error="too large")
    health = health_of(heard(stopped, end=500, state="stopped", error="too large"))
    assert health.level == "broken"
    assert health.reasons == ["t-0 is stopped: too large"]


def test_a_transaction_that_has_just_begun_is_no_reason() -> None:
    status = heard(heard(flow(), ago=20), ago=5, end=12, stable=10)
    assert health_of(heard(status, end=12, stable=10)).reasons == []


@pytest.mark.parametrize(
    ("status", "level", "words"),
    [
        (FlowStatus("", "us->eu"), "broken", "nobody runs it"),
        (flow("retrying", error="no room"), "broken", "it fails and is tried again: no room"),
        (flow("stopped", ago=600), "broken", "it was stopped 10 min ago"),
        (flow("paused"), "healthy", "it is paused"),
        (heard(flow("paused"), end=11), "lagging", "it is paused"),
        (flow("starting", began=5), "healthy", "it is starting"),
        (flow("starting", began=300), "lagging", "have not begun 5 min after the start"),
        (heard(flow("running"), ago=50), "broken", "its tasks have said nothing for 50 s"),
        (heard(flow("running", heartbeat_ms=1_000)), "lagging", "the newest heartbeat is"),
    ],
)
def test_each_state_has_its_words(status: FlowStatus, level: str, words: str) -> None:
    if not status.run:
        status.state = "silent"
    health = health_of(status)
    assert health.level == level
    assert words in health.reasons[0]


def test_a_process_that_was_heard_of_once_is_missed() -> None:
    status = flow("running", ago=90)
    status.state = "silent"
    health = health_of(status)
    assert health.level == "broken"
    assert "was last heard of 90 s ago" in health.reasons[0]


def test_losses_are_told_and_change_nothing() -> None:
    health = made_flow(lost=4).health()
    assert health.level == "healthy"
    assert health.reasons == ["4 records were gone from the source before they were copied since this run began"]


def test_what_cannot_be_seen_is_broken() -> None:
    status = flow()
    status.unseen = "how it is cannot be seen: cluster eu cannot be reached"
    assert health_of(status).level == "broken"
    assert health_of(status).reasons[0] == status.unseen


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (-3, "0 s"), (119, "119 s"), (600, "10 min"), (9000, "2.5 h"), (4e5, "4.6 days")]
)
def test_spans(seconds: float, text: str) -> None:
    assert span(seconds) == text
