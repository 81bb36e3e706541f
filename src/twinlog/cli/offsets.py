"""`twinlog offsets translate` and `twinlog upstream`: results of a MirrorClient as tables, JSON and CSV."""

import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from twinlog.config import Config
from twinlog.config.problems import did_you_mean
from twinlog.errors import KafkaError
from twinlog.failover import MirrorClient, RemoteCheckpoints, Upstream, group_pattern
from twinlog.text import amount, counted, table

_SPANS = ((48 * 3600, 86400, "days"), (2 * 3600, 3600, "hours"), (120, 60, "min"))


def translate(
    config: Config, source: str, target: str, *, group: str | None, pattern: str | None, timeout: float
) -> RemoteCheckpoints:
    """Reads the checkpoints of one group, or of those that match, from `target`. None at all is an error: a script that
    continued without offsets would move consumers to wherever auto.offset.reset sends them.
    """
    matches = group_pattern(pattern) if pattern is not None else None
    with MirrorClient.for_cluster(config, target, source) as client:
        found = client.checkpoints(
            source, timeout, lambda each: bool(matches.fullmatch(each)) if matches else each == group
        )
    if found.skipped:
        records = f"{counted(found.skipped, 'record')} of {found.topic} on {target}"
        print(f"twinlog: warning: {records} skipped: malformed", file=sys.stderr)
    if not found.groups:
        wanted = f"any group that matches {pattern}" if group is None else f"group {group}"
        near = did_you_mean(group or "", found.others)
        count = f"it has checkpoints of {counted(len(found.others), 'group')}" if found.others else "it is empty"
        raise KafkaError(
            f"cluster {target}: {found.topic} has no checkpoint of {wanted}{near} ({count}); check that the group has "
            f"committed offsets on {source} for replicated topics, and that groups and groups.exclude select it"
        )
    return found


def as_text(found: RemoteCheckpoints, now_ms: float | None = None) -> str:
    rows = [("group", "topic", "partition", "offset", "metadata")]
    for group in sorted(found.groups):
        rows += [
            (_printable(group), tp.topic, str(tp.partition), str(at.offset), _printable(at.metadata))
            for tp, at in sorted(found.offsets(group).items())
        ]
    ages = [(_printable(group), _when(found.written_ms[group], now_ms)) for group in sorted(found.groups)]
    return "\n".join([*table(rows, ""), "", *table([("group", "newest checkpoint"), *ages], "")])


def as_json(found: RemoteCheckpoints, source: str, target: str) -> str:
    groups = [
        {
            "group": group,
            "newest_checkpoint_ms": found.written_ms[group],
            "offsets": [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "offset": checkpoint.downstream,
                    "source_offset": checkpoint.upstream,
                    "metadata": checkpoint.metadata,
                }
                for tp, checkpoint in sorted(found.groups[group].items())
            ],
        }
        for group in sorted(found.groups)
    ]
    content = {"from": source, "to": target, "topic": found.topic, "groups": groups, "skipped_records": found.skipped}
    return _dumped(content)


def as_csv(found: RemoteCheckpoints, group: str) -> str:
    """For `kafka-consumer-groups --reset-offsets --from-file`."""
    return "\n".join(f"{tp.topic},{tp.partition},{at.offset}" for tp, at in sorted(found.offsets(group).items()))


def upstreams(config: Config, cluster: str, source: str | None = None) -> list[Upstream]:
    with MirrorClient.for_cluster(config, cluster, source) as client:
        return client.upstreams()


def upstreams_as_text(found: Sequence[Upstream], cluster: str, now_ms: float | None = None) -> str:
    if not found:
        return f"{cluster} has no upstream clusters: it has no heartbeats of other clusters"
    rows = [("cluster", "hops", "heartbeats topic", "newest heartbeat", "remote topics")]
    rows += [
        (
            each.alias,
            str(each.hops),
            each.heartbeats_topic,
            "none readable" if each.heartbeat_ms is None else _when(each.heartbeat_ms, now_ms),
            amount(len(each.remote_topics)),
        )
        for each in found
    ]
    return "\n".join(table(rows, ""))


def upstreams_as_json(found: Sequence[Upstream], cluster: str) -> str:
    return _dumped(
        {
            "cluster": cluster,
            "upstream": [
                {
                    "cluster": each.alias,
                    "hops": each.hops,
                    "heartbeats_topic": each.heartbeats_topic,
                    "newest_heartbeat_ms": each.heartbeat_ms,
                    "remote_topics": each.remote_topics,
                }
                for each in found
            ],
        }
    )


def _dumped(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False)


def _printable(text: str) -> str:
    """Groups and metadata may contain anything: a line break must not break the table."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _when(time_ms: int, now_ms: float | None) -> str:
    """`2026-05-01 12:00:00 UTC (12 s ago)`."""
    if not 0 < time_ms < 1 << 47:  # no timestamp, or one out of range
        return "unknown"
    now = time.time() if now_ms is None else now_ms / 1000
    seconds = max(now - time_ms / 1000, 0)
    age = next((f"{seconds / unit:.0f} {name}" for least, unit, name in _SPANS if seconds >= least), f"{seconds:.0f} s")
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC ({age} ago)"
