"""Stores of offset syncs, and what they say."""

from collections.abc import Iterable

from twinlog.mm2.offset_syncs import OffsetSync
from twinlog.mm2.offset_translation import OffsetSyncStore
from twinlog.model import TopicPartition

T0 = TopicPartition("t", 0)


def sync(up: int, down: int | None = None, since: int | None = None) -> OffsetSync:
    return OffsetSync("t", 0, up, up if down is None else down, since)


def ready(*syncs: OffsetSync) -> OffsetSyncStore:
    store = OffsetSyncStore()
    store.finish_initial_read()
    for each in syncs:
        store.add(each)
    return store


def slots(store: OffsetSyncStore) -> list[tuple[int, int]]:
    """Of each different sync the first slot, and its upstream offset."""
    kept = store._known[T0].slots
    return [(at, one.upstream) for at, one in enumerate(kept) if at == 0 or one is not kept[at - 1]]


def translated(store: OffsetSyncStore, upstreams: Iterable[int]) -> list[int]:
    found = [store.translate(T0, upstream) for upstream in upstreams]
    return [each for each in found if each is not None]
