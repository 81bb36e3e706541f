"""States in Connect's terms, and what a restart affects."""

import pytest

from twinlog.connect.connector_status import (
    ConnectorStatus,
    ObservedState,
    derive_status,
    restarting,
    status_json,
    stopped_tasks,
)
from twinlog.connect.topic_records import StatusRecord
from twinlog.connect.worker import to_restart
from twinlog.runtime.supervisor import ComponentState
from twinlog.status.partition import PartitionStatus


def states_of(observed: ObservedState) -> list[str]:
    found = derive_status(observed)
    return [found.connector.state, *(task.state for task in found.tasks)]


RUNNING = ComponentState("running", tasks=2)


@pytest.mark.parametrize(
    ("observed", "states"),
    [
        (ObservedState("STARTED", up=False), ["UNASSIGNED"]),
        (ObservedState("STARTED", tasks=2), ["RUNNING", "UNASSIGNED", "UNASSIGNED"]),
        (ObservedState("STARTED", component=ComponentState("starting"), tasks=1), ["RUNNING", "UNASSIGNED"]),
        (ObservedState("STARTED", component=RUNNING, tasks=2), ["RUNNING", "RUNNING", "RUNNING"]),
        (ObservedState("STARTED", component=RUNNING, tasks=2, stopped={1: "no"}), ["RUNNING", "RUNNING", "FAILED"]),
        (ObservedState("STARTED", enabled=False), ["RUNNING"]),
        (ObservedState("STARTED", problem="no such file"), ["FAILED"]),
        (ObservedState("STARTED", component=ComponentState("retrying", "away", starts=0)), ["FAILED"]),
        (
            ObservedState("STARTED", component=ComponentState("failed", "taken over", starts=3), tasks=2),
            ["RUNNING", "FAILED", "FAILED"],
        ),
        (ObservedState("PAUSED", tasks=2), ["PAUSED", "PAUSED", "PAUSED"]),
        (ObservedState("PAUSED", component=ComponentState("ending"), tasks=1), ["RUNNING", "RUNNING"]),
        (ObservedState("STOPPED", tasks=2), ["STOPPED"]),
        (ObservedState("STOPPED", component=ComponentState("ending"), tasks=1), ["RUNNING", "RUNNING"]),
        (ObservedState("STOPPED", problem="no such file"), ["STOPPED"]),
    ],
)
def test_states(observed: ObservedState, states: list[str]) -> None:
    assert states_of(observed) == states


def test_the_reason_is_the_trace() -> None:
    failed = derive_status(
        ObservedState("STARTED", component=ComponentState("retrying", "cluster us is away", starts=0))
    )
    answer = status_json("c", failed, "h:1", "4.3.1")
    assert answer["connector"] == {
        "state": "FAILED", "worker_id": "h:1", "version": "4.3.1", "trace": "cluster us is away",
    }  # fmt: skip
    fine = status_json("c", derive_status(ObservedState("STARTED", component=RUNNING)), "h:1", "4.3.1")
    assert "trace" not in fine["connector"]
    assert fine["tasks"] == [{"id": 0, "state": "RUNNING", "worker_id": "h:1", "version": "4.3.1"}]


def test_a_stopped_partition_fails_its_task() -> None:
    def partition(number: int, state: str, task: int) -> PartitionStatus:
        found = PartitionStatus("t", number, "us.t")
        found.state, found.task, found.error = state, task, f"partition {number} is broken"
        return found

    partitions = [partition(0, "running", 0), partition(1, "stopped", 1), partition(2, "stopped", 1)]
    assert stopped_tasks(partitions, 2) == {1: "partition 1 is broken (and 1 more partitions)"}


FINE = ConnectorStatus(StatusRecord("RUNNING"), (StatusRecord("RUNNING"), StatusRecord("RUNNING")))
BROKEN = ConnectorStatus(StatusRecord("RUNNING"), (StatusRecord("RUNNING"), StatusRecord("FAILED", "x")))
NEVER = ConnectorStatus(StatusRecord("FAILED", "x"))


@pytest.mark.parametrize(
    ("found", "include_tasks", "only_failed", "subjects"),
    [
        (FINE, False, False, {"topics"}),
        (FINE, True, False, {"topics", "records"}),
        (FINE, True, True, set()),
        (BROKEN, True, True, {"records"}),
        (BROKEN, False, True, set()),
        (NEVER, False, False, {"topics", "records"}),
        (NEVER, False, True, {"topics", "records"}),
    ],
)
def test_what_a_restart_affects(
    found: ConnectorStatus, include_tasks: bool, only_failed: bool, subjects: set[str]
) -> None:
    assert to_restart("source", found, include_tasks=include_tasks, only_failed=only_failed) == subjects
    others = to_restart("heartbeat", found, include_tasks=include_tasks, only_failed=only_failed)
    assert others == ({"heartbeats"} if subjects else set())


def test_what_restarts_is_shown_as_restarting() -> None:
    only = restarting(BROKEN, include_tasks=True, only_failed=True)
    assert [only.connector.state, *(task.state for task in only.tasks)] == ["RUNNING", "RUNNING", "RESTARTING"]
    both = restarting(FINE, include_tasks=False, only_failed=False)
    assert [both.connector.state, *(task.state for task in both.tasks)] == ["RESTARTING", "RUNNING", "RUNNING"]
