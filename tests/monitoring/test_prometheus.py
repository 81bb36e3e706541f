"""A real Prometheus scrapes, evaluates the rules, and runs the queries of dashboards."""

import subprocess
import urllib.request

import pytest

from lab.waiting import until
from tests.monitoring.conftest import Prometheus, tool
from tests.monitoring.test_dashboard import BOARD, expressions
from tests.monitoring.test_rules import alerts
from twinlog.metrics import mm2

pytestmark = pytest.mark.tools

_VARIABLES = {"$instance": ".*", "$flow": ".*", "$topic": ".*", "$__rate_interval": "20s", "$__range": "1m"}

_MM2 = 'strimzi_io_kind=~"KafkaMirrorMaker2",strimzi_io_cluster="my-mm2"'
_MIRROR = "kafka_connect_mirror_mirrorsourceconnector"
_TIMES = ("", "_avg", "_min", "_max")
_SOURCE = r'connector=~"\".*SourceConnector\""'

# Queries of Strimzi's dashboard for MM2: metric, selector, sum by, and whether it is a rate.
STRIMZI = [
    ("kafka_connect_worker_connector_count", _MM2, "", False),
    ("kafka_connect_worker_task_count", _MM2, "", False),
    (f"{_MIRROR}_record_rate", _MM2, "", False),
    (f"{_MIRROR}_byte_rate", _MM2, "", False),
    *((f"{_MIRROR}_record_age_ms{which}", _MM2, "partition, topic", False) for which in _TIMES),
    *((f"{_MIRROR}_replication_latency_ms{which}", _MM2, "partition, topic", False) for which in _TIMES),
    (
        "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms",
        _MM2,
        "source, target, topic, partition, group",
        False,
    ),
    (
        "kafka_consumer_fetch_manager_records_lag",
        _MM2 + r',clientid=~".*replication-consumer\""',
        "topic, partition",
        False,
    ),
    ("kafka_consumer_incoming_byte_total", _MM2, "kubernetes_pod_name", True),
    ("kafka_producer_outgoing_byte_total", _MM2, "kubernetes_pod_name", True),
    ("kafka_producer_buffer_available_bytes", r'clientid=~"\".*SourceConnector-[0-9]+\""', "", False),
    ("kafka_connect_connector_task_offset_commit_avg_time_ms", _SOURCE + ', task=~"[0-9]+"', "", False),
    ("kafka_connect_source_task_source_record_active_count", _SOURCE, "", False),
    ("kafka_connect_coordinator_assigned_connectors", _MM2, "kubernetes_pod_name", False),
    ("kafka_connect_coordinator_assigned_tasks", _MM2, "kubernetes_pod_name", False),
    ("kafka_connect_worker_rebalance_rebalancing", _MM2, "", False),
    ("jvm_memory_used_bytes", _MM2, "kubernetes_pod_name", False),
    ("jvm_gc_collection_seconds_sum", _MM2, "kubernetes_pod_name", True),
    ("jvm_threads_current", _MM2, "kubernetes_pod_name", False),
    ("container_cpu_usage_seconds_total", 'namespace="kafka"', "pod", True),
]


def filled(expression: str) -> str:
    for name, value in _VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def test_it_is_scraped_without_errors(prometheus: Prometheus) -> None:
    (target,) = prometheus.get("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    with urllib.request.urlopen(prometheus.scraped, timeout=30) as answer:
        lines = [line for line in answer.read().splitlines() if not line.startswith(b"#")]
    for what in ("scrape_samples_scraped", "scrape_samples_post_metric_relabeling"):
        (kept,) = prometheus.query(what)
        assert kept["value"][1] == str(len(lines))
    assert len(lines) > 300


def test_values(prometheus: Prometheus) -> None:
    lag = prometheus.query('sum by (flow) (twinlog_lag_records{flow="us->eu"})')
    assert [(each["metric"], each["value"][1]) for each in lag] == [({"flow": "us->eu"}, "30")]
    assert prometheus.query("rate(twinlog_topic_records_total[20s]) > 0")
    client = prometheus.query(r'kafka_consumer_fetch_manager_records_lag{clientid=~"\"us->eu.*replication-consumer\""}')
    assert len(client) == 6


def test_rules_are_evaluated_and_alerts_fire(prometheus: Prometheus) -> None:
    def of(what: str) -> dict[str, str]:
        rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        return {rule["name"]: rule.get(what, "") for rule in rules}

    until(lambda: set(of("health").values()) == {"ok"}, "each rule evaluated once")
    assert set(of("lastError").values()) == {""}
    states = of("state")
    assert set(alerts()) <= set(states)
    assert states["TwinlogRecordsLost"] == states["TwinlogForeignWrites"] == "firing"
    assert states["TwinlogPartitionBroken"] == "pending"
    assert states["TwinlogDown"] == states["TwinlogMissing"] == states["TwinlogFlowFailing"] == "inactive"


def test_every_expression_of_the_dashboard_finds_series(prometheus: Prometheus) -> None:
    queries = [(panel, filled(expression)) for panel, expression in expressions()]
    assert [(panel, text) for panel, text in queries if "$" in text] == []
    # The annotation has no series, as nothing is started meanwhile.
    assert [(panel, text) for panel, text in queries if not prometheus.query(text) and panel != "Starts"] == []


def test_every_variable_of_the_dashboard_has_values(prometheus: Prometheus) -> None:
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            series, _, label = filled(variable["query"]["query"])[len("label_values(") : -1].rpartition(", ")
            values = prometheus.get(f"label/{label}/values", **{"match[]": series})
            assert values, variable["name"]


@pytest.mark.parametrize(("name", "matchers", "by", "rate"), STRIMZI)
def test_strimzis_dashboard_finds_series(prometheus: Prometheus, name: str, matchers: str, by: str, rate: bool) -> None:
    selected = f"{name}{{{matchers}}}"
    found = prometheus.query(f"sum by ({by}) ({f'rate({selected}[20s])' if rate else selected})")
    if name in mm2.ABSENT:  # see docs/metrics.md
        assert found == []
    else:
        assert found
        assert all(each["value"][1] != "NaN" for each in found)
        assert all(set(each["metric"]) == set(filter(None, by.split(", "))) for each in found)


def test_absent_metrics_are_queried_by_the_dashboard() -> None:
    assert set(mm2.ABSENT) <= {name for name, *_ in STRIMZI}


def test_promtool_lints_only_mm2s_names(prometheus: Prometheus) -> None:
    """MM2's names violate Prometheus's naming conventions; ours must not."""
    with urllib.request.urlopen(prometheus.scraped, timeout=30) as answer:
        text = answer.read()
    done = subprocess.run(
        [tool("promtool"), "check", "metrics"], input=text, capture_output=True, timeout=60, check=False
    )
    warnings = (done.stdout + done.stderr).decode().splitlines()
    assert [line for line in warnings if not line.startswith("kafka_")] == []
    assert warnings, "nothing was read"
