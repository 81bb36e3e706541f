"""The sequence of faults depends on the seed alone, and covers every kind."""

from collections import Counter
from itertools import islice

from soak.catalogue import FAULTS
from soak.plan import ALL, LONGEST, SHORTEST, SOURCE, TARGET, PlannedFault, available, emulated_side, steps

KINDS = available(packets=TARGET, disk=True, clock=True)


def faults(seed: int, count: int) -> list[PlannedFault]:
    return [fault for step in islice(steps(seed, KINDS), count) for fault in step.faults]


def test_a_seed_repeats_the_faults() -> None:
    assert faults(7, 100) == faults(7, 100)
    assert faults(7, 100) != faults(8, 100)


def test_every_kind_has_a_class_and_every_class_a_kind() -> None:
    assert {kind.name for kind in ALL} == set(FAULTS)


def test_each_round_has_every_kind() -> None:
    rounds = sum(kind.often for kind in KINDS)
    planned = faults(3, 5 * rounds)
    assert [fault.number for fault in planned] == list(range(1, len(planned) + 1))
    assert Counter(fault.kind for fault in planned[:rounds]) == {kind: kind.often for kind in KINDS}
    assert all(SHORTEST <= fault.seconds <= LONGEST for fault in planned)
    assert all(fault.seconds <= 1 for step in islice(steps(3, KINDS, 1.0), rounds) for fault in step.faults)


def test_two_faults_at_once_disturb_different_places() -> None:
    pairs = [step.faults for step in islice(steps(1, KINDS), 400) if len(step.faults) > 1]
    assert len(pairs) > 50
    assert all(first.kind.place != second.kind.place for first, second in pairs)


def test_only_faults_that_the_machine_can_do_are_planned() -> None:
    assert {emulated_side(seed) for seed in range(20)} == {SOURCE, TARGET}
    packets = {str(kind) for kind in KINDS}
    assert "link lossy (eu)" in packets
    assert "link lossy (us)" not in packets
    assert "link stalled (us)" in packets
    assert "link stalled (eu)" not in packets
    few = {str(kind) for kind in available(packets=None, disk=False, clock=False)}
    assert "link stalled (us)" in few
    assert "link stalled (eu)" in few
    assert not [name for name in few if name.startswith(("link lossy", "disk", "clock of twinlog"))]


def test_a_choice_is_among_what_exists() -> None:
    (fault,) = faults(5, 1)[:1]
    assert fault.pick([4]) == 4
    assert fault.pick(range(3)) in range(3)
