"""What is exposed, read by Prometheus's own client library."""

import math
import time
from collections.abc import Mapping
from typing import Any, cast

from prometheus_client.parser import text_string_to_metric_families
from tests.status.made import made_board, made_flow, made_report

from twinlog.connect.api import Worker
from twinlog.connect.errors import ConnectError
from twinlog.status.board import Board
from twinlog.status.flow import FlowStatus
from twinlog.surface.metrics.exposition import SECTIONS, Exposition
from twinlog.tracking.journal import Report

Labels = Mapping[str, str]


def read(exposition: Exposition) -> dict[str, list[tuple[Labels, float]]]:
    """Every series by name; whoever reads it complains of what is not in the format."""
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
    """A worker with connectors that somebody configured."""

    def __init__(self, states: dict[str, list[str]], source: str = "us", target: str = "eu") -> None:
        self.states, self._source, self._target = states, source, target
        self.refusing: set[str] = set()

    def names(self) -> list[str]:
        return list(self.states)

    def config(self, name: str) -> dict[str, str]:
        kind = next(kind for kind in ("Source", "Checkpoint", "Heartbeat") if kind in name)
        return {
            "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
            "source.cluster.alias": self._source,
            "target.cluster.alias": self._target,
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
    """One report more. Counters are those of an attempt of a task, as tasks count."""
    epoch = more.pop("epoch", 1)
    told = {
        "topic": topic,
        "partition": partition,
        "remote": f"us.{topic}",
        "state": "running",
        "position": 5,
        "end": 5,
    }
    told |= {"records": records, "bytes": 10 * records, **more}
    flow.add(Report(flow.run, epoch, task, 0, int(time.time() * 1000), {f"{topic}-{partition}": told}, []))


def test_every_metric_of_the_table_is_there_with_its_type_and_labels() -> None:
    board = made_board(flows=2, lag=3, lost=4)
    told = {family.name: family for family in text_string_to_metric_families(Exposition(board).text())}
    for section in SECTIONS:
        for metric in section.metrics:
            family = told[metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name]
            assert family.type == metric.kind
            assert family.documentation == metric.help
            for sample in family.samples:
                assert set(sample.labels) == set(section.labels), metric.name


def test_no_name_and_no_series_twice() -> None:
    board = made_board(flows=4, lag=3, lost=4)
    lines = Exposition(board).text().splitlines()
    names = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(names) == len(set(names))
    types = [line for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types)) == sum(len(section.metrics) for section in SECTIONS)


def test_what_mm2_calls_a_partition() -> None:
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


def test_windows_without_records_are_nan_as_in_mm2_and_last_values_are_not() -> None:
    flow = FlowStatus("run", "us->eu", "us", "eu")
    counted(flow, records=0)
    series = read(Exposition(Board([flow])))
    mirror = "kafka_connect_mirror_mirrorsourceconnector"
    for which in ("min", "max", "avg"):
        assert math.isnan(value(series, f"{mirror}_record_age_ms_{which}"))
        assert math.isnan(value(series, f"{mirror}_replication_latency_ms_{which}"))
    assert value(series, f"{mirror}_record_age_ms") == 0
    assert value(series, f"{mirror}_replication_latency_ms") == 0
    assert value(series, f"{mirror}_record_rate") == 0


def test_what_is_not_known_has_no_series() -> None:
    series = read(Exposition(Board([FlowStatus("run", "us->eu", "us", "eu")])))
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


def test_a_partition_that_cannot_go_on_is_down() -> None:
    series = read(Exposition(made_board(stopped="us.topic-00000 was deleted on eu")))
    assert value(series, "twinlog_partition_up", topic="topic-00000", partition="0") == 0
    assert value(series, "twinlog_partition_up", topic="topic-00000", partition="1") == 1
    assert value(series, "twinlog_flow_health", level="broken") == 1


def test_counters_go_on_when_a_partition_goes_to_another_task() -> None:
    flow = FlowStatus("run", "us->eu", "us", "eu")
    exposition = Exposition(Board([flow]))
    counted(flow, records=10, task=0)
    counted(flow, records=5, partition=1, task=1)
    written = "kafka_connect_source_task_source_record_write_total"
    before = read(exposition)
    assert value(before, "twinlog_topic_records_total") == 15
    assert (value(before, written, task="0"), value(before, written, task="1")) == (10, 5)
    counted(flow, records=4, task=1, epoch=2)  # its counters begin anew with the task
    after = read(exposition)
    assert value(after, "twinlog_topic_records_total") == 19
    assert value(after, written, task="1") == 9
    lag = "kafka_consumer_fetch_manager_records_lag"
    clients = {labels["clientid"] for labels, _ in after[lag]}
    assert clients == {'"us->eu|us->eu.MirrorSourceConnector-1|replication-consumer"'}


def test_counters_go_on_when_a_partition_goes_away_and_when_a_flow_starts_anew() -> None:
    flow = FlowStatus("run", "us->eu", "us", "eu")
    board = Board([flow])
    exposition = Exposition(board)
    counted(flow, records=10)
    counted(flow, records=7, partition=1)
    flow.starts = 2
    assert value(read(exposition), "twinlog_topic_records_total") == 17
    flow.partitions = {"orders-0": flow.partitions["orders-0"]}
    counted(flow, records=11)
    assert value(read(exposition), "twinlog_topic_records_total") == 18
    anew = FlowStatus("another run", "us->eu", "us", "eu")
    anew.starts = 1
    counted(anew, records=2)
    board.show([anew])
    series = read(exposition)
    assert value(series, "twinlog_topic_records_total") == 20
    assert value(series, "twinlog_starts_total") == 3


def test_topics_groups_and_flows_that_are_gone_have_no_series() -> None:
    flow = made_flow(lag=3)
    board = Board([flow, made_flow(source="eu", target="us")])
    exposition = Exposition(board)
    assert "topic-00002" in exposition.text()
    flow.partitions = {name: each for name, each in flow.partitions.items() if each.topic != "topic-00002"}
    flow.seen([group for group in flow.groups if group.group != "app-2"])
    board.show([flow])
    text = exposition.text()
    assert "topic-00001" in text
    assert "app-1" in text
    assert [word for word in ("topic-00002", "app-2", "eu->us", 'source="eu"') if word in text] == []
    back = made_flow(lag=3)
    board.show([back])
    assert value(read(exposition), "twinlog_topic_records_total", topic="topic-00002") == 16


def test_events_are_counted_once_however_often_one_looks() -> None:
    flow = made_flow(lost=3)
    exposition = Exposition(Board([flow]))
    exposition.text()
    assert value(read(exposition), "twinlog_events_total", kind="lost") == 1
    report = made_report(flow.run, time.time(), 1, 1, step=9)
    report.events.extend({"time": 1, "kind": kind, "text": ""} for kind in ("lost", "foreign", "lost"))
    flow.add(report)
    series = read(exposition)
    assert value(series, "twinlog_events_total", kind="lost") == 3
    assert value(series, "twinlog_events_total", kind="foreign") == 1


def test_two_flows_between_the_same_clusters_have_each_series_of_mm2_once() -> None:
    board = Board([made_flow(), made_flow(label="second-MirrorSource")])
    states = {"first-MirrorSource": ["RUNNING"], "second-MirrorSource": ["RUNNING"]}
    lines = Exposition(board, worker(states)).text().splitlines()
    names = [line.rpartition(" ")[0] for line in lines]
    assert len(names) == len(set(names))
    assert any("us->eu|second-MirrorSource-0|replication-consumer" in name for name in names)
    assert any("us->eu|first-MirrorSource-0|replication-consumer" in name for name in names)


def test_connectors_are_those_of_the_worker() -> None:
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
    connectors.refusing.add("us->eu.MirrorCheckpointConnector")  # deleted between two questions
    assert value(read(exposition), "kafka_connect_worker_connector_count") == 2


def test_names_of_groups_are_quoted_as_in_jmx_and_plain_in_our_own() -> None:
    flow = made_flow()
    odd = 'team "a"\\b*'
    flow.seen([type(flow.groups[0])(odd, "us.topic-00000", 0, "topic-00000", 1, 2)])
    series = read(Exposition(Board([flow])))
    assert value(series, "twinlog_group_lag_records", group=odd, side="source") == 1
    latency = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"
    assert value(series, latency, group='"team \\"a\\"\\\\b\\*"') == 0
    assert math.isnan(value(series, f"{latency}_max"))


def test_the_process_and_its_children_are_counted() -> None:
    series = read(Exposition(Board()))
    assert value(series, "twinlog_process_cpu_seconds_total") > 0
    assert value(series, "twinlog_process_memory_bytes") > 1_000_000
    assert value(series, "twinlog_process_threads") >= value(series, "twinlog_processes") >= 1
    assert time.time() - 86400 * 30 < value(series, "process_start_time_seconds") <= time.time()


def test_only_what_is_named() -> None:
    text = Exposition(made_board()).text(["twinlog_epoch", "twinlog_flow_up", "no_such_metric"])
    assert {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")} == {
        "twinlog_epoch",
        "twinlog_flow_up",
    }
