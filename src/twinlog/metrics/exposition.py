"""The text of /metrics. 10,000 partitions are some 200,000 lines, so no object per line and cached labels."""

import math
import threading
from collections.abc import Collection
from typing import Any

from twinlog.connect.worker_api import Worker
from twinlog.metrics import mm2, mm2_new, own
from twinlog.metrics.metric import Metric, Section
from twinlog.metrics.scrape import Scraper
from twinlog.metrics.text_format import head, number
from twinlog.status.flow_board import FlowBoard

SECTIONS: tuple[Section[Any], ...] = (*own.SECTIONS, *mm2.SECTIONS)
_ALL = (*SECTIONS, *mm2_new.SECTIONS)  # the last only for connectors with that format


class Exposition:
    """Thread-safe: scrapes run one at a time."""

    def __init__(self, board: FlowBoard, worker: Worker | None = None) -> None:
        self._scraper = Scraper(board, worker)
        self._lock = threading.Lock()

    def text(self, names: Collection[str] = ()) -> str:
        """All metrics, or only those in `names`."""
        with self._lock:
            scrape = self._scraper.scrape()
            parts: list[str] = []
            for section in _ALL:
                metrics = [each for each in section.metrics if not names or each.name in names]
                if not metrics:
                    continue
                rows = list(section.rows(scrape))
                labels, items = [label for label, _ in rows], [item for _, item in rows]
                for metric in metrics:
                    lines = _lines(metric, labels, items)
                    if lines:
                        parts.append(head(metric.name, metric.kind, metric.help))
                        parts += lines
            return "".join(parts)


def _lines(metric: Metric[Any], labels: list[str], items: list[Any]) -> list[str]:
    name = metric.name
    values: list[Any] = [*map(metric.value, items)]
    try:
        finite = math.isfinite(sum(values))
    except (TypeError, OverflowError):  # some are None, or too large for a float
        finite = False
    rows = zip(labels, values, strict=True)
    if finite and metric.rounded:
        return [f"{name}{label} {value:.3f}\n" for label, value in rows]
    if finite:
        return [f"{name}{label} {value}\n" for label, value in rows]
    return [
        f"{name}{label} {number(value, rounded=metric.rounded)}\n"
        for label, value in rows
        if value is not None or metric.nan
    ]
