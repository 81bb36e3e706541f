"""How long a partition is behind, in seconds. Pure.

A lag in records says little: a thousand are a moment here and a day there. So the ends that the source had are kept,
with their times: the lag is how long ago the source's end first passed our position.
"""

from typing import Final

Sample = tuple[float, int]  # when, the source's end then

_MOST: Final = 32  # samples of a partition: a long lag is told more coarsely than a short one


def note(samples: list[Sample], now: float, end: int, position: int) -> None:
    """Keeps what is needed: the newest end that was not beyond the position, and those after it."""
    if samples and end < samples[-1][1]:  # another topic of that name, or its log was cut off
        samples.clear()
    if not samples or end > samples[-1][1]:
        if samples and now < samples[-1][0]:  # a clock that was set, or another task's
            now = samples[-1][0]
        samples.append((now, end))
    passed = 0
    while passed + 1 < len(samples) and samples[passed + 1][1] <= position:
        passed += 1
    del samples[:passed]
    if len(samples) > _MOST:
        # The one that says least goes, so that all are about equally far apart.
        closest = min(range(1, len(samples) - 1), key=lambda at: samples[at + 1][0] - samples[at - 1][0])
        del samples[closest]


def lag_seconds(
    now: float, position: int, end: int, samples: list[Sample], newest_copied: float | None
) -> float | None:
    """0 where nothing is behind; None where nobody knows. `newest_copied` is the time of the newest record copied."""
    if position < 0 or end < 0:
        return None
    if position >= end:
        return 0.0
    if samples and samples[0][1] <= position:  # they reach back far enough
        for when, then in samples:
            if then > position:
                return max(now - when, 0.0)
    return None if newest_copied is None else max(now - newest_copied, 0.0)
