"""Read-only admin queries against a real cluster."""

import pytest

from lab.cluster import Cluster
from tests.cli.conftest import commit
from twinlog.config.flows import Client as ClientConfig
from twinlog.config.values import DEFAULT, FrozenMap, Value
from twinlog.kafka import admin_queries
from twinlog.kafka.client import Client

pytestmark = pytest.mark.broker


@pytest.fixture
def client(us: Cluster) -> Client:
    values = {key: Value(key, text, DEFAULT) for key, text in us.client_properties().items()}
    return Client("us", ClientConfig("admin", FrozenMap(values)))


def test_clocks_of_the_controller_and_of_commits(us: Cluster, topic: str, client: Client) -> None:
    """Both are this machine's, so both must agree with it."""
    us.create_topic(topic)
    commit(us, topic, topic, 0)
    exact, least = admin_queries.controller_clock(client), admin_queries.newest_commit(client)
    client.close()
    assert exact is not None
    assert (exact.exact, abs(exact.ahead) <= exact.within + 0.5) == (True, True)
    assert least is not None
    assert not least.exact
    assert least.ahead <= 0.001


def test_settings_and_replicas(us: Cluster, topic: str, client: Client) -> None:
    us.create_topic(topic, 2)
    settings = admin_queries.broker_settings(client, 0, ["message.max.bytes", "min.insync.replicas"])
    replicas = admin_queries.replicas(client, [topic, "no-such-topic"])
    client.close()
    assert settings == {"message.max.bytes": "1048588", "min.insync.replicas": "1"}
    assert replicas == {topic: tuple(admin_queries.Replicas(index, 0, 1, 1) for index in (0, 1))}
