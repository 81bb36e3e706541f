"""MM2's metrics, by the names and labels that Strimzi's rules for the JMX exporter give them."""

from collections.abc import Callable, Iterator
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from twinlog.status.partition import PartitionStatus
from twinlog.surface.metrics.connectors import SOURCE, Connector, ConnectorTask
from twinlog.surface.metrics.table import Section, counter, gauge
from twinlog.surface.metrics.tally import BYTES, RECORDS, SKIPPED, Account
from twinlog.surface.metrics.text import jmx, labels
from twinlog.surface.metrics.view import OF_CONSUMER, OF_MIRROR, View, consumer_id, producer_id
from twinlog.upkeep.group_look import GroupStatus

_OF_GROUP: Final = ("source", "target", "group", "topic", "partition")
_OF_TASK: Final = ("connector", "task")
_TASK_STATES: Final = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")

_MIRROR: Final = "kafka_connect_mirror_mirrorsourceconnector"
_CHECKPOINT: Final = "kafka_connect_mirror_mirrorcheckpointconnector"
_NEVER: Final = (None, None, None)
_OVER: Final = "over the last minute; NaN without records in it"


class Mirrored(NamedTuple):
    """A partition, with what takes some reckoning done once for all its metrics."""

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
    """Faster than asking by name, and there are very many to ask."""
    return itemgetter(Mirrored._fields.index(field))


def _partitions(view: View) -> Iterator[tuple[str, Mirrored]]:
    for flow in view.flows:
        now = flow.now
        for label, each in flow.mirror:
            latencies, ages = each.latencies, each.ages
            latency = (latencies.over(now) if latencies is not None else None) or _NEVER
            age = (ages.over(now) if ages is not None else None) or _NEVER
            yield label, Mirrored(each, *each.rates_at(now), *latency, *age)


def _consumers(view: View) -> Iterator[tuple[str, PartitionStatus]]:
    for flow in view.flows:
        yield from flow.consumer


def _consumer_clients(view: View) -> Iterator[tuple[str, Account]]:
    for flow in view.flows:
        for task, account in flow.tally.tasks.items():
            yield labels(("clientid",), (consumer_id(flow.status, flow.connector, task),)), account


def _producer_clients(view: View) -> Iterator[tuple[str, Account]]:
    for flow in view.flows:
        for task, account in flow.tally.tasks.items():
            yield labels(("clientid",), (producer_id(flow.connector, task),)), account


def _source_tasks(view: View) -> Iterator[tuple[str, Account]]:
    for flow in view.flows:
        for task, account in flow.tally.tasks.items():
            yield labels(_OF_TASK, (jmx(flow.connector), task)), account


def _groups(view: View) -> Iterator[tuple[str, GroupStatus]]:
    seen: set[str] = set()  # two flows between the same clusters may both follow a group
    for flow in view.flows:
        ends = (jmx(flow.status.source), jmx(flow.status.target))
        for each in list(flow.status.groups):
            text = labels(_OF_GROUP, (*ends, jmx(each.group), jmx(each.topic), each.partition))
            if text not in seen:
                seen.add(text)
                yield text, each


def _worker(view: View) -> Iterator[tuple[str, View]]:
    yield "", view


def _coordinator(view: View) -> Iterator[tuple[str, View]]:
    worker = next((each.worker for each in view.connectors if each.worker), "1")
    yield labels(("clientid",), (jmx(f"connect-{worker}"),)), view  # as Connect calls the client of a worker


def _connectors(view: View) -> Iterator[tuple[str, Connector]]:
    for each in view.connectors:
        yield labels(("connector",), (jmx(each.name),)), each


def _tasks(view: View) -> Iterator[tuple[str, ConnectorTask]]:
    for each in view.connectors:
        for task in each.tasks:
            yield labels(_OF_TASK, (jmx(each.name), task.id)), task


def _statuses(view: View) -> Iterator[tuple[str, int]]:
    for each in view.connectors:
        for task in each.tasks:
            yield labels((*_OF_TASK, "status"), (jmx(each.name), task.id, task.status)), 1


def _task_count(view: View) -> int:
    return sum(len(each.tasks) for each in view.connectors)


SECTIONS: Final[tuple[Section[Any], ...]] = (
    Section(
        f"{SOURCE}, per partition of a remote topic",
        "`topic` is the remote topic, as it is called on the target.",
        OF_MIRROR,
        _partitions,
        (
            gauge(
                f"{_MIRROR}_record_count",
                "Records that the target has acknowledged",
                lambda p: p.status.counters["records"],
            ),
            gauge(
                f"{_MIRROR}_record_rate",
                "Records per second",
                _of("records_per_s"),
                "over the last seconds, where MM2 takes a minute",
                rounded=True,
            ),
            gauge(
                f"{_MIRROR}_byte_count",
                "Bytes copied",
                lambda p: p.status.counters["bytes"],
                "record batches as they are written to the target (keys, headers, compressed), when they are "
                "acknowledged; MM2 counts the bytes of values only, when they are read",
            ),
            gauge(
                f"{_MIRROR}_byte_rate",
                "Bytes per second",
                _of("bytes_per_s"),
                "as byte_count; over the last seconds, where MM2 takes a minute",
                rounded=True,
            ),
            gauge(
                f"{_MIRROR}_record_age_ms",
                "Age of the newest record when it was read from the source",
                lambda p: p.status.age_ms or 0.0,
                "of the newest record of a batch",
                rounded=True,
            ),
            gauge(f"{_MIRROR}_record_age_ms_min", f"The least age {_OVER}", _of("age_min"), nan=True, rounded=True),
            gauge(f"{_MIRROR}_record_age_ms_max", f"The greatest age {_OVER}", _of("age_max"), nan=True, rounded=True),
            gauge(f"{_MIRROR}_record_age_ms_avg", f"The mean age {_OVER}", _of("age_avg"), nan=True, rounded=True),
            gauge(
                f"{_MIRROR}_replication_latency_ms",
                "From the timestamp of a record until the target had acknowledged it",
                lambda p: p.status.latency_ms,
                "of the newest record of a batch",
                rounded=True,
            ),
            gauge(
                f"{_MIRROR}_replication_latency_ms_min",
                f"The least latency {_OVER}",
                _of("latency_min"),
                nan=True,
                rounded=True,
            ),
            gauge(
                f"{_MIRROR}_replication_latency_ms_max",
                f"The greatest latency {_OVER}",
                _of("latency_max"),
                nan=True,
                rounded=True,
            ),
            gauge(
                f"{_MIRROR}_replication_latency_ms_avg",
                f"The mean latency {_OVER}",
                _of("latency_avg"),
                nan=True,
                rounded=True,
            ),
        ),
    ),
    Section(
        "MirrorCheckpointConnector, per group and partition of a remote topic",
        "`topic` is the remote topic.",
        _OF_GROUP,
        _groups,
        (
            gauge(
                f"{_CHECKPOINT}_checkpoint_latency_ms",
                "From reading a group's offset on the source until its checkpoint was acknowledged",
                lambda g: g.latency_ms or 0.0,
                "of this group and partition; in MM2 each checkpoint of a task changes the value of all",
            ),
            *(
                gauge(
                    f"{_CHECKPOINT}_checkpoint_latency_ms_{which}",
                    f"The {word} latency of checkpoints; NaN without one",
                    attrgetter("latency_ms"),
                    "the last one's, as none but the last is kept",
                    nan=True,
                )
                for which, word in (("min", "least"), ("max", "greatest"), ("avg", "mean"))
            ),
        ),
    ),
    Section(
        "Consumers, per partition of a topic on the source",
        "`topic` is the source's topic; the client id names flow, connector and task.",
        OF_CONSUMER,
        _consumers,
        (
            gauge(
                "kafka_consumer_fetch_manager_records_lag",
                "Source offsets that are not on the target yet",
                attrgetter("lag"),
                "counts what is not acknowledged by the target; MM2's consumer counts what is not read from the source",
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
                lambda account: account[BYTES],
                "record batches that were copied, without the frames around and what was read again after a fault",
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
                lambda account: account[BYTES],
                "record batches that were acknowledged, without the frames around",
            ),
        ),
    ),
    Section(
        "Worker",
        "Of the connectors that `GET /connectors` lists.",
        (),
        _worker,
        (
            gauge("kafka_connect_worker_connector_count", "Connectors", lambda view: len(view.connectors)),
            gauge("kafka_connect_worker_task_count", "Tasks of all connectors", _task_count),
            gauge(
                "kafka_connect_worker_rebalance_rebalancing",
                "Whether the workers share their tasks out anew",
                lambda _: 0,
                "always 0: there is one worker",
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
                lambda view: len(view.connectors),
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
                    f"Tasks that are {state}",
                    lambda connector, state=state: connector.having(state),  # type: ignore[misc]
                )
                for state in _TASK_STATES
            ),
        ),
    ),
    Section(
        "Connector status",
        "",
        (*_OF_TASK, "status"),
        _statuses,
        (gauge("kafka_connect_connector_status", "1; the status is a label", lambda one: one),),
    ),
    Section(
        "Connector tasks",
        "",
        _OF_TASK,
        _tasks,
        (
            gauge(
                "kafka_connect_connector_task_running_ratio",
                "1 while the task runs, otherwise 0",
                lambda task: int(task.status == "running"),
                "of this moment; MM2's is a share of time",
            ),
            gauge(
                "kafka_connect_connector_task_pause_ratio",
                "1 while the task is paused, otherwise 0",
                lambda task: int(task.status == "paused"),
                "of this moment; MM2's is a share of time",
            ),
        ),
    ),
    Section(
        "Source tasks",
        "Of the connectors that copy records.",
        _OF_TASK,
        _source_tasks,
        (
            counter(
                "kafka_connect_source_task_source_record_poll_total",
                "Records that the target has acknowledged, or refused for good",
                lambda account: account[RECORDS] + account[SKIPPED],
                "MM2 counts records as they are read",
            ),
            counter(
                "kafka_connect_source_task_source_record_write_total",
                "Records that the target has acknowledged",
                lambda account: account[RECORDS],
            ),
            gauge(
                "kafka_connect_task_error_total_records_skipped",
                "Records that the target refuses",
                lambda account: account[SKIPPED],
            ),
        ),
    ),
)

# Asked for by Strimzi's dashboard, and not here: there is no honest value. Each with its reason.
ABSENT: Final = {
    "kafka_producer_buffer_available_bytes": "there is no buffer of a fixed size between source and target",
    "kafka_connect_connector_task_offset_commit_avg_time_ms": "positions are written beside the records, not timed",
    "kafka_connect_source_task_source_record_active_count": "what is read and not acknowledged yet is not counted",
    "jvm_memory_used_bytes": "records do not pass through a JVM; see `twinlog_process_memory_bytes`",
    "jvm_gc_collection_seconds_sum": "likewise; see `twinlog_process_cpu_seconds_total`",
    "jvm_threads_current": "likewise; see `twinlog_process_threads`",
    "container_cpu_usage_seconds_total": "comes from Kubernetes, for every container",
}
