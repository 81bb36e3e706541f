"""`twinlog run --port` with real clusters, scraped by a real Prometheus."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from lab.cluster import Cluster
from lab.ports import HOST, free_port
from lab.waiting import until
from tests.monitoring.conftest import Prometheus, scraping, tool
from tests.runtime.conftest import Pair
from twinlog.metrics.exposition import SECTIONS

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture
def pair(us: Cluster, eu: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(us, eu, tmp_path_factory.mktemp("live"))
    try:
        yield pair
    finally:
        pair.close()


def number(prometheus: Prometheus, expression: str) -> float | None:
    found = prometheus.query(expression)
    return float(found[0]["value"][1]) if found else None


def test_metrics_of_a_real_flow(pair: Pair, topic: str) -> None:
    tool("prometheus")
    second = f"{topic}-second"
    for name in (topic, second):
        pair.source.create_topic(name, 2)
    group = f"{topic}: readers"
    feed = pair.feed(topic, second, per_second=200)
    feed.flow()
    port = free_port()
    settings = {"topics": f"{topic}.*", "groups": group, "sync.group.offsets.enabled": "true"}
    twin = pair.run("--port", str(port), pair.file(settings))
    with scraping(pair.folder, f"{HOST}:{port}") as prometheus:  # it waits for a target that does not answer yet
        pair.wait_for_more(twin, topic, second, seconds=120)

        def becomes(expression: str, value: float | None) -> None:
            until(
                lambda: number(prometheus, expression) == value,
                f"{expression} should be {value}",
                seconds=60,
                logs=lambda: f"; it is {prometheus.query(expression)}\n{twin.output}",
            )

        becomes(f'sum(rate(twinlog_topic_records_total{{topic="{topic}"}}[10s]) > bool 0)', 1)
        feed.pause()
        consumer = Consumer({**pair.source.librdkafka_properties(), "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, 0, 20)], asynchronous=False)
        consumer.close()
        # Each topic has half of all records.
        becomes(f'sum(twinlog_topic_records_total{{topic="{topic}"}})', feed.count / 2)
        mirror = "kafka_connect_mirror_mirrorsourceconnector_record_count"
        becomes(f'sum({mirror}{{source="us",target="eu",topic="us.{second}"}})', feed.count / 2)
        becomes("sum(kafka_connect_source_task_source_record_write_total)", feed.count)
        becomes("sum(twinlog_lag_records)", 0)
        becomes(r'sum(kafka_consumer_fetch_manager_records_lag{clientid=~".*replication-consumer\""})', 0)
        becomes('twinlog_flow_state{flow="us->eu",state="running"}', 1)
        becomes('twinlog_flow_health{flow="us->eu",level="healthy"}', 1)
        becomes('twinlog_heartbeat_age_seconds{flow="us->eu"} < bool 30', 1)
        becomes(r'count(kafka_connect_worker_connector_total_task_count{connector=~"\"us->eu.*"})', 3)
        becomes(
            r'count(kafka_connect_connector_status{connector=~"\"us->eu.*SourceConnector\"",status="running"}) > bool 0',
            1,
        )
        offset = f'twinlog_group_offset{{group="{group}",topic="{topic}",partition="0",side="source"}}'
        becomes(offset, 20)
        becomes(f'twinlog_group_checkpoint_age_seconds{{group="{group}",partition="0"}} < bool 60', 1)
        latency = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"
        becomes(f'count({latency}{{group="\\"{group}\\"",topic="us.{topic}",partition="0"}})', 1)
        becomes('twinlog_checkpoint_age_seconds{flow="us->eu"} < bool 60', 1)
        becomes("twinlog_process_cpu_seconds_total > bool 1", 1)

        exposed = {each["metric"]["__name__"] for each in prometheus.query('{job="twinlog"}')}
        table = {metric.name for section in SECTIONS for metric in section.metrics}
        assert table - exposed <= {"twinlog_events_total"}  # there may be no events

        with pair.source.admin() as admin:
            admin.delete_topics([second])
        becomes(f'count({{job="twinlog",topic=~"(us.)?{second}"}})', None)
        becomes(f'sum(twinlog_topic_records_total{{topic="{topic}"}})', feed.count / 2)
    assert twin.terminate() == 0
