"""The project's original sample configurations, unchanged."""

from pathlib import Path

import pytest

from twinlog.config import load

SEEDS = Path(__file__).parent / "seeds"


@pytest.mark.parametrize(
    ("name", "flows"),
    [
        ("one-way.properties", {"rdc->ord": True, "ord->rdc": False}),
        ("active-active.properties", {"source->target": True, "target->source": True}),
        ("connectors", {"source-0->target-0": True}),
        ("mirrormaker2.yaml", {"source->dest": True}),
        ("from-cloud.properties", {"source->target": True, "target->source": False}),
        ("strimzi-mm2.properties", {"source->target": True, "target->source": False}),
        ("client-source.properties", {}),
        ("client-target.properties", {}),
        ("connectors/connect-distributed.properties", {}),
    ],
)
def test_is_accepted(name: str, flows: dict[str, bool]) -> None:
    assert {str(flow.flow): flow.replicates for flow in load([SEEDS / name]).flows} == flows


def test_one_way_keeps_its_patterns() -> None:
    flow = load([SEEDS / "one-way.properties"]).flows[0]
    assert flow.source is not None
    assert flow.source.settings.topics == ("apache-logs", "DmmAccess")
    # The backslashes are single in the file, so Java's properties reader takes them away.
    assert flow.source.settings.topics_exclude == (".*[-.]internal", ".*.replica", "__consumer_offsets")
    assert flow.source.settings.tasks_max == 20
    assert flow.worker.settings.offset_storage_replication_factor == 3


def test_kubernetes_has_mutual_tls_and_keeps_names() -> None:
    (flow,) = load([SEEDS / "mirrormaker2.yaml"]).flows
    assert flow.source is not None
    assert flow.checkpoint is not None
    assert flow.source.settings.replication_policy_class.endswith("IdentityReplicationPolicy")
    assert flow.source.settings.tasks_max == 12
    assert flow.checkpoint.settings.refresh_groups_interval_seconds == 60
    consumer = flow.source.clients["source.consumer"]
    assert (consumer["security.protocol"], consumer["ssl.keystore.type"], consumer["ssl.truststore.type"]) == (
        "SSL",
        "PEM",
        "PEM",
    )


def test_cloud_speaks_sasl_plain_over_tls() -> None:
    flow = load([SEEDS / "from-cloud.properties"]).flows[0]
    assert flow.source is not None
    consumer = flow.source.clients["source.consumer"]
    assert (consumer["security.protocol"], consumer["sasl.mechanism"], consumer["ssl.protocol"]) == (
        "SASL_SSL",
        "PLAIN",
        "TLSv1.2",
    )
    assert len(consumer["bootstrap.servers"]) == 6
