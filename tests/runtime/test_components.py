"""What is to be done to get from what runs to what is wanted."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from twinlog.config import load
from twinlog.runtime.components import (
    CHECKPOINTS,
    HEARTBEATS,
    RECORDS,
    TOPICS,
    Component,
    DesiredFlow,
    Steps,
    reconcile,
)

ALL = {RECORDS, TOPICS, CHECKPOINTS, HEARTBEATS}


@pytest.fixture
def flow(tmp_path: Path) -> DesiredFlow:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n")
    return DesiredFlow(next(flow for flow in load([file]).flows if str(flow) == "a->b"), (str(file),), tasks=2)


def running(*flows: DesiredFlow) -> dict[Component, object]:
    return {Component(flow.name, subject): flow.fingerprint(subject) for flow in flows for subject in flow.subjects}


def in_state(flow: DesiredFlow, **states: str) -> DesiredFlow:
    connectors: dict[str, Any] = {
        role: replace(flow.config.connectors[role], state=state)  # type: ignore[arg-type]
        for role, state in states.items()
    }
    return replace(flow, config=replace(flow.config, **connectors))


def changed_subjects(before: DesiredFlow, after: DesiredFlow) -> tuple[set[str], set[str]]:
    """Which subjects are stopped, and which are started."""
    steps = reconcile(running(before), [after])
    return {each.subject for each in steps.stop}, {each.subject for each in steps.start}


def test_a_new_flow_is_started_and_a_removed_one_is_stopped(flow: DesiredFlow) -> None:
    assert {each.subject for each in reconcile({}, [flow]).start} == ALL
    assert {each.subject for each in reconcile(running(flow), []).stop} == ALL


def test_an_unchanged_flow_is_not_restarted(flow: DesiredFlow) -> None:
    other_files = replace(flow, paths=("/elsewhere",))
    assert reconcile(running(flow), [other_files]) == Steps(), "other paths are not a change"


@pytest.mark.parametrize(
    ("role", "subjects"),
    [("source", {RECORDS, TOPICS}), ("checkpoint", {CHECKPOINTS}), ("heartbeat", {HEARTBEATS})],
)
@pytest.mark.parametrize("state", ["paused", "stopped"])
def test_a_paused_connector_does_not_affect_the_others(
    flow: DesiredFlow, role: str, subjects: set[str], state: str
) -> None:
    paused = in_state(flow, **{role: state})
    assert changed_subjects(flow, paused) == (subjects, set())
    assert changed_subjects(paused, flow) == (set(), subjects)


def test_a_changed_connector_is_restarted(flow: DesiredFlow) -> None:
    heartbeat = flow.config.heartbeat
    assert heartbeat is not None
    connector = replace(heartbeat, settings=replace(heartbeat.settings, emit_heartbeats_interval_seconds=7))
    assert changed_subjects(flow, replace(flow, config=replace(flow.config, heartbeat=connector))) == (
        {HEARTBEATS},
        {HEARTBEATS},
    )
    assert changed_subjects(flow, replace(flow, tasks=3)) == ({RECORDS}, {RECORDS})


def test_a_restart_is_a_change(flow: DesiredFlow) -> None:
    assert changed_subjects(flow, replace(flow, restarts=((CHECKPOINTS, 1),))) == ({CHECKPOINTS}, {CHECKPOINTS})


def test_flows_are_identified_by_their_labels(flow: DesiredFlow) -> None:
    second = replace(flow, config=replace(flow.config, label="second"))
    steps = reconcile(running(flow), [flow, second])
    assert not steps.stop
    assert {each.flow for each in steps.start} == {"a->b (second)"}
