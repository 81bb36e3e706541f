"""The definition of a metric: name, type, help, and how its value is derived from a scrape."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from twinlog.metrics.scrape import Scrape

Row = TypeVar("Row")
Number = float | int | None


@dataclass(frozen=True, slots=True)
class Metric(Generic[Row]):
    name: str
    kind: str  # counter or gauge
    help: str
    value: Callable[[Row], Number]  # None: no series, or NaN
    note: str = ""  # for docs: difference from MM2
    nan: bool = False  # NaN if there is no value, as in MM2
    rounded: bool = False  # to thousandths: formatting all digits of a float takes most of the time


@dataclass(frozen=True, slots=True)
class Section(Generic[Row]):
    """Metrics with the same labels, and so the same rows."""

    title: str
    about: str
    labels: tuple[str, ...]
    rows: Callable[[Scrape], Iterable[tuple[str, Row]]]  # labels as text, and the argument of `value`
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
