"""The fields of a partition's status: one table for reports, snapshots, `twinlog status --json`, the page and metrics.

To add a field: a row of FIELDS, an attribute of PartitionStatus (status/partition.py) and, if tasks report it, a value
in `report_of` (replicate/progress.py). To add a counter: a row of COUNTERS, and an attribute of Counters
(replicate/partition.py) that tasks increase. Tests compare all of these with the tables. Pure.
"""

from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, Final


class Output(Flag):
    REPORT = auto()  # of a task, in the journal
    SNAPSHOT = auto()  # in the order of PartitionStatus
    CLI = auto()  # `twinlog status --json`, in the order of FIELDS
    PAGE = auto()  # the page's table of partitions, in the order of FIELDS


REPORT, SNAPSHOT, CLI, PAGE = Output


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: type[Any]
    outputs: Output
    optional: bool = False  # may be None


FIELDS: Final = (
    Field("topic", str, REPORT | SNAPSHOT | CLI),
    Field("partition", int, REPORT | SNAPSHOT | CLI | PAGE),
    Field("remote", str, REPORT | SNAPSHOT | CLI),
    Field("state", str, REPORT | SNAPSHOT | CLI | PAGE),
    Field("lane", str, REPORT | SNAPSHOT | CLI | PAGE),
    Field("position", int, REPORT | SNAPSHOT | CLI | PAGE),
    Field("end", int, REPORT | SNAPSHOT | CLI | PAGE),
    Field("stable", int, REPORT | SNAPSHOT),
    Field("start", int, REPORT | SNAPSHOT | CLI | PAGE),
    Field("target", int, REPORT | SNAPSHOT | CLI | PAGE),
    Field("until", int, REPORT | SNAPSHOT, optional=True),
    Field("lag", int, CLI | PAGE),
    Field("lag_seconds", float, CLI | PAGE, optional=True),
    Field("error", str, REPORT | SNAPSHOT | CLI | PAGE),
    Field("error_since", float, SNAPSHOT),
    Field("level", str, PAGE),
    Field("waits", str, CLI | PAGE),
    Field("epoch", int, SNAPSHOT),
    Field("task", int, SNAPSHOT | CLI | PAGE),
    Field("executor", str, PAGE),
    Field("records_per_s", float, CLI | PAGE),
    Field("bytes_per_s", float, CLI | PAGE),
    Field("latency", list, REPORT),  # count, sum, minimum, maximum since the last report
    Field("latency_ms", float, REPORT | SNAPSHOT | CLI | PAGE),
    Field("latency_avg_ms", float, CLI, optional=True),
    Field("latency_max_ms", float, CLI | PAGE, optional=True),
    Field("age", list, REPORT),  # likewise
    Field("age_ms", float, REPORT | SNAPSHOT, optional=True),
    Field("age_avg_ms", float, CLI, optional=True),
    Field("newest_copied", float, SNAPSHOT, optional=True),
)


@dataclass(frozen=True, slots=True)
class Counter:
    """Reported, stored, and shown by `twinlog status --json`, per partition and per flow."""

    name: str
    metric: str  # of a topic
    help: str
    divisor: int = 1  # of the metric: Prometheus counts seconds
    page: bool = False  # in the page's table of partitions, too


COUNTERS: Final = (  # snapshots have this order
    Counter("records", "twinlog_topic_records_total", "Records acknowledged by the target", page=True),
    Counter("bytes", "twinlog_topic_bytes_total", "Bytes of record batches acknowledged by the target, as compressed"),
    Counter("batches", "twinlog_topic_batches_total", "Record batches acknowledged by the target"),
    Counter(
        "rebuilt",
        "twinlog_topic_rebuilt_batches_total",
        "Record batches that had to be decompressed and rebuilt, which costs CPU",
    ),
    Counter(
        "lost",
        "twinlog_lost_records_total",
        "Source offsets deleted before they were replicated (retention, or a re-created topic)",
        page=True,
    ),
    Counter("foreign", "twinlog_foreign_records_total", "Records in the remote topic written by another producer"),
    Counter("duplicates", "twinlog_duplicate_records_total", "Records possibly duplicated on the target"),
    Counter("skipped", "twinlog_skipped_records_total", "Records rejected by the target"),
    Counter(
        "recoveries",
        "twinlog_recoveries_total",
        "Recoveries of partitions: the position to resume from had to be determined again",
    ),
    Counter(
        "stalls",
        "twinlog_stalls_total",
        "Reconnects of partitions after 30 s without progress and without a known reason",
    ),
    Counter(
        "source_throttled_ms",
        "twinlog_source_throttled_seconds_total",
        "Time that a quota on the source throttled partitions with lag, summed over partitions",
        divisor=1000,
    ),
    Counter(
        "target_throttled_ms",
        "twinlog_target_throttled_seconds_total",
        "Time that a quota on the target throttled partitions with lag, summed over partitions",
        divisor=1000,
    ),
)
COUNTER_NAMES: Final = tuple(each.name for each in COUNTERS)


def fields_in(outputs: Output) -> tuple[Field, ...]:
    """Those of any of these outputs."""
    return tuple(each for each in FIELDS if outputs & each.outputs)
