"""Twinlog's own metrics, without a counterpart in MM2."""

import platform
from collections.abc import Callable, Iterator
from operator import attrgetter, itemgetter
from typing import Any, Final

from twinlog import __version__
from twinlog.journal.partition_fields import COUNTERS
from twinlog.metrics.counters import Totals
from twinlog.metrics.metric import Number, Section, counter, gauge
from twinlog.metrics.process import Usage
from twinlog.metrics.scrape import OF_PARTITION, OF_TOPIC, FlowScrape, Scrape
from twinlog.metrics.text_format import labels
from twinlog.status.partition import PartitionStatus
from twinlog.sync.group_status import GroupStatus

FLOW_STATES: Final = ("starting", "running", "retrying", "paused", "stopped", "finished", "silent")
LEVELS: Final = ("healthy", "lagging", "broken")

_OF_FLOW: Final = ("flow", "source", "target")
_OF_GROUP: Final = ("flow", "group", "topic", "partition", "side")
_OF_BUILD: Final = ("version", "python")


def _flow_labels(flow: FlowScrape) -> tuple[str, str, str]:
    return flow.status.name, flow.status.source, flow.status.target


def _flows(scrape: Scrape) -> Iterator[tuple[str, FlowScrape]]:
    for flow in scrape.flows:
        yield labels(_OF_FLOW, _flow_labels(flow)), flow


def _states(scrape: Scrape) -> Iterator[tuple[str, int]]:
    for flow in scrape.flows:
        for state in dict.fromkeys((*FLOW_STATES, flow.status.state)):
            yield labels((*_OF_FLOW, "state"), (*_flow_labels(flow), state)), int(state == flow.status.state)


def _levels(scrape: Scrape) -> Iterator[tuple[str, int]]:
    for flow in scrape.flows:
        found = flow.status.health().level
        for level in LEVELS:
            yield labels((*_OF_FLOW, "level"), (*_flow_labels(flow), level)), int(level == found)


def _events(scrape: Scrape) -> Iterator[tuple[str, int]]:
    for flow in scrape.flows:
        for kind, count in sorted(flow.counters.events.items()):
            yield labels((*_OF_FLOW, "kind"), (*_flow_labels(flow), kind)), count


def _topics(scrape: Scrape) -> Iterator[tuple[str, Totals]]:
    for flow in scrape.flows:
        yield from flow.topics


def _partitions(scrape: Scrape) -> Iterator[tuple[str, PartitionStatus]]:
    for flow in scrape.flows:
        yield from flow.own


def _groups(scrape: Scrape) -> Iterator[tuple[FlowScrape, GroupStatus, tuple[str | int, ...]]]:
    """With the label values common to all metrics of a group."""
    for flow in scrape.flows:
        for each in list(flow.status.groups):
            yield flow, each, (flow.status.name, each.group, each.source_topic, each.partition)


def _group_lags(scrape: Scrape) -> Iterator[tuple[str, Number]]:
    for _, each, values in _groups(scrape):
        yield labels(_OF_GROUP, (*values, "source")), each.source_lag
        yield labels(_OF_GROUP, (*values, "target")), each.target_lag


def _group_offsets(scrape: Scrape) -> Iterator[tuple[str, Number]]:
    for _, each, values in _groups(scrape):
        yield labels(_OF_GROUP, (*values, "source")), each.source_offset
        yield labels(_OF_GROUP, (*values, "checkpoint")), each.checkpoint_offset
        yield labels(_OF_GROUP, (*values, "target")), each.target_offset


def _group_ages(scrape: Scrape) -> Iterator[tuple[str, Number]]:
    for flow, each, values in _groups(scrape):
        yield labels(_OF_GROUP[:-1], values), flow.age(each.checkpoint_ms)


def _process(scrape: Scrape) -> Iterator[tuple[str, Usage]]:
    if scrape.usage is not None:
        yield "", scrape.usage


def _build(_: Scrape) -> Iterator[tuple[str, int]]:
    yield labels(_OF_BUILD, (__version__, platform.python_version())), 1


def _up(partition: PartitionStatus) -> int:
    return int(not partition.error and partition.state != "stopped")


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _total(at: int, divisor: int) -> Callable[[Totals], Number]:
    return itemgetter(at) if divisor == 1 else lambda totals: totals[at] / divisor


def _identity(value: Number) -> Number:
    return value


SECTIONS: Final[tuple[Section[Any], ...]] = (
    Section(
        "Flows",
        "`flow` is the flow's name (`us->eu`), as `twinlog status` shows it.",
        _OF_FLOW,
        _flows,
        (
            gauge(
                "twinlog_flow_up",
                "1 while the flow is running, or has finished (--once); otherwise 0",
                lambda flow: int(flow.status.state in {"running", "finished"}),
            ),
            gauge("twinlog_flow_tasks", "Tasks of the flow", lambda flow: flow.status.tasks),
            gauge("twinlog_flow_topics", "Replicated topics", lambda flow: len(flow.counters.topics)),
            gauge("twinlog_flow_partitions", "Replicated partitions", lambda flow: len(flow.own)),
            gauge("twinlog_epoch", "Current epoch (Spark micro-batch) of the flow", lambda flow: flow.status.epoch),
            counter("twinlog_starts_total", "Starts of the flow's Spark query", lambda flow: flow.counters.starts),
            gauge(
                "twinlog_report_age_seconds",
                "Time since the last report of the tasks in the journal on the target",
                lambda flow: flow.age(flow.status.reported_at * 1000),
            ),
            gauge(
                "twinlog_heartbeat_age_seconds",
                "Age of the flow's newest heartbeat on the target",
                lambda flow: flow.age(flow.status.heartbeat_ms),
            ),
            gauge(
                "twinlog_checkpoint_age_seconds",
                "Time since the flow's newest checkpoint; none is written while no group commits",
                lambda flow: flow.age(flow.status.checkpoint_ms),
            ),
            gauge(
                "twinlog_latency_p50_seconds",
                "Time from a record's timestamp to its acknowledgement by the target: recent median",
                lambda flow: _seconds(flow.status.latency_p50_ms),
            ),
            gauge(
                "twinlog_latency_p99_seconds",
                "Time from a record's timestamp to its acknowledgement by the target: recent 99th percentile",
                lambda flow: _seconds(flow.status.latency_p99_ms),
            ),
        ),
    ),
    Section(
        "State of flows",
        "One series per state; the value is 1 for the current one.",
        (*_OF_FLOW, "state"),
        _states,
        (gauge("twinlog_flow_state", f"1 for the current state: {', '.join(FLOW_STATES)}", _identity),),
    ),
    Section(
        "Health of flows",
        "One series per level; the value is 1 for the current one. `twinlog status` shows the reasons.",
        (*_OF_FLOW, "level"),
        _levels,
        (gauge("twinlog_flow_health", f"1 for the current health: {', '.join(LEVELS)}", _identity),),
    ),
    Section(
        "Events of flows",
        "A kind has a series after its first event.",
        (*_OF_FLOW, "kind"),
        _events,
        (counter("twinlog_events_total", "Events by kind, as logged by `twinlog run`", _identity),),
    ),
    Section(
        "Topics",
        "`topic` is the source topic. A topic that is not replicated any more has no series.",
        OF_TOPIC,
        _topics,
        tuple(counter(each.metric, each.help, _total(at, each.divisor)) for at, each in enumerate(COUNTERS)),
    ),
    Section(
        "Partitions",
        "`topic` is the source topic.",
        OF_PARTITION,
        _partitions,
        (
            gauge(
                "twinlog_lag_records",
                "Source offsets not replicated yet (including transaction markers)",
                attrgetter("lag"),
            ),
            gauge(
                "twinlog_lag_seconds",
                "How long the oldest unreplicated record has been on the source; 0 without lag",
                attrgetter("lag_seconds"),
                rounded=True,
            ),
            gauge("twinlog_partition_up", "0 while a partition has an error, otherwise 1", _up),
        ),
    ),
    Section(
        "Lag of groups",
        "`topic` is the source topic; `side` is `source` or `target`.",
        _OF_GROUP,
        _group_lags,
        (
            gauge(
                "twinlog_group_lag_records",
                "Lag of a consumer group on one side",
                _identity,
            ),
        ),
    ),
    Section(
        "Offsets of groups",
        "`side` is `source` (committed there), `checkpoint` (translated to the target) or `target` (committed there).",
        _OF_GROUP,
        _group_offsets,
        (gauge("twinlog_group_offset", "Offset of a consumer group", _identity),),
    ),
    Section(
        "Checkpoints of groups",
        "",
        _OF_GROUP[:-1],
        _group_ages,
        (gauge("twinlog_group_checkpoint_age_seconds", "Time since the group's newest checkpoint", _identity),),
    ),
    Section(
        "Process",
        "The `twinlog` process and its children: Spark's JVM and the Python workers on this machine. Linux only.",
        (),
        _process,
        (
            counter("twinlog_process_cpu_seconds_total", "User and system CPU time", attrgetter("cpu_seconds")),
            gauge(
                "twinlog_process_memory_bytes",
                "Memory in use; shared pages count once (proportional set size)",
                attrgetter("memory_bytes"),
            ),
            gauge("twinlog_processes", "Processes", attrgetter("processes")),
            gauge("twinlog_process_threads", "Threads", attrgetter("threads")),
            gauge(
                "process_start_time_seconds",
                "Start time of the twinlog process, in seconds since 1970",
                attrgetter("started_at"),
            ),
        ),
    ),
    Section(
        "Build",
        "",
        _OF_BUILD,
        _build,
        (gauge("twinlog_build_info", "Always 1; the versions are labels", _identity),),
    ),
)
