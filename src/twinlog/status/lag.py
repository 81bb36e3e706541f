"""A partition's lag in seconds. Pure.

A lag in records means little: a thousand may be a moment's work or a day's. So the source's end offsets are sampled
with their times: the lag is how long ago the source's end first passed the position.
"""

from typing import Final

Sample = tuple[float, int]  # time, the source's end then

_MAX_SAMPLES: Final = 32  # of a partition: a long lag is less precise than a short one


def add_sample(samples: list[Sample], now: float, end: int, position: int) -> None:
    """Keeps only what is needed: the newest end that was not beyond the position, and those after it."""
    if samples and end < samples[-1][1]:  # the topic was re-created, or its log truncated
        samples.clear()
    if not samples or end > samples[-1][1]:
        if samples and now < samples[-1][0]:  # the clock was adjusted, or it is another task's
            now = samples[-1][0]
        samples.append((now, end))
    passed = 0
    while passed + 1 < len(samples) and samples[passed + 1][1] <= position:
        passed += 1
    del samples[:passed]
    if len(samples) > _MAX_SAMPLES:
        # Drop the one closest to its neighbours, so that all are about equally far apart.
        closest = min(range(1, len(samples) - 1), key=lambda at: samples[at + 1][0] - samples[at - 1][0])
        del samples[closest]


def lag_seconds(
    now: float, position: int, end: int, samples: list[Sample], newest_copied: float | None
) -> float | None:
    """0 if nothing is behind; None if it is not known. `newest_copied` is the time of the newest record copied."""
    if position < 0 or end < 0:
        return None
    if position >= end:
        return 0.0
    if samples and samples[0][1] <= position:  # the samples reach back far enough
        for when, then in samples:
            if then > position:
                return max(now - when, 0.0)
    return None if newest_copied is None else max(now - newest_copied, 0.0)
