"""MM2's metrics, with the names and labels of Strimzi's rules for the JMX exporter."""

from collections.abc import Callable, Iterator
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from twinlog.metrics.connectors import LEGACY, SOURCE, Connector, ConnectorTask
from twinlog.metrics.counters import BYTES, RECORDS, SKIPPED, Totals
from twinlog.metrics.metric import Metric, Section, counter, gauge
from twinlog.metrics.scrape import OF_CONSUMER, OF_MIRROR, Scrape, consumer_id, producer_id
from twinlog.metrics.text_format import jmx, labels
from twinlog.status.partition import PartitionStatus
from twinlog.sync.group_status import GroupStatus

OF_GROUP: Final = ("source", "target", "group", "topic", "partition")
OF_TASK: Final = ("connector", "task")
_TASK_STATES: Final = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")

_MIRROR: Final = "kafka_connect_mirror_mirrorsourceconnector"
_CHECKPOINT: Final = "kafka_connect_mirror_mirrorcheckpointconnector"
_NO_STATS: Final = (None, None, None)
_WINDOW: Final = "over the last minute; NaN without records"


class Mirrored(NamedTuple):
    """A partition, with the values that are computed once for all its metrics."""

    status: PartitionStatus
    records_per_s: float
    bytes_per_s: float
    latency_min: float | None
    latency_avg: float | None
    latency_max: float | None
    age_min: float | None
    age_avg: float | None
    age_max: float | None


def _of(field: str) -> Callable[[Mirrored], float | None]:
    """Access by index: faster than by name, for very many rows."""
    return itemgetter(Mirrored._fields.index(field))


def _partitions(scrape: Scrape) -> Iterator[tuple[str, Mirrored]]:
    for flow in scrape.flows:
        for label, each in flow.mirror:
            yield label, mirrored(each, flow.now)


def mirrored(each: PartitionStatus, now: float) -> Mirrored:
    latencies, ages = each.latencies, each.ages
    latency = (latencies.over(now) if latencies is not None else None) or _NO_STATS
    age = (ages.over(now) if ages is not None else None) or _NO_STATS
    return Mirrored(each, *each.rates_at(now), *latency, *age)


def _consumers(scrape: Scrape) -> Iterator[tuple[str, PartitionStatus]]:
    for flow in scrape.flows:
        yield from flow.consumer


def _consumer_clients(scrape: Scrape) -> Iterator[tuple[str, Totals]]:
    for flow in scrape.flows:
        for task, totals in flow.counters.tasks.items():
            yield labels(("clientid",), (consumer_id(flow.status, flow.connector, task),)), totals


def _producer_clients(scrape: Scrape) -> Iterator[tuple[str, Totals]]:
    for flow in scrape.flows:
        for task, totals in flow.counters.tasks.items():
            yield labels(("clientid",), (producer_id(flow.connector, task),)), totals


def _source_tasks(scrape: Scrape) -> Iterator[tuple[str, Totals]]:
    for flow in scrape.flows:
        for task, totals in flow.counters.tasks.items():
            yield labels(OF_TASK, (jmx(flow.connector), task)), totals


def _groups(scrape: Scrape) -> Iterator[tuple[str, GroupStatus]]:
    seen: set[str] = set()  # two flows between the same clusters may both sync a group
    for flow in scrape.flows:
        if flow.checkpoints is not None and LEGACY not in flow.checkpoints.formats:
            continue
        clusters = (jmx(flow.status.source), jmx(flow.status.target))
        for each in list(flow.status.groups):
            text = labels(OF_GROUP, (*clusters, jmx(each.group), jmx(each.topic), each.partition))
            if text not in seen:
                seen.add(text)
                yield text, each


def _worker(scrape: Scrape) -> Iterator[tuple[str, Scrape]]:
    yield "", scrape


def _coordinator(scrape: Scrape) -> Iterator[tuple[str, Scrape]]:
    worker = next((each.worker for each in scrape.connectors if each.worker), "1")
    yield labels(("clientid",), (jmx(f"connect-{worker}"),)), scrape  # the client id of a Connect worker


def _connectors(scrape: Scrape) -> Iterator[tuple[str, Connector]]:
    for each in scrape.connectors:
        yield labels(("connector",), (jmx(each.name),)), each


def _tasks(scrape: Scrape) -> Iterator[tuple[str, ConnectorTask]]:
    for each in scrape.connectors:
        for task in each.tasks:
            yield labels(OF_TASK, (jmx(each.name), task.id)), task


def _statuses(scrape: Scrape) -> Iterator[tuple[str, int]]:
    for each in scrape.connectors:
        for task in each.tasks:
            yield labels((*OF_TASK, "status"), (jmx(each.name), task.id, task.status)), 1


def _task_count(scrape: Scrape) -> int:
    return sum(len(each.tasks) for each in scrape.connectors)


def mirror_metrics(prefix: str) -> tuple[Metric[Mirrored], ...]:
    return (
        gauge(
            f"{prefix}_record_count",
            "Records acknowledged by the target",
            lambda p: p.status.counters["records"],
        ),
        gauge(
            f"{prefix}_record_rate",
            "Records per second",
            _of("records_per_s"),
            "over the last seconds; MM2: over a minute",
            rounded=True,
        ),
        gauge(
            f"{prefix}_byte_count",
            "Bytes replicated",
            lambda p: p.status.counters["bytes"],
            "record batches as written to the target (compressed, with keys and headers), once acknowledged; "
            "MM2: bytes of values only, once read",
        ),
        gauge(
            f"{prefix}_byte_rate",
            "Bytes per second",
            _of("bytes_per_s"),
            "as byte_count; over the last seconds; MM2: over a minute",
            rounded=True,
        ),
        gauge(
            f"{prefix}_record_age_ms",
            "Age of the newest record when it was read from the source",
            lambda p: p.status.age_ms or 0.0,
            "of the newest record of a batch",
            rounded=True,
        ),
        gauge(f"{prefix}_record_age_ms_min", f"Minimum age {_WINDOW}", _of("age_min"), nan=True, rounded=True),
        gauge(f"{prefix}_record_age_ms_max", f"Maximum age {_WINDOW}", _of("age_max"), nan=True, rounded=True),
        gauge(f"{prefix}_record_age_ms_avg", f"Mean age {_WINDOW}", _of("age_avg"), nan=True, rounded=True),
        gauge(
            f"{prefix}_replication_latency_ms",
            "Time from a record's timestamp to its acknowledgement by the target",
            lambda p: p.status.latency_ms,
            "of the newest record of a batch",
            rounded=True,
        ),
        gauge(
            f"{prefix}_replication_latency_ms_min",
            f"Minimum latency {_WINDOW}",
            _of("latency_min"),
            nan=True,
            rounded=True,
        ),
        gauge(
            f"{prefix}_replication_latency_ms_max",
            f"Maximum latency {_WINDOW}",
            _of("latency_max"),
            nan=True,
            rounded=True,
        ),
        gauge(
            f"{prefix}_replication_latency_ms_avg",
            f"Mean latency {_WINDOW}",
            _of("latency_avg"),
            nan=True,
            rounded=True,
        ),
    )


def checkpoint_metrics(prefix: str) -> tuple[Metric[GroupStatus], ...]:
    return (
        gauge(
            f"{prefix}_checkpoint_latency_ms",
            "Time from reading a group's offset on the source to the acknowledgement of its checkpoint",
            lambda g: g.latency_ms or 0.0,
            "of this group and partition; MM2: of the task's last checkpoint, for all groups",
        ),
        *(
            gauge(
                f"{prefix}_checkpoint_latency_ms_{which}",
                f"{word} latency of checkpoints; NaN without one",
                attrgetter("latency_ms"),
                "of the last checkpoint only",
                nan=True,
            )
            for which, word in (("min", "Minimum"), ("max", "Maximum"), ("avg", "Mean"))
        ),
    )


SECTIONS: Final[tuple[Section[Any], ...]] = (
    Section(
        f"{SOURCE}, per partition of a remote topic",
        "`topic` is the remote topic, on the target.",
        OF_MIRROR,
        _partitions,
        mirror_metrics(_MIRROR),
    ),
    Section(
        "MirrorCheckpointConnector, per group and partition of a remote topic",
        "`topic` is the remote topic.",
        OF_GROUP,
        _groups,
        checkpoint_metrics(_CHECKPOINT),
    ),
    Section(
        "Consumers, per source partition",
        "`topic` is the source topic; the client id contains flow, connector and task.",
        OF_CONSUMER,
        _consumers,
        (
            gauge(
                "kafka_consumer_fetch_manager_records_lag",
                "Source offsets not replicated yet",
                attrgetter("lag"),
                "until acknowledged by the target; MM2's consumer: until read from the source",
            ),
        ),
    ),
    Section(
        "Consumers, per task",
        "",
        ("clientid",),
        _consumer_clients,
        (
            counter(
                "kafka_consumer_incoming_byte_total",
                "Bytes read from the source",
                lambda totals: totals[BYTES],
                "replicated record batches, without protocol overhead and repeated reads",
            ),
        ),
    ),
    Section(
        "Producers, per task",
        "",
        ("clientid",),
        _producer_clients,
        (
            counter(
                "kafka_producer_outgoing_byte_total",
                "Bytes written to the target",
                lambda totals: totals[BYTES],
                "acknowledged record batches, without protocol overhead",
            ),
        ),
    ),
    Section(
        "Worker",
        "For the connectors in `GET /connectors`.",
        (),
        _worker,
        (
            gauge("kafka_connect_worker_connector_count", "Connectors", lambda scrape: len(scrape.connectors)),
            gauge("kafka_connect_worker_task_count", "Tasks of all connectors", _task_count),
            gauge(
                "kafka_connect_worker_rebalance_rebalancing",
                "Whether a rebalance is in progress",
                lambda _: 0,
                "always 0: there is only one worker",
            ),
        ),
    ),
    Section(
        "Coordinator",
        "",
        ("clientid",),
        _coordinator,
        (
            gauge(
                "kafka_connect_coordinator_assigned_connectors",
                "Connectors of this worker",
                lambda scrape: len(scrape.connectors),
            ),
            gauge("kafka_connect_coordinator_assigned_tasks", "Tasks of this worker", _task_count),
        ),
    ),
    Section(
        "Worker, per connector",
        "",
        ("connector",),
        _connectors,
        (
            gauge("kafka_connect_worker_connector_total_task_count", "Tasks", lambda connector: len(connector.tasks)),
            *(
                gauge(
                    f"kafka_connect_worker_connector_{state}_task_count",
                    f"Tasks in state {state}",
                    lambda connector, state=state: connector.count(state),  # type: ignore[misc]
                )
                for state in _TASK_STATES
            ),
        ),
    ),
    Section(
        "Connector status",
        "",
        (*OF_TASK, "status"),
        _statuses,
        (gauge("kafka_connect_connector_status", "Always 1; the status is a label", lambda one: one),),
    ),
    Section(
        "Connector tasks",
        "",
        OF_TASK,
        _tasks,
        (
            gauge(
                "kafka_connect_connector_task_running_ratio",
                "1 while the task is running, otherwise 0",
                lambda task: int(task.status == "running"),
                "current state; MM2: share of time",
            ),
            gauge(
                "kafka_connect_connector_task_pause_ratio",
                "1 while the task is paused, otherwise 0",
                lambda task: int(task.status == "paused"),
                "current state; MM2: share of time",
            ),
        ),
    ),
    Section(
        "Source tasks",
        "For source connectors.",
        OF_TASK,
        _source_tasks,
        (
            counter(
                "kafka_connect_source_task_source_record_poll_total",
                "Records acknowledged or permanently rejected by the target",
                lambda totals: totals[RECORDS] + totals[SKIPPED],
                "MM2: records read",
            ),
            counter(
                "kafka_connect_source_task_source_record_write_total",
                "Records acknowledged by the target",
                lambda totals: totals[RECORDS],
            ),
            gauge(
                "kafka_connect_task_error_total_records_skipped",
                "Records rejected by the target",
                lambda totals: totals[SKIPPED],
            ),
        ),
    ),
)

# Metrics that Strimzi's dashboard queries but that have no meaningful value here, with the reason.
ABSENT: Final = {
    "kafka_producer_buffer_available_bytes": "there is no fixed-size buffer between source and target",
    "kafka_connect_connector_task_offset_commit_avg_time_ms": "positions are stored in the background and not timed",
    "kafka_connect_source_task_source_record_active_count": "records in flight are not counted",
    "jvm_memory_used_bytes": "records are not processed in a JVM; see `twinlog_process_memory_bytes`",
    "jvm_gc_collection_seconds_sum": "as above; see `twinlog_process_cpu_seconds_total`",
    "jvm_threads_current": "as above; see `twinlog_process_threads`",
    "container_cpu_usage_seconds_total": "provided by Kubernetes",
}
