"""What is to be done to get from what runs to what is wanted."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from twinlog.config import load
from twinlog.runtime.parts import CHECKPOINTS, HEARTBEATS, RECORDS, TOPICS, Part, Steps, Wanted, reconcile

ALL = {RECORDS, TOPICS, CHECKPOINTS, HEARTBEATS}


@pytest.fixture
def flow(tmp_path: Path) -> Wanted:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n")
    return Wanted(next(flow for flow in load([file]).flows if str(flow) == "a->b"), (str(file),), tasks=2)


def running(*flows: Wanted) -> dict[Part, object]:
    return {Part(flow.name, subject): flow.likeness(subject) for flow in flows for subject in flow.subjects}


def in_state(flow: Wanted, **states: str) -> Wanted:
    connectors: dict[str, Any] = {
        role: replace(flow.config.connectors[role], state=state)  # type: ignore[arg-type]
        for role, state in states.items()
    }
    return replace(flow, config=replace(flow.config, **connectors))


def touched(before: Wanted, after: Wanted) -> tuple[set[str], set[str]]:
    """Which subjects are stopped, and which are started."""
    steps = reconcile(running(before), [after])
    return {part.subject for part in steps.stop}, {part.subject for part in steps.start}


def test_all_of_a_new_flow_is_started_and_all_of_one_that_is_gone_is_stopped(flow: Wanted) -> None:
    assert {part.subject for part in reconcile({}, [flow]).start} == ALL
    assert {part.subject for part in reconcile(running(flow), []).stop} == ALL


def test_what_runs_as_it_should_is_left_alone(flow: Wanted) -> None:
    other_files = replace(flow, paths=("/elsewhere",))
    assert reconcile(running(flow), [other_files]) == Steps(), "where its files lie is no change"


@pytest.mark.parametrize(
    ("role", "subjects"),
    [("source", {RECORDS, TOPICS}), ("checkpoint", {CHECKPOINTS}), ("heartbeat", {HEARTBEATS})],
)
@pytest.mark.parametrize("state", ["paused", "stopped"])
def test_a_connector_that_rests_touches_no_other(flow: Wanted, role: str, subjects: set[str], state: str) -> None:
    resting = in_state(flow, **{role: state})
    assert touched(flow, resting) == (subjects, set())
    assert touched(resting, flow) == (set(), subjects)


def test_a_changed_connector_is_started_anew(flow: Wanted) -> None:
    beat = flow.config.heartbeat
    assert beat is not None
    changed = replace(beat, settings=replace(beat.settings, emit_heartbeats_interval_seconds=7))
    assert touched(flow, replace(flow, config=replace(flow.config, heartbeat=changed))) == ({HEARTBEATS}, {HEARTBEATS})
    assert touched(flow, replace(flow, tasks=3)) == ({RECORDS}, {RECORDS})


def test_a_restart_is_a_change(flow: Wanted) -> None:
    assert touched(flow, replace(flow, restarts=((CHECKPOINTS, 1),))) == ({CHECKPOINTS}, {CHECKPOINTS})


def test_a_flow_is_told_by_its_label(flow: Wanted) -> None:
    second = replace(flow, config=replace(flow.config, label="second"))
    steps = reconcile(running(flow), [flow, second])
    assert not steps.stop
    assert {part.flow for part in steps.start} == {"a->b (second)"}
