"""States in Connect's words, and what a restart touches."""

import pytest

from twinlog.connect.standing import Seen, Standings, restarting, standings, status_json, stopped_tasks
from twinlog.connect.topics import Standing
from twinlog.connect.worker import to_restart
from twinlog.runtime.supervisor import PartState
from twinlog.status.partition import PartitionStatus


def shown(seen: Seen) -> list[str]:
    found = standings(seen)
    return [found.connector.state, *(task.state for task in found.tasks)]


RUNNING = PartState("running", tasks=2)


@pytest.mark.parametrize(
    ("seen", "states"),
    [
        (Seen("STARTED", up=False), ["UNASSIGNED"]),
        (Seen("STARTED", tasks=2), ["RUNNING", "UNASSIGNED", "UNASSIGNED"]),
        (Seen("STARTED", part=PartState("starting"), tasks=1), ["RUNNING", "UNASSIGNED"]),
        (Seen("STARTED", part=RUNNING, tasks=2), ["RUNNING", "RUNNING", "RUNNING"]),
        (Seen("STARTED", part=RUNNING, tasks=2, stopped={1: "no"}), ["RUNNING", "RUNNING", "FAILED"]),
        (Seen("STARTED", works=False), ["RUNNING"]),
        (Seen("STARTED", wrong="no such file"), ["FAILED"]),
        (Seen("STARTED", part=PartState("retrying", "away", starts=0)), ["FAILED"]),
        (Seen("STARTED", part=PartState("failed", "taken over", starts=3), tasks=2), ["RUNNING", "FAILED", "FAILED"]),
        (Seen("PAUSED", tasks=2), ["PAUSED", "PAUSED", "PAUSED"]),
        (Seen("PAUSED", part=PartState("ending"), tasks=1), ["RUNNING", "RUNNING"]),
        (Seen("STOPPED", tasks=2), ["STOPPED"]),
        (Seen("STOPPED", part=PartState("ending"), tasks=1), ["RUNNING", "RUNNING"]),
        (Seen("STOPPED", wrong="no such file"), ["STOPPED"]),
    ],
)
def test_states(seen: Seen, states: list[str]) -> None:
    assert shown(seen) == states


def test_a_reason_is_the_trace() -> None:
    failed = standings(Seen("STARTED", part=PartState("retrying", "cluster us is away", starts=0)))
    answer = status_json("c", failed, "h:1", "4.3.1")
    assert answer["connector"] == {
        "state": "FAILED", "worker_id": "h:1", "version": "4.3.1", "trace": "cluster us is away",
    }  # fmt: skip
    fine = status_json("c", standings(Seen("STARTED", part=RUNNING)), "h:1", "4.3.1")
    assert "trace" not in fine["connector"]
    assert fine["tasks"] == [{"id": 0, "state": "RUNNING", "worker_id": "h:1", "version": "4.3.1"}]


def test_a_partition_that_stopped_fails_the_task_that_has_it() -> None:
    def partition(number: int, state: str, task: int) -> PartitionStatus:
        found = PartitionStatus("t", number, "us.t")
        found.state, found.task, found.error = state, task, f"partition {number} is broken"
        return found

    partitions = [partition(0, "running", 0), partition(1, "stopped", 1), partition(2, "stopped", 1)]
    assert stopped_tasks(partitions, 2) == {1: "partition 1 is broken (and 1 more partitions)"}


FINE = Standings(Standing("RUNNING"), (Standing("RUNNING"), Standing("RUNNING")))
BROKEN = Standings(Standing("RUNNING"), (Standing("RUNNING"), Standing("FAILED", "x")))
NEVER = Standings(Standing("FAILED", "x"))


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
def test_what_a_restart_touches(found: Standings, include_tasks: bool, only_failed: bool, subjects: set[str]) -> None:
    assert to_restart("source", found, include_tasks=include_tasks, only_failed=only_failed) == subjects
    whole = bool(subjects)
    others = to_restart("heartbeat", found, include_tasks=include_tasks, only_failed=only_failed)
    assert others == ({"heartbeats"} if whole else set())


def test_what_is_restarted_is_shown_so() -> None:
    only = restarting(BROKEN, include_tasks=True, only_failed=True)
    assert [only.connector.state, *(task.state for task in only.tasks)] == ["RUNNING", "RUNNING", "RESTARTING"]
    both = restarting(FINE, include_tasks=False, only_failed=False)
    assert [both.connector.state, *(task.state for task in both.tasks)] == ["RESTARTING", "RUNNING", "RUNNING"]
