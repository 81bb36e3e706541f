"""How much waits, from what is known of positions: the decision only."""

from dataclasses import replace

import pytest

from twinlog.model import Anchor
from twinlog.topology.sight import Wait
from twinlog.tracking.positions import Facts
from twinlog.upkeep.backlog import wait

FACTS = Facts(
    anchors=(), mm2_offset=None, source_start=100, source_end=200, target_start=0, target_end=0, reset="earliest"
)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (FACTS, Wait(100, 5000)),  # nothing is copied yet
        (replace(FACTS, reset="latest"), Wait(0, 0)),
        (replace(FACTS, mm2_offset=149), Wait(50, 2500)),
        (replace(FACTS, anchors=(Anchor(150, 50),), target_end=50), Wait(50, 2500)),
        # Ten more have arrived since the anchor was written.
        (replace(FACTS, anchors=(Anchor(150, 50),), target_end=60), Wait(40, 2000)),
        (replace(FACTS, anchors=(Anchor(200, 100),), target_end=100), Wait(0, 0)),
        # Beyond the source's end: a walk over gaps counts too far.
        (replace(FACTS, anchors=(Anchor(190, 50),), target_end=100), Wait(0, 0)),
        (replace(FACTS, source_start=200), Wait(0, 0)),
    ],
)
def test_what_waits(facts: Facts, expected: Wait) -> None:
    assert wait(facts, 50 * (facts.source_end - facts.source_start)) == expected


@pytest.mark.parametrize(
    ("facts", "records", "trouble"),
    [
        (replace(FACTS, mm2_offset=49), 100, "the source has deleted 50 records before they were copied"),
        (replace(FACTS, target_end=7), 100, "the remote topic holds 7 records, and nobody knows from where"),
        (replace(FACTS, anchors=(Anchor(150, 50),)), 100, "the remote topic has lost what was copied before"),
        (replace(FACTS, recreated=True, anchors=(Anchor(5, 5),)), 100, "the topic was deleted and made again"),
        (replace(FACTS, reset="none"), 0, "no position to start from, and auto.offset.reset is none"),
    ],
)
def test_what_would_go_wrong(facts: Facts, records: int, trouble: str) -> None:
    found = wait(facts, None)
    assert found.records == records
    assert found.trouble.startswith(trouble)


def test_a_size_that_the_broker_does_not_tell() -> None:
    assert wait(FACTS, None) == Wait(100, None)
