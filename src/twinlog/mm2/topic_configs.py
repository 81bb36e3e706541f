"""MM2's rules for copying a topic's configs to its remote topic. Pure.

MM2 writes every config at each interval. Here only differences are written; the result is the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from twinlog.kafka.resources import (
    STATIC_BROKER_CONFIG,
    TOPIC_CONFIG,
    ConfigChange,
    ConfigEntry,
)

Accepts = Callable[[str], bool]
T = TypeVar("T")


Entries = Mapping[str, ConfigEntry]


def copyable(entries: Iterable[ConfigEntry], accepts: Accepts) -> list[ConfigEntry]:
    """The configs that may be copied. Static broker configs apply to that broker only."""
    return [
        entry
        for entry in entries
        if not entry.read_only and not entry.sensitive and entry.source != STATIC_BROKER_CONFIG and accepts(entry.name)
    ]


def for_new_topic(entries: Entries, accepts: Accepts, *, defaults_from_source: bool) -> dict[str, str]:
    """The configs with which a remote topic is created."""
    return {
        entry.name: entry.value
        for entry in copyable(entries.values(), accepts)
        if entry.value is not None and (defaults_from_source or not entry.is_default)
    }


def changes(source: Entries, target: Entries, accepts: Accepts, *, defaults_from_source: bool) -> list[ConfigChange]:
    """The changes to an existing remote topic. Empty: it is up to date.

    A value that equals the target's default is written, too, as by MM2: the default may change.
    """
    found = []
    for entry in copyable(source.values(), accepts):
        current = target.get(entry.name)
        own = current is not None and current.source == TOPIC_CONFIG
        if entry.is_default and not defaults_from_source:
            if own:
                found.append(ConfigChange(entry.name, None))
        elif entry.value is not None and not (own and current is not None and current.value == entry.value):
            found.append(ConfigChange(entry.name, entry.value))
    return found


def known_to(target: Entries, wanted: Iterable[ConfigChange]) -> tuple[list[ConfigChange], list[ConfigChange]]:
    """(changes of configs that the target supports, others). Its brokers list every config that they support."""
    known: list[ConfigChange] = []
    unknown: list[ConfigChange] = []
    for change in wanted:
        (known if change.name in target else unknown).append(change)
    return known, unknown


def acceptable(wanted: Sequence[T], accepted: Callable[[list[T]], bool]) -> tuple[list[T], list[T]]:
    """(those that the target accepts together, those that it refuses), as one invalid config fails the whole request.

    A config may be valid only together with another (local.retention.ms with retention.ms), so refused ones are tried
    again as long as that helps.
    """
    accepted_ones: list[T] = []
    refused = list(wanted)
    while True:
        still = []
        for each in refused:
            if accepted([*accepted_ones, each]):
                accepted_ones.append(each)
            else:
                still.append(each)
        if not still or len(still) == len(refused):
            return [each for each in wanted if each in accepted_ones], still
        refused = still
