"""How much waits, from what is known of positions: the decision only."""

from dataclasses import replace

import pytest

from twinlog.inspect.backlog import backlog_of
from twinlog.inspect.snapshot import Backlog
from twinlog.model import OffsetPair
from twinlog.replicate.resume_decision import Facts

FACTS = Facts(
    offset_pairs=(), mm2_position=None, source_start=100, source_end=200, target_start=0, target_end=0, reset="earliest"
)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (FACTS, Backlog(100, 5000)),  # nothing is copied yet
        (replace(FACTS, reset="latest"), Backlog(0, 0)),
        (replace(FACTS, mm2_position=150), Backlog(50, 2500)),
        (replace(FACTS, offset_pairs=(OffsetPair(150, 50),), target_end=50), Backlog(50, 2500)),
        # Ten more have arrived since the anchor was written.
        (replace(FACTS, offset_pairs=(OffsetPair(150, 50),), target_end=60), Backlog(40, 2000)),
        (replace(FACTS, offset_pairs=(OffsetPair(200, 100),), target_end=100), Backlog(0, 0)),
        # Beyond the source's end: a walk over gaps counts too far.
        (replace(FACTS, offset_pairs=(OffsetPair(190, 50),), target_end=100), Backlog(0, 0)),
        (replace(FACTS, source_start=200), Backlog(0, 0)),
    ],
)
def test_what_waits(facts: Facts, expected: Backlog) -> None:
    assert backlog_of(facts, 50 * (facts.source_end - facts.source_start)) == expected


@pytest.mark.parametrize(
    ("facts", "records", "problem"),
    [
        (replace(FACTS, mm2_position=50), 100, "the source deleted 50 records before they were copied"),
        (replace(FACTS, target_end=7), 100, "the remote topic has 7 records of unknown origin"),
        (replace(FACTS, offset_pairs=(OffsetPair(150, 50),)), 100, "the remote topic lost records that were copied"),
        (replace(FACTS, recreated=True, offset_pairs=(OffsetPair(5, 5),)), 100, "the topic was deleted and re-created"),
        (replace(FACTS, reset="none"), 0, "no position to start from, and auto.offset.reset is none"),
    ],
)
def test_what_would_go_wrong(facts: Facts, records: int, problem: str) -> None:
    found = backlog_of(facts, None)
    assert found.records == records
    assert found.problem.startswith(problem)


def test_an_unknown_size() -> None:
    assert backlog_of(FACTS, None) == Backlog(100, None)
