"""Events about topics that were added, removed or resized: one event per kind of change. Pure."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from twinlog.model import TopicPartition

_MAX_NAMED: Final = 5
_TEXTS: Final = {
    "new topic": "now replicated",
    "topic gone": "deleted, or no longer selected",
    "new partitions": "partitions added",
    "partitions gone": "partitions removed",
}


def changes(before: Iterable[TopicPartition], after: Iterable[TopicPartition], now_ms: int) -> list[dict[str, Any]]:
    old, new = Counter(tp.topic for tp in before), Counter(tp.topic for tp in after)
    found: dict[str, dict[str, str]] = {kind: {} for kind in _TEXTS}  # by topic: how the text calls it
    for topic in sorted(old.keys() | new.keys()):
        if topic not in old:
            found["new topic"][topic] = f"{topic} ({_partitions(new[topic])})"
        elif topic not in new:
            found["topic gone"][topic] = topic
        elif old[topic] != new[topic]:
            kind = "new partitions" if new[topic] > old[topic] else "partitions gone"
            found[kind][topic] = f"{topic} ({_partitions(new[topic])}, was {old[topic]:,})"
    return [
        {
            "time": now_ms,
            "kind": kind,
            "amount": len(topics),
            "text": _text(list(topics.values()), _TEXTS[kind]),
            "topics": list(topics)[:_MAX_NAMED],
        }
        for kind, topics in found.items()
        if topics
    ]


def _text(topics: list[str], text: str) -> str:
    if len(topics) == 1:
        return f"topic {topics[0]}: {text}"
    others = f" and {len(topics) - _MAX_NAMED:,} more" if len(topics) > _MAX_NAMED else ""
    return f"{len(topics):,} topics {text}: {', '.join(topics[:_MAX_NAMED])}{others}"


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"
