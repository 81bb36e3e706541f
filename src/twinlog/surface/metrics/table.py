"""What a metric is: its name, what it means, and how it is got from what one scrape sees."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from twinlog.surface.metrics.view import View

Row = TypeVar("Row")
Number = float | int | None


@dataclass(frozen=True, slots=True)
class Metric(Generic[Row]):
    name: str
    kind: str  # counter or gauge
    help: str
    value: Callable[[Row], Number]  # None: no value, and so no line, or NaN
    note: str = ""  # for docs: where it is not quite what MM2's is
    nan: bool = False  # NaN where there is no value, as MM2 has it
    rounded: bool = False  # to thousandths: all digits of a float take most of the time that a line takes


@dataclass(frozen=True, slots=True)
class Section(Generic[Row]):
    """Metrics that have the same labels, and so the same rows."""

    title: str
    about: str
    labels: tuple[str, ...]
    rows: Callable[[View], Iterable[tuple[str, Row]]]  # the labels as text, and what the metrics' values are got from
    metrics: tuple[Metric[Row], ...]


def gauge(
    name: str,
    help_text: str,
    value: Callable[[Row], Number],
    note: str = "",
    *,
    nan: bool = False,
    rounded: bool = False,
) -> Metric[Row]:
    return Metric(name, "gauge", help_text, value, note, nan, rounded)


def counter(name: str, help_text: str, value: Callable[[Row], Number], note: str = "") -> Metric[Row]:
    return Metric(name, "counter", help_text, value, note)
