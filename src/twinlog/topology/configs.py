"""Which settings of a topic go to its remote topic: MM2's rules. Pure.

MM2 writes every setting again at each interval. Here only what differs is written; the outcome is the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

# Where a value comes from, by Kafka's numbers.
TOPIC_CONFIG: Final = 1
DYNAMIC_BROKER_CONFIG: Final = 2
DYNAMIC_DEFAULT_BROKER_CONFIG: Final = 3
STATIC_BROKER_CONFIG: Final = 4
DEFAULT_CONFIG: Final = 5

Accepts = Callable[[str], bool]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: int
    read_only: bool = False
    sensitive: bool = False

    @property
    def is_default(self) -> bool:
        """Kafka's own default. One that the operator gave to brokers is none, so it is copied."""
        return self.source == DEFAULT_CONFIG


@dataclass(frozen=True, slots=True)
class ConfigChange:
    name: str
    value: str | None  # None: the topic's own value goes, the broker's counts again


Entries = Mapping[str, ConfigEntry]


def kept(entries: Iterable[ConfigEntry], accepts: Accepts) -> list[ConfigEntry]:
    """Those that are synced at all. What a broker's file says is about that broker."""
    return [
        entry
        for entry in entries
        if not entry.read_only and not entry.sensitive and entry.source != STATIC_BROKER_CONFIG and accepts(entry.name)
    ]


def for_new_topic(entries: Entries, accepts: Accepts, *, defaults_from_source: bool) -> dict[str, str]:
    """What a remote topic is created with."""
    return {
        entry.name: entry.value
        for entry in kept(entries.values(), accepts)
        if entry.value is not None and (defaults_from_source or not entry.is_default)
    }


def changes(source: Entries, target: Entries, accepts: Accepts, *, defaults_from_source: bool) -> list[ConfigChange]:
    """What brings an existing remote topic to the source's state. Empty: it is there already.

    A value that is only the target's default is written all the same, as MM2 does: the default may change one day.
    """
    found = []
    for entry in kept(source.values(), accepts):
        there = target.get(entry.name)
        own = there is not None and there.source == TOPIC_CONFIG
        if entry.is_default and not defaults_from_source:
            if own:
                found.append(ConfigChange(entry.name, None))
        elif entry.value is not None and not (own and there is not None and there.value == entry.value):
            found.append(ConfigChange(entry.name, entry.value))
    return found


def known_to(target: Entries, wanted: Iterable[ConfigChange]) -> tuple[list[ConfigChange], list[ConfigChange]]:
    """(what the target can take, what it has never heard of). Its brokers list every property that they know."""
    known: list[ConfigChange] = []
    unknown: list[ConfigChange] = []
    for change in wanted:
        (known if change.name in target else unknown).append(change)
    return known, unknown


def acceptable(wanted: Sequence[T], accepted: Callable[[list[T]], bool]) -> tuple[list[T], list[T]]:
    """(those that the target takes together, those that it refuses), where it refuses the whole for one.

    One may be valid only beside another (local.retention.ms beside retention.ms), so the refused are tried again as
    long as that helps.
    """
    taken: list[T] = []
    refused = list(wanted)
    while True:
        still = []
        for each in refused:
            if accepted([*taken, each]):
                taken.append(each)
            else:
                still.append(each)
        if not still or len(still) == len(refused):
            return [each for each in wanted if each in taken], still
        refused = still
