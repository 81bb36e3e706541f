"""Twinlog's own metrics: what MM2 has no name for."""

import platform
from collections.abc import Iterator
from operator import attrgetter, itemgetter
from typing import Any, Final

from twinlog import __version__
from twinlog.status.partition import PartitionStatus
from twinlog.surface.metrics import tally
from twinlog.surface.metrics.process import Cost
from twinlog.surface.metrics.table import Number, Section, counter, gauge
from twinlog.surface.metrics.tally import Account
from twinlog.surface.metrics.text import labels
from twinlog.surface.metrics.view import OF_PARTITION, OF_TOPIC, FlowView, View
from twinlog.upkeep.group_look import GroupStatus

FLOW_STATES: Final = ("starting", "running", "retrying", "paused", "stopped", "finished", "silent")
LEVELS: Final = ("healthy", "lagging", "broken")

_OF_FLOW: Final = ("flow", "source", "target")
_OF_GROUP: Final = ("flow", "group", "topic", "partition", "side")
_OF_BUILD: Final = ("version", "python")


def _ends(flow: FlowView) -> tuple[str, str, str]:
    return flow.status.name, flow.status.source, flow.status.target


def _flows(view: View) -> Iterator[tuple[str, FlowView]]:
    for flow in view.flows:
        yield labels(_OF_FLOW, _ends(flow)), flow


def _states(view: View) -> Iterator[tuple[str, int]]:
    for flow in view.flows:
        for state in dict.fromkeys((*FLOW_STATES, flow.status.state)):
            yield labels((*_OF_FLOW, "state"), (*_ends(flow), state)), int(state == flow.status.state)


def _levels(view: View) -> Iterator[tuple[str, int]]:
    for flow in view.flows:
        found = flow.status.health().level
        for level in LEVELS:
            yield labels((*_OF_FLOW, "level"), (*_ends(flow), level)), int(level == found)


def _events(view: View) -> Iterator[tuple[str, int]]:
    for flow in view.flows:
        for kind, count in sorted(flow.tally.events.items()):
            yield labels((*_OF_FLOW, "kind"), (*_ends(flow), kind)), count


def _topics(view: View) -> Iterator[tuple[str, Account]]:
    for flow in view.flows:
        yield from flow.topics


def _partitions(view: View) -> Iterator[tuple[str, PartitionStatus]]:
    for flow in view.flows:
        yield from flow.own


def _groups(view: View) -> Iterator[tuple[FlowView, GroupStatus, tuple[str | int, ...]]]:
    """With the values of the labels that all metrics of a group have."""
    for flow in view.flows:
        for each in list(flow.status.groups):
            yield flow, each, (flow.status.name, each.group, each.source_topic, each.partition)


def _group_lags(view: View) -> Iterator[tuple[str, Number]]:
    for _, each, place in _groups(view):
        yield labels(_OF_GROUP, (*place, "source")), each.source_lag
        yield labels(_OF_GROUP, (*place, "target")), each.target_lag


def _group_offsets(view: View) -> Iterator[tuple[str, Number]]:
    for _, each, place in _groups(view):
        yield labels(_OF_GROUP, (*place, "source")), each.source_offset
        yield labels(_OF_GROUP, (*place, "checkpoint")), each.checkpoint_offset
        yield labels(_OF_GROUP, (*place, "target")), each.target_offset


def _group_ages(view: View) -> Iterator[tuple[str, Number]]:
    for flow, each, place in _groups(view):
        yield labels(_OF_GROUP[:-1], place), flow.age(each.checkpoint_ms)


def _process(view: View) -> Iterator[tuple[str, Cost]]:
    if view.cost is not None:
        yield "", view.cost


def _build(_: View) -> Iterator[tuple[str, int]]:
    yield labels(_OF_BUILD, (__version__, platform.python_version())), 1


def _up(partition: PartitionStatus) -> int:
    return int(not partition.error and partition.state != "stopped")


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _itself(value: Number) -> Number:
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
                "1 while the flow runs, or has copied all that was asked for; otherwise 0",
                lambda flow: int(flow.status.state in {"running", "finished"}),
            ),
            gauge("twinlog_flow_tasks", "Tasks that the flow is divided into", lambda flow: flow.status.tasks),
            gauge("twinlog_flow_topics", "Topics that are copied", lambda flow: len(flow.tally.topics)),
            gauge("twinlog_flow_partitions", "Partitions that are copied", lambda flow: len(flow.own)),
            gauge("twinlog_epoch", "The flow's epoch: a micro-batch of Spark's", lambda flow: flow.status.epoch),
            counter("twinlog_starts_total", "How often the flow's query was started", lambda flow: flow.tally.starts),
            gauge(
                "twinlog_report_age_seconds",
                "Since the tasks last reported, through the journal on the target",
                lambda flow: flow.age(flow.status.reported_at * 1000),
            ),
            gauge(
                "twinlog_heartbeat_age_seconds",
                "Age of the newest heartbeat of the flow that was seen on the target",
                lambda flow: flow.age(flow.status.heartbeat_ms),
            ),
            gauge(
                "twinlog_checkpoint_age_seconds",
                "Since the flow's newest checkpoint was written; none is due while no group moves",
                lambda flow: flow.age(flow.status.checkpoint_ms),
            ),
            gauge(
                "twinlog_latency_p50_seconds",
                "From a record's timestamp until the target had it: the median, of late",
                lambda flow: _seconds(flow.status.latency_p50_ms),
            ),
            gauge(
                "twinlog_latency_p99_seconds",
                "From a record's timestamp until the target had it: the 99th percentile, of late",
                lambda flow: _seconds(flow.status.latency_p99_ms),
            ),
        ),
    ),
    Section(
        "State of flows",
        "One series for each state; the one with 1 is the flow's.",
        (*_OF_FLOW, "state"),
        _states,
        (gauge("twinlog_flow_state", f"1 for the flow's state: {', '.join(FLOW_STATES)}", _itself),),
    ),
    Section(
        "Health of flows",
        "One series for each level; the one with 1 is the flow's. `twinlog status` gives the reasons.",
        (*_OF_FLOW, "level"),
        _levels,
        (gauge("twinlog_flow_health", f"1 for the flow's health: {', '.join(LEVELS)}", _itself),),
    ),
    Section(
        "Events of flows",
        "A kind has a series once it has happened.",
        (*_OF_FLOW, "kind"),
        _events,
        (counter("twinlog_events_total", "Events, by kind: what `twinlog run` tells of", _itself),),
    ),
    Section(
        "Topics",
        "`topic` is the source's topic. A topic that is no longer copied has no series.",
        OF_TOPIC,
        _topics,
        (
            counter(
                "twinlog_topic_records_total", "Records that the target has acknowledged", itemgetter(tally.RECORDS)
            ),
            counter(
                "twinlog_topic_bytes_total",
                "Bytes of record batches that the target has acknowledged, compressed as they are",
                itemgetter(tally.BYTES),
            ),
            counter(
                "twinlog_topic_batches_total", "Batches that the target has acknowledged", itemgetter(tally.BATCHES)
            ),
            counter(
                "twinlog_topic_rebuilt_batches_total",
                "Batches that had to be opened and built anew, which costs CPU",
                itemgetter(tally.REBUILT),
            ),
            counter(
                "twinlog_lost_records_total",
                "Source offsets that were gone before they were copied (retention, or a topic made anew)",
                itemgetter(tally.LOST),
            ),
            counter(
                "twinlog_duplicate_records_total",
                "Records that may be on the target twice",
                itemgetter(tally.DUPLICATES),
            ),
            counter(
                "twinlog_foreign_records_total",
                "Records in the remote topic that somebody else wrote",
                itemgetter(tally.FOREIGN),
            ),
            counter("twinlog_skipped_records_total", "Records that the target refuses", itemgetter(tally.SKIPPED)),
            counter(
                "twinlog_recoveries_total",
                "How often partitions had to find out anew where they go on",
                itemgetter(tally.RECOVERIES),
            ),
        ),
    ),
    Section(
        "Partitions",
        "`topic` is the source's topic.",
        OF_PARTITION,
        _partitions,
        (
            gauge(
                "twinlog_lag_records",
                "Source offsets that are not on the target yet (markers of transactions count, too)",
                attrgetter("lag"),
            ),
            gauge(
                "twinlog_lag_seconds",
                "How long the source has had what is not on the target yet; 0 when all is copied",
                attrgetter("lag_seconds"),
                rounded=True,
            ),
            gauge("twinlog_partition_up", "0 while a partition cannot go on, otherwise 1", _up),
        ),
    ),
    Section(
        "Lag of groups",
        "`topic` is the source's topic; `side` is `source` or `target`.",
        _OF_GROUP,
        _group_lags,
        (
            gauge(
                "twinlog_group_lag_records",
                "How far a consumer group is behind the end of its topic on one side",
                _itself,
            ),
        ),
    ),
    Section(
        "Offsets of groups",
        "`side` is `source` (committed there), `checkpoint` (the same on the target) or `target` (committed there).",
        _OF_GROUP,
        _group_offsets,
        (gauge("twinlog_group_offset", "Where a consumer group is", _itself),),
    ),
    Section(
        "Checkpoints of groups",
        "",
        _OF_GROUP[:-1],
        _group_ages,
        (gauge("twinlog_group_checkpoint_age_seconds", "Since the group's newest checkpoint was written", _itself),),
    ),
    Section(
        "Process",
        "Of the `twinlog` process and all below it: Spark's JVM and the Python workers on this machine. Linux only.",
        (),
        _process,
        (
            counter("twinlog_process_cpu_seconds_total", "CPU time, user and system", attrgetter("cpu_seconds")),
            gauge(
                "twinlog_process_memory_bytes",
                "Memory in use; what processes share counts once (proportional set size)",
                attrgetter("memory_bytes"),
            ),
            gauge("twinlog_processes", "Processes", attrgetter("processes")),
            gauge("twinlog_process_threads", "Threads", attrgetter("threads")),
            gauge(
                "process_start_time_seconds",
                "When the twinlog process was started, in seconds since 1970",
                attrgetter("started_at"),
            ),
        ),
    ),
    Section(
        "Build",
        "",
        _OF_BUILD,
        _build,
        (gauge("twinlog_build_info", "1; the versions are labels", _itself),),
    ),
)
