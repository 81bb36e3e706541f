"""The health of a flow: healthy, lagging or broken, with reasons."""

from typing import Any

import pytest

from tests.status.samples import made_flow
from twinlog.journal.messages import Report, SupervisorReport
from twinlog.model import TopicPartition
from twinlog.status.flow import FlowStatus
from twinlog.status.health import Health, judge
from twinlog.status.partition import PartitionStatus
from twinlog.status.reason import ReasonCode, span

NOW = 1_800_000_000.0


def health_of(flow: FlowStatus, most: float = 60) -> Health:
    return judge(flow, most, NOW)


def texts(health: Health) -> list[str]:
    return list(map(str, health.reasons))


def supervisor_report(
    flow: FlowStatus, state: str, *, ago: float = 0.0, began: float = 60.0, **rest: Any
) -> FlowStatus:
    flow.supervisor_report(
        SupervisorReport(flow.name, flow.run, int((NOW - began) * 1000), int((NOW - ago) * 1000), state, **rest)
    )
    return flow


def task_report(flow: FlowStatus, ago: float = 0.0, **content: Any) -> FlowStatus:
    tp = {"topic": "t", "partition": 0, "remote": "us.t", "state": "running", "position": 10, "end": 10}
    now = int((NOW - ago) * 1000)
    flow.add(Report(flow.run, 1, 0, 0, now, {"t-0": {**tp, **content}}, []))
    return flow


def flow(state: str = "running", **rest: Any) -> FlowStatus:
    return supervisor_report(FlowStatus("run", "us->eu", "us", "eu"), state, **rest)


def test_a_flow_that_has_caught_up_is_healthy() -> None:
    health = made_flow().health()
    assert (health.level, texts(health)) == ("healthy", [])


def test_a_flow_without_topics_is_healthy_once_it_was_inspected() -> None:
    status = flow()
    assert health_of(status).level == "lagging"
    assert "no task has reported in 60 s" in str(health_of(status).reasons[0])
    status.set_inspected([])
    assert health_of(status).level == "healthy"
    assert "no topic of the source is selected" in str(health_of(status).reasons[0])


def test_a_backlog_before_the_tasks_start_is_a_lag() -> None:
    status = flow("starting", began=5)
    status.set_inspected([PartitionStatus("t", 0, "us.t", position=0, end=7)])
    assert (status.lag, health_of(status).level) == (7, "lagging")
    task_report(status, position=7, end=7)
    assert (status.lag, health_of(status).level) == (0, "healthy")


def test_a_stopped_partition_breaks_it_and_its_error_is_the_reason() -> None:
    health = made_flow(stopped="change max.message.bytes").health()
    assert (health.level, str(health.reasons[0])) == ("broken", "topic-00000-0 is stopped: change max.message.bytes")


def test_an_error_that_lasts_breaks_it_and_a_short_one_does_not() -> None:
    status = task_report(flow(), ago=40, error="cluster us cannot be reached", state="recovering")
    health = health_of(task_report(status, error="cluster us cannot be reached", state="recovering"))
    assert (health.level, texts(health)) == ("broken", ["t-0 has been failing for 40 s: cluster us cannot be reached"])
    health = health_of(task_report(flow(), ago=1, error="us: no leader"))
    assert (health.level, texts(health)) == ("healthy", ["t-0 has been failing for 1 s: us: no leader"])


def test_the_lag_in_seconds_decides() -> None:
    status = task_report(task_report(flow(), ago=100), ago=90, end=500)
    status = task_report(status, end=510)
    health = health_of(status)
    assert health.level == "lagging"
    assert texts(health) == ["t-0 is behind by 500 records, 90 s: nothing is being copied"]
    assert health_of(status, 120).level == "healthy"


def test_reasons_are_data() -> None:
    status = task_report(task_report(flow(), ago=100), ago=90, end=12, stable=10)
    (reason,) = health_of(task_report(status, end=12, stable=10)).reasons
    assert (reason.code, reason.level, reason.partitions) == (
        ReasonCode.OPEN_TRANSACTION,
        "lagging",
        (TopicPartition("t", 0),),
    )
    assert (reason.args["offset"], reason.args["lag"], reason.args["seconds"]) == (10, 2, 90.0)
    (silent,) = health_of(task_report(flow("running"), ago=50)).reasons
    assert (silent.code, silent.partitions) == (ReasonCode.TASKS_SILENT, ()), "it concerns the whole flow"


def test_a_shrinking_lag_has_an_estimate() -> None:
    status = flow()
    for ago in range(10, -1, -1):
        done = 100 * (10 - ago)
        status = task_report(status, ago, position=done, end=2000, records=done, latency_ms=3_600_000.0)
    health = health_of(status)
    assert texts(health) == ["t-0 is behind by 1,000 records, 60 min: copying 100 records/s, about 10 s left"]


def test_a_lag_of_unknown_duration_is_lagging() -> None:
    health = health_of(task_report(flow(), position=0, end=5))
    assert health.level == "lagging"
    assert "for an unknown time" in str(health.reasons[0])


def test_an_open_transaction_is_the_reason() -> None:
    status = task_report(task_report(flow(), ago=100), ago=90, end=12, stable=10)
    health = health_of(task_report(status, end=12, stable=10))
    assert health.level == "lagging"
    (reason,) = texts(health)
    assert reason.startswith("t-0 is blocked by an open transaction at offset 10 on us: 2 records behind, 90 s; ")
    assert reason.endswith(
        ": kafka-transactions.sh --bootstrap-server ... abort --topic t --partition 0 --start-offset 10"
    )


def test_more_tasks_are_not_recommended_for_blocked_or_stopped_partitions() -> None:
    status = task_report(task_report(flow(), ago=100), ago=90, end=500, stable=10)
    status = task_report(status, end=500, stable=10)
    health = health_of(status)
    assert not any("tasks.max" in reason or "is behind by" in reason for reason in texts(health))
    stopped = task_report(task_report(flow(), ago=100, end=500), ago=90, end=500, state="stopped", error="too large")
    health = health_of(task_report(stopped, end=500, state="stopped", error="too large"))
    assert health.level == "broken"
    assert texts(health) == ["t-0 is stopped: too large"]


def test_a_transaction_that_has_just_begun_is_no_reason() -> None:
    status = task_report(task_report(flow(), ago=20), ago=5, end=12, stable=10)
    assert health_of(task_report(status, end=12, stable=10)).reasons == []


@pytest.mark.parametrize(
    ("status", "level", "words"),
    [
        (FlowStatus("", "us->eu"), "broken", "not running"),
        (flow("retrying", error="no room"), "broken", "failing, retrying: no room"),
        (flow("stopped", ago=600), "broken", "stopped 10 min ago"),
        (flow("paused"), "healthy", "paused"),
        (task_report(flow("paused"), end=11), "lagging", "paused"),
        (flow("starting", began=5), "healthy", "starting"),
        (flow("starting", began=300), "lagging", "have not started 5 min after the flow"),
        (task_report(flow("running"), ago=50), "broken", "no task has reported for 50 s"),
        (task_report(flow("running", heartbeat_ms=1_000)), "lagging", "the newest heartbeat is"),
    ],
)
def test_each_state_has_a_reason(status: FlowStatus, level: str, words: str) -> None:
    if not status.run:
        status.state = "silent"
    health = health_of(status)
    assert health.level == level
    assert words in str(health.reasons[0])


def test_a_process_whose_reports_have_ended_is_silent() -> None:
    status = flow("running", ago=90)
    status.state = "silent"
    health = health_of(status)
    assert health.level == "broken"
    assert "no report since 90 s ago" in str(health.reasons[0])


def test_losses_are_reported_and_do_not_change_the_level() -> None:
    health = made_flow(lost=4).health()
    assert health.level == "healthy"
    assert texts(health) == ["4 records were deleted from the source before they were copied since this run started"]


def test_an_unknown_status_is_broken() -> None:
    status = flow()
    status.observation_error = "status unknown: cluster eu cannot be reached"
    assert health_of(status).level == "broken"
    assert str(health_of(status).reasons[0]) == status.observation_error


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (-3, "0 s"), (119, "119 s"), (600, "10 min"), (9000, "2.5 h"), (4e5, "4.6 days")]
)
def test_spans(seconds: float, text: str) -> None:
    assert span(seconds) == text


class TestThrottling:
    """A broker that holds a client back by a quota looks like a slow Twinlog: more tasks would not help."""

    def test_it_is_the_reason_for_a_lag(self) -> None:
        status = task_report(task_report(flow(), ago=100), ago=90, end=500, records=1)
        status = task_report(status, ago=2, end=400, records=1)
        status = task_report(status, end=500, records=50, position=100, source_throttled_ms=700)
        health = health_of(status)
        assert health.level == "lagging"
        assert "throttled by a quota on the source (us)" in str(health.reasons[0])
        assert not any("tasks.max" in reason for reason in texts(health))
        assert str(health.reasons[1]) == (
            "throttled by a quota on the source (us): t-0; raise consumer_byte_rate or request_percentage there for the "
            "client ids or the user of this flow"
        )

    def test_it_is_reported_while_nothing_lags_yet(self) -> None:
        health = health_of(task_report(flow(), end=12, target_throttled_ms=30))
        assert health.level == "healthy" or health.reasons
        assert any(
            "throttled by a quota on the target (eu): t-0; raise producer_byte_rate" in one for one in texts(health)
        )

    def test_it_is_over_some_time(self) -> None:
        status = task_report(
            task_report(flow(), ago=60, end=12, target_throttled_ms=30), end=12, target_throttled_ms=30
        )
        assert not any("quota" in reason for reason in texts(health_of(status)))
        assert status.total("target_throttled_ms") == 30
