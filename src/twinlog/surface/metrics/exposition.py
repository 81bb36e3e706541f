"""The whole text of /metrics. 10,000 partitions are some 200,000 lines: no object per line, labels written once."""

import math
import threading
from collections.abc import Collection
from typing import Any

from twinlog.connect.api import Worker
from twinlog.status.board import Board
from twinlog.surface.metrics import mm2, own
from twinlog.surface.metrics.table import Metric, Section
from twinlog.surface.metrics.text import head, number
from twinlog.surface.metrics.view import Viewer

SECTIONS: tuple[Section[Any], ...] = (*own.SECTIONS, *mm2.SECTIONS)


class Exposition:
    """Safe to be asked by several at a time: one after the other is served."""

    def __init__(self, board: Board, worker: Worker | None = None) -> None:
        self._viewer = Viewer(board, worker)
        self._lock = threading.Lock()

    def text(self, names: Collection[str] = ()) -> str:
        """All of it, or only the metrics that are named."""
        with self._lock:
            view = self._viewer.look()
            parts: list[str] = []
            for section in SECTIONS:
                metrics = [each for each in section.metrics if not names or each.name in names]
                if not metrics:
                    continue
                rows = list(section.rows(view))
                places, things = [label for label, _ in rows], [thing for _, thing in rows]
                for metric in metrics:
                    lines = _lines(metric, places, things)
                    if lines:
                        parts.append(head(metric.name, metric.kind, metric.help))
                        parts += lines
            return "".join(parts)


def _lines(metric: Metric[Any], places: list[str], things: list[Any]) -> list[str]:
    name = metric.name
    values: list[Any] = [*map(metric.value, things)]
    try:
        plain = math.isfinite(sum(values))
    except (TypeError, OverflowError):  # some are None, or beyond a float
        plain = False
    rows = zip(places, values, strict=True)
    if plain and metric.rounded:
        return [f"{name}{place} {value:.3f}\n" for place, value in rows]
    if plain:
        return [f"{name}{place} {value}\n" for place, value in rows]
    return [
        f"{name}{place} {number(value, rounded=metric.rounded)}\n"
        for place, value in rows
        if value is not None or metric.nan
    ]
