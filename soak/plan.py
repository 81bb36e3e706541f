"""Which faults happen, in which order and for how long: decided by a seed alone, so a run can be repeated. Pure."""

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeVar

SOURCE, TARGET = "us", "eu"
SIDES = (SOURCE, TARGET)
SHORTEST, LONGEST = 3.0, 8.0  # seconds that a fault lasts
_TOGETHER = 0.25  # the share of steps with two faults at once
_MAX_CHOICE = 1 << 30

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind:
    """`place` is what it disturbs: two faults at once are of different places. `often`: per round of all kinds."""

    name: str
    place: str
    side: str = ""
    often: int = 1

    def __str__(self) -> str:
        return f"{self.name} ({self.side})" if self.side else self.name


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """`choice` selects the broker, partition or process, among those that exist when it begins."""

    number: int
    kind: Kind
    seconds: float
    choice: int

    def pick(self, options: Collection[T]) -> T:
        return list(options)[self.choice % len(options)]


@dataclass(frozen=True, slots=True)
class Step:
    """Faults that begin together, and the pause after recovery from them."""

    faults: tuple[PlannedFault, ...]
    pause: float

    @property
    def seconds(self) -> float:
        return max(each.seconds for each in self.faults)


_BROKERS = ("broker killed", "broker suspended", "two brokers killed", "leaders moved", "partition reassigned")
# A link whose packets pass an emulator can lose them; one through a proxy can lose responses, or be reset.
PACKETS = ("link cut", "link lossy", "link slow")
PROXIED = ("connections reset", "link stalled", "responses lost", "connections refused")
DISK = ("disk full", "disk read-only")

ALL = (
    *(Kind(name, f"brokers of {side}", side) for name in _BROKERS for side in SIDES),
    *(Kind("rolling restart", f"brokers of {side}", side) for side in SIDES),
    *(Kind(name, f"brokers of {TARGET}", TARGET) for name in DISK),
    *(Kind(name, f"link to {side}", side) for name in (*PACKETS, *PROXIED) for side in SIDES),
    Kind("partitions added", "topics"),
    Kind("burst of records", "producers", often=2),
    Kind("driver killed", "twinlog"),
    Kind("JVM killed", "twinlog"),
    Kind("worker killed", "twinlog", often=3),
    Kind("driver suspended", "twinlog"),
    Kind("JVM suspended", "twinlog"),
    Kind("worker suspended", "twinlog", often=2),
    Kind("all processes suspended", "twinlog"),
    Kind("SIGTERM and restart", "twinlog"),
    Kind("second instance", "twinlog"),
    Kind("password changed", "twinlog"),
    Kind("clock of twinlog stepped", "twinlog clock"),
    Kind("clock of the producers stepped", "producers"),
)  # fmt: skip


def available(*, packets: str | None, disk: bool, clock: bool) -> tuple[Kind, ...]:
    """The kinds that this machine can do. `packets` is the side whose link passes an emulator; the other is proxied."""

    def possible(kind: Kind) -> bool:
        if kind.name in PACKETS:
            return kind.side == packets
        if kind.name in PROXIED:
            return kind.side != packets
        if kind.name in DISK:
            return disk
        return clock or kind.name != "clock of twinlog stepped"

    return tuple(filter(possible, ALL))


def emulated_side(seed: int) -> str:
    """The side whose link can lose packets, if there is an emulator."""
    return random.Random(seed).choice(SIDES)  # noqa: S311  (repeatable, not secret)


def steps(seed: int, kinds: Collection[Kind], longest: float = LONGEST) -> Iterator[Step]:
    """Endless. Each round has every kind, in a random order: a short run has as many kinds as possible."""
    dice = random.Random(seed)  # noqa: S311
    number = 0
    waiting: list[Kind] = []
    while True:
        if not waiting:
            waiting = [kind for kind in kinds for _ in range(kind.often)]
            dice.shuffle(waiting)
        chosen = [waiting.pop()]
        if dice.random() < _TOGETHER:
            other = next((kind for kind in reversed(waiting) if kind.place != chosen[0].place), None)
            if other is not None:
                waiting.remove(other)
                chosen.append(other)
        faults = []
        for kind in chosen:
            number += 1
            faults.append(
                PlannedFault(number, kind, dice.uniform(min(SHORTEST, longest), longest), dice.randrange(_MAX_CHOICE))
            )
        yield Step(tuple(faults), dice.uniform(0.0, 2.0))
