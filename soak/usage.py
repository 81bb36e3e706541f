"""Memory and file descriptors of Twinlog's processes, sampled, and whether they grow."""

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import resource_usage
from soak.replicator import Replicator

_EVERY_SECONDS = 5.0
_SETTLED_SECONDS = 60.0  # of relaying: until then the JVM and Python's caches grow
_ENOUGH = 12  # samples
_GROWTH = 0.3
_MEMORY_SLACK = 150_000_000
_DESCRIPTOR_SLACK = 60


@dataclass(frozen=True, slots=True)
class Sample:
    """`age`: for how many seconds the instance has been relaying."""

    instance: int
    age: float
    pss: int
    descriptors: int


@dataclass(frozen=True, slots=True)
class Growth:
    """Of the instance that ran longest: medians of its first and last third, once it has settled."""

    instance: int
    seconds: float
    pss: tuple[int, int]
    descriptors: tuple[int, int]

    @property
    def findings(self) -> list[str]:
        found = []
        if _grown(*self.pss, _MEMORY_SLACK):
            found.append(f"memory grew from {self.pss[0] / 1e6:.0f} to {self.pss[1] / 1e6:.0f} MB")
        if _grown(*self.descriptors, _DESCRIPTOR_SLACK):
            found.append(f"file descriptors grew from {self.descriptors[0]} to {self.descriptors[1]}")
        return [f"{each} within {self.seconds:.0f} s (instance {self.instance})" for each in found]


def growth(samples: Sequence[Sample]) -> Growth | None:
    """None if no instance ran for long enough."""
    settled: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.age >= _SETTLED_SECONDS:
            settled.setdefault(sample.instance, []).append(sample)
    longest = max(settled.values(), key=len, default=[])
    if len(longest) < _ENOUGH:
        return None
    third = len(longest) // 3
    first, last = longest[:third], longest[-third:]

    def medians(values: Sequence[Sequence[int]]) -> tuple[int, int]:
        return int(statistics.median(values[0])), int(statistics.median(values[1]))

    return Growth(
        longest[0].instance,
        longest[-1].age - longest[0].age,
        medians([[each.pss for each in part] for part in (first, last)]),
        medians([[each.descriptors for each in part] for part in (first, last)]),
    )


def _grown(before: int, after: int, slack: int) -> bool:
    return after > before * (1 + _GROWTH) and after > before + slack


class Sampler:
    """A thread. `samples` stays empty where there is no /proc."""

    def __init__(self, replicator: Replicator) -> None:
        self._replicator = replicator
        self._closing = threading.Event()
        self.samples: list[Sample] = []
        self._since: dict[int, float] = {}
        self._thread = threading.Thread(target=self._work, name="usage", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._closing.wait(_EVERY_SECONDS):
            instance = self._replicator.current
            if not instance.relaying:
                continue
            since = self._since.setdefault(instance.number, time.monotonic())
            pids = instance.processes()
            pss = resource_usage.pss_bytes(instance.pid)
            if pids and pss:
                age = time.monotonic() - since
                self.samples.append(Sample(instance.number, age, pss, sum(map(_descriptors, pids))))


def _descriptors(pid: int) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return 0
