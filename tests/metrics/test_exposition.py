"""The exposition, parsed by Prometheus's own client library."""

import math
import time
from collections.abc import Mapping
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.status.samples import made_board, made_flow, made_report
from twinlog.connect.errors import ConnectError
from twinlog.connect.worker_api import Worker
from twinlog.journal.messages import Report
from twinlog.metrics.exposition import SECTIONS, Exposition
from twinlog.status.flow import FlowStatus
from twinlog.status.flow_board import FlowBoard
from twinlog.sync.group_status import GroupStatus

Labels = Mapping[str, str]


def read(exposition: Exposition) -> dict[str, list[tuple[Labels, float]]]:
    """Every series by name; the parser rejects invalid lines."""
    found: dict[str, list[tuple[Labels, float]]] = {}
    for family in text_string_to_metric_families(exposition.text()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(series: Mapping[str, list[tuple[Labels, float]]], name: str, **labels: str) -> float:
    fitting = [number for found, number in series.get(name, []) if labels.items() <= found.items()]
    assert len(fitting) == 1, f"{name}{labels}: {fitting}"
    return fitting[0]


class Connectors:
    """A worker with configured connectors."""

    def __init__(self, states: dict[str, list[str]], source: str = "us", target: str = "eu") -> None:
        self.states, self._source, self._target = states, source, target
        self.refusing: set[str] = set()
        self.formats: str | None = None

    def names(self) -> list[str]:
        return list(self.states)

    def config(self, name: str) -> dict[str, str]:
        kind = next(kind for kind in ("Source", "Checkpoint", "Heartbeat") if kind in name)
        return {
            "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
            "source.cluster.alias": self._source,
            "target.cluster.alias": self._target,
            **({"metric.names.formats": self.formats} if self.formats else {}),
        }

    def status(self, name: str) -> dict[str, Any]:
        if name in self.refusing:
            raise ConnectError(404, f"No status found for connector {name}")
        tasks = [{"id": number, "state": state, "worker_id": "a:1"} for number, state in enumerate(self.states[name])]
        return {"name": name, "connector": {"state": "RUNNING", "worker_id": "a:1"}, "tasks": tasks}


def worker(states: dict[str, list[str]]) -> Worker:
    return cast("Worker", Connectors(states))


def counted(
    flow: FlowStatus, *, records: int, topic: str = "orders", partition: int = 0, task: int = 0, **more: Any
) -> None:
    """Adds a report. Its counters are those of one task attempt."""
    epoch = more.pop("epoch", 1)
    status = {
        "topic": topic,
        "partition": partition,
        "remote": f"us.{topic}",
        "state": "running",
        "position": 5,
        "end": 5,
    }
    status |= {"records": records, "bytes": 10 * records, **more}
    flow.add(Report(flow.run, epoch, task, 0, int(time.time() * 1000), {f"{topic}-{partition}": status}, []))


def test_every_metric_has_its_type_and_labels() -> None:
    board = made_board(flows=2, lag=3, lost=4)
    families = {family.name: family for family in text_string_to_metric_families(Exposition(board).text())}
    for section in SECTIONS:
        for metric in section.metrics:
            family = families[metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name]
            assert family.type == metric.kind
            assert family.documentation == metric.help
            for sample in family.samples:
                assert set(sample.labels) == set(section.labels), metric.name


def test_no_duplicate_series() -> None:
    board = made_board(flows=4, lag=3, lost=4)
    lines = Exposition(board).text().splitlines()
    names = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(names) == len(set(names))
    types = [line for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types)) == sum(len(section.metrics) for section in SECTIONS)


def test_metrics_of_mm2_for_a_partition() -> None:
    series = read(Exposition(made_board(lag=3)))
    of = {"source": "us", "target": "eu", "topic": "us.topic-00001", "partition": "1"}
    mirror = "kafka_connect_mirror_mirrorsourceconnector"
    assert value(series, f"{mirror}_record_count", **of) == 8
    assert value(series, f"{mirror}_byte_count", **of) == 800
    assert value(series, f"{mirror}_record_rate", **of) > 0
    assert value(series, f"{mirror}_byte_rate", **of) == 100 * value(series, f"{mirror}_record_rate", **of)
    for which in ("", "_min", "_max", "_avg"):
        assert value(series, f"{mirror}_record_age_ms{which}", **of) == 2
        assert value(series, f"{mirror}_replication_latency_ms{which}", **of) == 5
    client = '"us->eu|us->eu.MirrorSourceConnector-0|replication-consumer"'
    at = {"clientid": client, "topic": "topic-00001", "partition": "1"}
    assert value(series, "kafka_consumer_fetch_manager_records_lag", **at) == 3
    assert value(series, "kafka_consumer_incoming_byte_total", clientid=client) == 6 * 800
    producer = '"connector-producer-us->eu.MirrorSourceConnector-0"'
    assert value(series, "kafka_producer_outgoing_byte_total", clientid=producer) == 6 * 800


def test_windows_without_records_are_nan_as_in_mm2() -> None:
    flow = FlowStatus("run", "us->eu", "us", "eu")
    counted(flow, records=0)
    series = read(Exposition(FlowBoard([flow])))
    mirror = "kafka_connect_mirror_mirrorsourceconnector"
    for which in ("min", "max", "avg"):
        assert math.isnan(value(series, f"{mirror}_record_age_ms_{which}"))
        assert math.isnan(value(series, f"{mirror}_replication_latency_ms_{which}"))
    assert value(series, f"{mirror}_record_age_ms") == 0
    assert value(series, f"{mirror}_replication_latency_ms") == 0
    assert value(series, f"{mirror}_record_rate") == 0


def test_unknown_values_have_no_series() -> None:
    series = read(Exposition(FlowBoard([FlowStatus("run", "us->eu", "us", "eu")])))
    assert value(series, "twinlog_flow_up", flow="us->eu") == 0
    for name in ("heartbeat_age", "checkpoint_age", "report_age", "latency_p50", "latency_p99"):
        assert f"twinlog_{name}_seconds" not in series


def test_a_flow_and_its_groups() -> None:
    series = read(Exposition(made_board(lag=3, lost=4)))
    flow = {"flow": "us->eu", "source": "us", "target": "eu"}
    assert value(series, "twinlog_flow_up", **flow) == 1
    assert value(series, "twinlog_flow_state", **flow, state="running") == 1
    assert value(series, "twinlog_flow_state", **flow, state="paused") == 0
    assert sum(number for _, number in series["twinlog_flow_health"]) == 1
    assert value(series, "twinlog_flow_partitions", **flow) == 6
    assert value(series, "twinlog_flow_topics", **flow) == 3
    assert 0.4 < value(series, "twinlog_heartbeat_age_seconds", **flow) < 60
    assert 1.9 < value(series, "twinlog_checkpoint_age_seconds", **flow) < 60
    assert value(series, "twinlog_latency_p99_seconds", **flow) == 0.009
    assert value(series, "twinlog_events_total", **flow, kind="lost") == 1
    assert value(series, "twinlog_lost_records_total", flow="us->eu", topic="topic-00000") == 4
    assert value(series, "twinlog_lost_records_total", flow="us->eu", topic="topic-00001") == 0
    group = {"flow": "us->eu", "group": "app-1", "topic": "topic-00000", "partition": "0"}
    assert value(series, "twinlog_group_lag_records", **group, side="source") == 108
    assert value(series, "twinlog_group_lag_records", **group, side="target") == 118
    assert value(series, "twinlog_group_offset", **group, side="checkpoint") == 900
    of = {"source": "us", "target": "eu", "group": "app-1", "topic": "us.topic-00000", "partition": "0"}
    assert value(series, "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms", **of) == 3.5


def test_a_stopped_partition_is_down() -> None:
    series = read(Exposition(made_board(stopped="us.topic-00000 was deleted on eu")))
    assert value(series, "twinlog_partition_up", topic="topic-00000", partition="0") == 0
    assert value(series, "twinlog_partition_up", topic="topic-00000", partition="1") == 1
    assert value(series, "twinlog_flow_health", level="broken") == 1


def test_counters_do_not_decrease_when_a_partition_changes_its_task() -> None:
    flow = FlowStatus("run", "us->eu", "us", "eu")
    exposition = Exposition(FlowBoard([flow]))
    counted(flow, records=10, task=0)
    counted(flow, records=5, partition=1, task=1)
    written = "kafka_connect_source_task_source_record_write_total"
    before = read(exposition)
    assert value(before, "twinlog_topic_records_total") == 15
    assert (value(before, written, task="0"), value(before, written, task="1")) == (10, 5)
    counted(flow, records=4, task=1, epoch=2)  # its counters start at zero with the new task
    after = read(exposition)
    assert value(after, "twinlog_topic_records_total") == 19
    assert value(after, written, task="1") == 9
    lag = "kafka_consumer_fetch_manager_records_lag"
    clients = {labels["clientid"] for labels, _ in after[lag]}
    assert clients == {'"us->eu|us->eu.MirrorSourceConnector-1|replication-consumer"'}


def test_counters_do_not_decrease_when_a_partition_ends_or_a_flow_restarts() -> None:
    flow = FlowStatus("run", "us->eu", "us", "eu")
    board = FlowBoard([flow])
    exposition = Exposition(board)
    counted(flow, records=10)
    counted(flow, records=7, partition=1)
    flow.starts = 2
    assert value(read(exposition), "twinlog_topic_records_total") == 17
    flow.partitions = {"orders-0": flow.partitions["orders-0"]}
    counted(flow, records=11)
    assert value(read(exposition), "twinlog_topic_records_total") == 18
    restarted = FlowStatus("another run", "us->eu", "us", "eu")
    restarted.starts = 1
    counted(restarted, records=2)
    board.show([restarted])
    series = read(exposition)
    assert value(series, "twinlog_topic_records_total") == 20
    assert value(series, "twinlog_starts_total") == 3


def test_deleted_topics_groups_and_flows_have_no_series() -> None:
    flow = made_flow(lag=3)
    board = FlowBoard([flow, made_flow(source="eu", target="us")])
    exposition = Exposition(board)
    assert "topic-00002" in exposition.text()
    flow.partitions = {name: each for name, each in flow.partitions.items() if each.topic != "topic-00002"}
    flow.set_groups([group for group in flow.groups if group.group != "app-2"])
    board.show([flow])
    text = exposition.text()
    assert "topic-00001" in text
    assert "app-1" in text
    assert [word for word in ("topic-00002", "app-2", "eu->us", 'source="eu"') if word in text] == []
    back = made_flow(lag=3)
    board.show([back])
    assert value(read(exposition), "twinlog_topic_records_total", topic="topic-00002") == 16


def test_every_counter_of_a_partition_is_a_metric_of_its_topic() -> None:
    flow = FlowStatus("run", "us->eu", "us", "eu")
    counted(
        flow, records=1, batches=3, rebuilt=4, lost=5, foreign=6, duplicates=7, skipped=8, recoveries=9, stalls=10,
        source_throttled_ms=1500, target_throttled_ms=12_000,
    )  # fmt: skip
    series = read(Exposition(FlowBoard([flow])))
    of_topic = {name: found[0][1] for name, found in series.items() if set(found[0][0]) == {"flow", "topic"}}
    assert of_topic == {
        "twinlog_topic_records_total": 1,
        "twinlog_topic_bytes_total": 10,
        "twinlog_topic_batches_total": 3,
        "twinlog_topic_rebuilt_batches_total": 4,
        "twinlog_lost_records_total": 5,
        "twinlog_foreign_records_total": 6,
        "twinlog_duplicate_records_total": 7,
        "twinlog_skipped_records_total": 8,
        "twinlog_recoveries_total": 9,
        "twinlog_stalls_total": 10,
        "twinlog_source_throttled_seconds_total": 1.5,
        "twinlog_target_throttled_seconds_total": 12,
    }
    assert value(series, "kafka_connect_source_task_source_record_poll_total") == 1 + 8
    assert value(series, "kafka_connect_source_task_source_record_write_total") == 1
    assert value(series, "kafka_connect_task_error_total_records_skipped") == 8
    assert value(series, "kafka_consumer_incoming_byte_total") == 10


def test_events_are_counted_once() -> None:
    flow = made_flow(lost=3)
    exposition = Exposition(FlowBoard([flow]))
    exposition.text()
    assert value(read(exposition), "twinlog_events_total", kind="lost") == 1
    report = made_report(flow.run, time.time(), 1, 1, step=9)
    report.events.extend({"time": 1, "kind": kind, "text": ""} for kind in ("lost", "foreign", "lost"))
    flow.add(report)
    series = read(exposition)
    assert value(series, "twinlog_events_total", kind="lost") == 3
    assert value(series, "twinlog_events_total", kind="foreign") == 1


def test_two_flows_between_the_same_clusters_share_no_series() -> None:
    board = FlowBoard([made_flow(), made_flow(label="second-MirrorSource")])
    states = {"first-MirrorSource": ["RUNNING"], "second-MirrorSource": ["RUNNING"]}
    lines = Exposition(board, worker(states)).text().splitlines()
    names = [line.rpartition(" ")[0] for line in lines]
    assert len(names) == len(set(names))
    assert any("us->eu|second-MirrorSource-0|replication-consumer" in name for name in names)
    assert any("us->eu|first-MirrorSource-0|replication-consumer" in name for name in names)


@pytest.mark.parametrize(
    ("formats", "legacy", "new"),
    [(None, True, False), ("legacy", True, False), ("new", False, True), ("legacy, new", True, True),
     ("${env:FORMATS}", True, False)],
)  # fmt: skip
def test_the_formats_of_mm2s_names(formats: str | None, legacy: bool, new: bool) -> None:
    """KIP-1280: kafka.connect:type=plugins, with connector and task; the attributes are the same."""
    source, checkpoint = "us->eu.MirrorSourceConnector", "us->eu.MirrorCheckpointConnector"
    connectors = Connectors({source: ["RUNNING"], checkpoint: ["RUNNING"]})
    connectors.formats = formats
    flow = FlowStatus("run", "us->eu", "us", "eu")
    counted(flow, records=7, task=0)
    flow.groups = [GroupStatus("g", "us.orders", 0, "orders")]
    series = read(Exposition(FlowBoard([flow]), cast("Worker", connectors)))
    old = {name for name in series if name.startswith("kafka_connect_mirror_")}
    now = {name for name in series if name.startswith("kafka_connect_plugins_")}
    assert bool(old) is legacy
    assert bool(now) is new
    attributes = {name.removeprefix("kafka_connect_plugins_") for name in now}
    if legacy and new:
        assert attributes == {name.partition("connector_")[2] for name in old}
    if new:
        assert {"record_count", "replication_latency_ms_avg", "checkpoint_latency_ms_max"} <= attributes
        ((labels, number),) = series["kafka_connect_plugins_record_count"]
        assert number == 7
        assert labels == {
            "connector": f'"{source}"', "task": "0", "source": "us", "target": "eu", "topic": "us.orders",
            "partition": "0",
        }  # fmt: skip
        ((labels, _),) = series["kafka_connect_plugins_checkpoint_latency_ms"]
        assert labels == {
            "connector": f'"{checkpoint}"', "task": "0", "source": "us", "target": "eu", "group": "g",
            "topic": "us.orders", "partition": "0",
        }  # fmt: skip


def test_connectors_of_the_worker() -> None:
    states = {
        "us->eu.MirrorSourceConnector": ["RUNNING", "FAILED"],
        "us->eu.MirrorCheckpointConnector": ["PAUSED"],
        "us->eu.MirrorHeartbeatConnector": [],
    }
    connectors = Connectors(states)
    exposition = Exposition(made_board(), cast("Worker", connectors))
    series = read(exposition)
    assert value(series, "kafka_connect_worker_connector_count") == 3
    assert value(series, "kafka_connect_worker_task_count") == 3
    assert value(series, "kafka_connect_coordinator_assigned_tasks", clientid='"connect-a:1"') == 3
    name = '"us->eu.MirrorSourceConnector"'
    assert value(series, "kafka_connect_connector_status", connector=name, task="1", status="failed") == 1
    assert value(series, "kafka_connect_worker_connector_failed_task_count", connector=name) == 1
    assert value(series, "kafka_connect_worker_connector_total_task_count", connector=name) == 2
    paused = '"us->eu.MirrorCheckpointConnector"'
    assert value(series, "kafka_connect_connector_task_pause_ratio", connector=paused, task="0") == 1
    connectors.refusing.add("us->eu.MirrorCheckpointConnector")  # deleted between two requests
    assert value(read(exposition), "kafka_connect_worker_connector_count") == 2


def test_group_names_are_quoted_only_in_mm2s_metrics() -> None:
    flow = made_flow()
    odd = 'team "a"\\b*'
    flow.set_groups([type(flow.groups[0])(odd, "us.topic-00000", 0, "topic-00000", 1, 2)])
    series = read(Exposition(FlowBoard([flow])))
    assert value(series, "twinlog_group_lag_records", group=odd, side="source") == 1
    latency = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"
    assert value(series, latency, group='"team \\"a\\"\\\\b\\*"') == 0
    assert math.isnan(value(series, f"{latency}_max"))


def test_process_metrics() -> None:
    series = read(Exposition(FlowBoard()))
    assert value(series, "twinlog_process_cpu_seconds_total") > 0
    assert value(series, "twinlog_process_memory_bytes") > 1_000_000
    assert value(series, "twinlog_process_threads") >= value(series, "twinlog_processes") >= 1
    assert time.time() - 86400 * 30 < value(series, "process_start_time_seconds") <= time.time()


def test_chosen_names() -> None:
    text = Exposition(made_board()).text(["twinlog_epoch", "twinlog_flow_up", "no_such_metric"])
    assert {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")} == {
        "twinlog_epoch",
        "twinlog_flow_up",
    }
