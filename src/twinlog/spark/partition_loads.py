"""Bytes per second of each partition, from task reports. Pure."""

from typing import Final

from twinlog.journal.messages import Report
from twinlog.model import TopicPartition

_WEIGHT: Final = 0.3  # of the newest report in the moving average
_IDLE_MS: Final = 15_000  # active partitions are reported every second


class Loads:
    def __init__(self) -> None:
        self._last: dict[TopicPartition, tuple[int, int, int]] = {}  # epoch, time, bytes
        self._rates: dict[TopicPartition, float] = {}
        self._now_ms = 0  # by the reporters' clocks

    def add(self, report: Report) -> None:
        self._now_ms = max(self._now_ms, report.time_ms)
        for content in report.partitions.values():
            try:
                tp = TopicPartition(content["topic"], content["partition"])
                count = int(content["bytes"])
            except (KeyError, TypeError, ValueError):
                continue
            epoch, at, before = self._last.get(tp, (report.epoch, 0, 0))
            if at and epoch == report.epoch and count >= before and report.time_ms > at:
                rate = (count - before) * 1000 / (report.time_ms - at)
                self._rates[tp] = self._rates.get(tp, rate) * (1 - _WEIGHT) + rate * _WEIGHT
            self._last[tp] = (report.epoch, report.time_ms, count)

    def rates(self) -> dict[TopicPartition, float]:
        """Bytes per second; 0 for partitions without a recent report."""
        return {tp: rate if self._now_ms - self._last[tp][1] <= _IDLE_MS else 0.0 for tp, rate in self._rates.items()}
