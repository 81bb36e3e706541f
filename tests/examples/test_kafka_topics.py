"""examples/kubernetes/kafka_topics.py against a fake Kubernetes API."""

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ReadFlow
from tests.security.aws import FakeAws
from twinlog.errors import RefusedError
from twinlog.kafka.resources import ConfigChange
from twinlog.sync.forwarding_admin import ForwardingAdmin, ForwardingClient, admin_client, admin_of

FOLDER = Path(__file__).parents[2] / "examples/kubernetes"
TOPICS = "/apis/kafka.strimzi.io/v1beta2/namespaces/kafka/kafkatopics"


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeAws]:
    fake = FakeAws()
    (tmp_path / "namespace").write_text("kafka\n")
    (tmp_path / "token").write_text("secret-token\n")
    for name, text in {"KUBERNETES_API": fake.url, "SERVICE_ACCOUNT": str(tmp_path), "STRIMZI_CLUSTER": "east"}.items():
        monkeypatch.setenv(name, text)
    monkeypatch.syspath_prepend(str(FOLDER))
    yield fake
    fake.close()
    sys.modules.pop("kafka_topics", None)


def _client(read_flow: ReadFlow) -> ForwardingClient:
    flow = read_flow("forwarding.admin.class = kafka_topics:KafkaTopics")
    assert flow.source is not None
    made = admin_client(flow.source, "target.admin", "B", "me")
    assert isinstance(made, ForwardingClient)
    return made


def test_topics_are_created_as_resources(kubernetes: FakeAws, read_flow: ReadFlow) -> None:
    kubernetes.replies[f"POST {TOPICS}"] = (201, b"{}")
    kubernetes.replies[f"PATCH {TOPICS}/a.orders"] = (200, b"{}")
    client = _client(read_flow)
    client.create_topic("a.orders", 3, 2, {"retention.ms": "5"})
    (asked,) = kubernetes.asked
    assert asked.headers["authorization"] == "Bearer secret-token"
    assert json.loads(asked.body) == {
        "apiVersion": "kafka.strimzi.io/v1beta2", "kind": "KafkaTopic",
        "metadata": {"name": "a.orders", "labels": {"strimzi.io/cluster": "east"}},
        "spec": {"topicName": "a.orders", "partitions": 3, "config": {"retention.ms": "5"}, "replicas": 2},
    }  # fmt: skip
    client.grow_topic("a.orders", 4)
    admin = admin_of(client)
    assert isinstance(admin, ForwardingAdmin)
    changes = [ConfigChange("retention.ms", "6"), ConfigChange("cleanup.policy", None)]
    assert not admin.alter_topic_configs({"a.orders": changes})
    patches: list[Any] = [json.loads(asked.body) for asked in kubernetes.asked[1:]]
    assert patches == [{"spec": {"partitions": 4}}, {"spec": {"config": {"retention.ms": "6", "cleanup.policy": None}}}]
    assert kubernetes.asked[-1].headers["content-type"] == "application/merge-patch+json"


def test_an_existing_resource_is_accepted(kubernetes: FakeAws, read_flow: ReadFlow) -> None:
    kubernetes.replies[f"POST {TOPICS}"] = (409, b"{}")
    _client(read_flow).create_topic("a.orders", 3, -1, {})
    assert "replicas" not in json.loads(kubernetes.asked[0].body)["spec"]


def test_an_error_is_reported_without_the_token(kubernetes: FakeAws, read_flow: ReadFlow) -> None:
    kubernetes.replies[f"POST {TOPICS}"] = (403, b"secret-token")
    with pytest.raises(
        RefusedError, match=r"create_topic of topic a\.orders failed: HTTPError: HTTP Error 403"
    ) as caught:
        _client(read_flow).create_topic("a.orders", 3, 2, {})
    assert "secret-token" not in str(caught.value)


@pytest.mark.parametrize("topic", ["a.Orders", "a_b", "a-b", "A", "a..b", "-", "x" * 249, "__consumer_offsets"])
@pytest.mark.usefixtures("kubernetes")
def test_resource_names_are_valid(topic: str) -> None:
    kafka_topics = importlib.import_module("kafka_topics")
    name = kafka_topics.resource_name(topic)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name), name
    assert len(name) <= 253
    assert kafka_topics.resource_name(topic.lower() + "x") != name
