"""Which instance runs a flow, and whether several contend for it."""

import pytest

from twinlog.journal.instances import WINDOW_MS, Instances
from twinlog.journal.messages import Command

NOW = 10_000_000_000
FLOW = "us->eu"


def instances(*commands: tuple[int, str, str, str, str]) -> Instances:
    """Each: seconds ago, verb, run, instance, by."""
    found = Instances(FLOW)
    for ago, verb, run, instance, by in commands:
        found.on_record(NOW - ago * 1000, Command(verb, run, flow=FLOW, instance=instance, by=by))
    return found


def test_the_newest_start_counts() -> None:
    found = instances((50, "run", "a", "one:1", ""), (40, "run", "b", "two:2", ""), (30, "stop", "b", "", ""))
    found.on_record(NOW, Command("run", "c", flow="us->ap", instance="three:3"))
    assert (found.current, found.name("b"), found.name("c")) == ("b", "two:2", "unknown host")


STARTS = [(100, "run", "a", "one:1", ""), (90, "run", "b", "two:2", "")]
SUPERSEDED = (89, "superseded", "a", "one:1", "b")


@pytest.mark.parametrize(
    ("more", "instance", "reason"),
    [
        ([], "one:9", ""),  # restarts, on one host or several, that ended no other instance
        ([SUPERSEDED], "three:3", ""),  # a second takeover, by a third host: an operator moves the flow
        ([SUPERSEDED], "two:3", ""),
        ([SUPERSEDED], "one:9", "an instance on one was just superseded by two:2"),  # systemd started it again
        (
            [SUPERSEDED, (80, "refused", "c", "one:9", "b")],
            "three:3",
            "several instances contend for it (one:1, one:9, two:2)",
        ),
        ([SUPERSEDED, (70, "run", "c", "one:9", ""), (69, "superseded", "b", "two:2", "c")], "three:3", "several"),
        ([SUPERSEDED, (70, "run", "c", "one:9", ""), (69, "superseded", "b", "two:2", "c")], "two:9", "several"),
    ],
)
def test_which_instance_may_start(more: list[tuple[int, str, str, str, str]], instance: str, reason: str) -> None:
    found = instances(*STARTS, *more).contested(NOW, instance)
    assert found.startswith(reason)
    assert bool(found) == bool(reason)


def test_instances_on_one_host_may_replace_each_other() -> None:
    found = instances(
        (100, "run", "a", "one:1", ""), (90, "run", "b", "one:2", ""), (89, "superseded", "a", "one:1", "b")
    )
    assert not found.contested(NOW, "one:3")


def test_contests_expire() -> None:
    found = instances(*STARTS, SUPERSEDED, (70, "run", "c", "one:9", ""), (69, "superseded", "b", "two:2", "c"))
    assert found.contested(NOW, "two:9")
    assert not found.contested(NOW + WINDOW_MS, "two:9")


def test_repeated_refusals_are_recorded_once_a_minute_and_host() -> None:
    found = instances((30, "refused", "a", "one:1", ""))
    assert not found.refusal_due(NOW, "one:2")
    assert found.refusal_due(NOW, "two:2")
    assert found.refusal_due(NOW + 31_000, "one:2")
