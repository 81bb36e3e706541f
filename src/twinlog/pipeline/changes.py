"""What an operator is told when topics come and go: one event for each kind of change, however many they are. Pure."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from twinlog.model import TopicPartition

_NAMED: Final = 5  # of many topics the first few are named
_WORDS: Final = {
    "new topic": "is copied from now on",
    "topic gone": "is no longer there, or no longer to be copied",
    "new partitions": "has more partitions",
    "partitions gone": "has fewer partitions",
}


def changes(before: Iterable[TopicPartition], after: Iterable[TopicPartition], now_ms: int) -> list[dict[str, Any]]:
    old, new = Counter(place.topic for place in before), Counter(place.topic for place in after)
    found: dict[str, list[str]] = {kind: [] for kind in _WORDS}
    for topic in sorted(old.keys() | new.keys()):
        if topic not in old:
            found["new topic"].append(f"{topic} ({_partitions(new[topic])})")
        elif topic not in new:
            found["topic gone"].append(topic)
        elif old[topic] != new[topic]:
            kind = "new partitions" if new[topic] > old[topic] else "partitions gone"
            found[kind].append(f"{topic} ({new[topic]} instead of {old[topic]})")
    return [
        {"time": now_ms, "kind": kind, "amount": len(topics), "text": _text(topics, _WORDS[kind])}
        for kind, topics in found.items()
        if topics
    ]


def _text(topics: list[str], words: str) -> str:
    if len(topics) == 1:
        return f"topic {topics[0]} {words}"
    others = f" and {len(topics) - _NAMED:,} more" if len(topics) > _NAMED else ""
    many = words.replace("is ", "are ", 1) if words.startswith("is ") else words.replace("has ", "have ", 1)
    return f"{len(topics):,} topics {many}: {', '.join(topics[:_NAMED])}{others}"


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"
