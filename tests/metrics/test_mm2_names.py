"""Names, types and labels of the real MM2, exported by the JMX exporter with Strimzi's rules."""

from twinlog.metrics import mm2

# From a Connect worker of Kafka 4.3 with the three connectors, JMX exporter 1.0.1, Strimzi's rules for MM2.
_OF_PARTITION = {"source", "target", "topic", "partition"}
_OF_GROUP = {*_OF_PARTITION, "group"}
_OF_TASK = {"connector", "task"}
_TIMES = ("", "_min", "_max", "_avg")
_MIRROR = "kafka_connect_mirror_mirrorsourceconnector"
_CHECKPOINT = "kafka_connect_mirror_mirrorcheckpointconnector"
EXPECTED: dict[str, tuple[str, set[str]]] = {
    **{
        f"{_MIRROR}_{what}": ("gauge", _OF_PARTITION)
        for what in ("record_count", "record_rate", "byte_count", "byte_rate")
    },
    **{f"{_MIRROR}_record_age_ms{which}": ("gauge", _OF_PARTITION) for which in _TIMES},
    **{f"{_MIRROR}_replication_latency_ms{which}": ("gauge", _OF_PARTITION) for which in _TIMES},
    **{f"{_CHECKPOINT}_checkpoint_latency_ms{which}": ("gauge", _OF_GROUP) for which in _TIMES},
    "kafka_consumer_fetch_manager_records_lag": ("gauge", {"clientid", "topic", "partition"}),
    "kafka_consumer_incoming_byte_total": ("counter", {"clientid"}),
    "kafka_producer_outgoing_byte_total": ("counter", {"clientid"}),
    "kafka_connect_worker_connector_count": ("gauge", set()),
    "kafka_connect_worker_task_count": ("gauge", set()),
    "kafka_connect_worker_rebalance_rebalancing": ("gauge", set()),
    "kafka_connect_coordinator_assigned_connectors": ("gauge", {"clientid"}),
    "kafka_connect_coordinator_assigned_tasks": ("gauge", {"clientid"}),
    **{
        f"kafka_connect_worker_connector_{state}_task_count": ("gauge", {"connector"})
        for state in ("total", "running", "paused", "failed", "unassigned", "destroyed", "restarting")
    },
    "kafka_connect_connector_status": ("gauge", {*_OF_TASK, "status"}),
    "kafka_connect_connector_task_running_ratio": ("gauge", _OF_TASK),
    "kafka_connect_connector_task_pause_ratio": ("gauge", _OF_TASK),
    "kafka_connect_source_task_source_record_poll_total": ("counter", _OF_TASK),
    "kafka_connect_source_task_source_record_write_total": ("counter", _OF_TASK),
    "kafka_connect_task_error_total_records_skipped": ("gauge", _OF_TASK),
}


def test_names_types_and_labels() -> None:
    ours = {metric.name: (metric.kind, set(section.labels)) for section in mm2.SECTIONS for metric in section.metrics}
    assert ours == EXPECTED
