"""How much each partition carries, from what tasks report. Pure."""

from typing import Final

from twinlog.model import TopicPartition
from twinlog.tracking.journal import Report

_WEIGHT: Final = 0.3  # of the newest report; the older ones fade
_QUIET_MS: Final = 15_000  # one in which something moves is reported every second


class Loads:
    def __init__(self) -> None:
        self._seen: dict[TopicPartition, tuple[int, int, int]] = {}  # epoch, time, bytes
        self._rates: dict[TopicPartition, float] = {}
        self._now_ms = 0  # by the clocks of those who report

    def add(self, report: Report) -> None:
        self._now_ms = max(self._now_ms, report.time_ms)
        for content in report.partitions.values():
            try:
                place = TopicPartition(content["topic"], content["partition"])
                count = int(content["bytes"])
            except (KeyError, TypeError, ValueError):
                continue
            epoch, at, before = self._seen.get(place, (report.epoch, 0, 0))
            if at and epoch == report.epoch and count >= before and report.time_ms > at:
                rate = (count - before) * 1000 / (report.time_ms - at)
                self._rates[place] = self._rates.get(place, rate) * (1 - _WEIGHT) + rate * _WEIGHT
            self._seen[place] = (report.epoch, report.time_ms, count)

    def rates(self) -> dict[TopicPartition, float]:
        """Bytes per second. Who has been silent for long carries nothing now, whatever it once did."""
        return {
            place: rate if self._now_ms - self._seen[place][1] <= _QUIET_MS else 0.0
            for place, rate in self._rates.items()
        }
