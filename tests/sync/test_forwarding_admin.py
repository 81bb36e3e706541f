"""`forwarding.admin.class`: topics are created and altered only by the custom class."""

from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest

from lab.cluster import Cluster
from tests.replicate.conftest import MakeMirror
from tests.security.driver import client
from twinlog.config import load
from twinlog.errors import ConfigError
from twinlog.kafka.admin import Admin
from twinlog.kafka.client import Client
from twinlog.kafka.resources import ConfigChange
from twinlog.mm2.plugins import TopicAdmin, not_allowed
from twinlog.spark.planner import Planner
from twinlog.sync.configs_and_acls import ConfigAndAclSync
from twinlog.sync.heartbeats import HeartbeatSync

NAME = f"{__name__}:Ticket"


class Ticket(TopicAdmin):
    """A platform's API with its own login. It sets a config on each topic that it creates."""

    asked: ClassVar[list[tuple[object, ...]]] = []
    refusing: ClassVar[set[str]] = set()

    def __init__(self, settings: dict[str, str], *, cluster: str, side: str) -> None:
        self._cluster = cluster
        self._client = _plain(settings[f"{side}.cluster.bootstrap.servers"])

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: dict[str, str], /) -> None:
        self.asked.append(("create", self._cluster, name, partitions, replication_factor, configs))
        if name in self.refusing:
            raise PermissionError(f"no\nquota for {name}")
        self._client.create_topic(name, partitions, replication_factor, {**configs, "file.delete.delay.ms": "59999"})

    def close(self) -> None:
        self._client.close()

    def create_partitions(self, name: str, partitions: int, /) -> None:
        self.asked.append(("grow", self._cluster, name, partitions))
        self._client.grow_topic(name, partitions)

    def alter_configs(self, name: str, configs: dict[str, str | None], /) -> None:
        self.asked.append(("alter", self._cluster, name, configs))
        if name in self.refusing:
            raise PermissionError("no")
        changes = [ConfigChange(key, value) for key, value in configs.items()]
        assert not Admin(self._client).alter_topic_configs({name: changes})


def _plain(servers: str) -> Client:
    return Client("platform", client({"bootstrap.servers": servers}))


@pytest.fixture(autouse=True)
def nothing_asked_yet() -> None:
    Ticket.asked.clear()
    Ticket.refusing.clear()


def _configs(cluster: Cluster, topic: str) -> dict[str, str | None]:
    with closing(_plain(cluster.bootstrap())) as plain:
        found, _ = Admin(plain).topic_configs([topic])
        return {key: entry.value for key, entry in found[topic].items()}


def _alter(cluster: Cluster, topic: str, config: str, value: str) -> None:
    with closing(_plain(cluster.bootstrap())) as plain:
        assert not Admin(plain).alter_topic_configs({topic: [ConfigChange(config, value)]})


@pytest.mark.broker
def test_topics_are_created_and_altered_by_the_class(us: Cluster, eu: Cluster, topic: str, mirror: MakeMirror) -> None:
    us.create_topic(topic, partitions=2, configs={"retention.ms": "123456"})
    settings = {"forwarding__admin__class": NAME, "heartbeats__replication__enabled": "false"}
    flow = mirror(us, eu, topic, alias=f"a{topic[-8:]}", **settings)
    remote, alias, target = flow.remote(topic), flow.alias, flow.config.flow.target
    flow.copy()
    created = {name: rest for what, cluster, name, *rest in Ticket.asked if what == "create" and cluster == target}
    count, _factor, configs = created[remote]
    assert count == 2
    assert isinstance(configs, dict)
    assert configs["retention.ms"] == "123456"
    assert {f"mm2-offsets.{alias}.internal", f"mm2-twinlog.{alias}.internal"} <= set(created), "internal topics too"
    assert _configs(eu, remote)["file.delete.delay.ms"] == "59999", "created by the class"

    with closing(_plain(us.bootstrap())) as plain:
        plain.grow_topic(topic, 3)
    flow.copy()
    assert ("grow", target, remote, 3) in Ticket.asked

    _alter(us, topic, "retention.ms", "234567")
    warnings: list[str] = []
    sync = ConfigAndAclSync(flow.config, lambda _, text: warnings.append(text))
    try:
        assert sync.sync_configs() == 1
        ((_, _, name, altered),) = [asked for asked in Ticket.asked if asked[0] == "alter"]
        assert name == remote
        assert isinstance(altered, dict)
        assert altered["retention.ms"] == "234567"
        assert _configs(eu, remote)["retention.ms"] == "234567"

        _alter(us, topic, "retention.ms", "345678")
        Ticket.refusing.add(remote)
        assert sync.sync_configs() == 0
        assert f"{NAME}: alter_configs of topic {remote} failed: PermissionError: no" in warnings[0]
    finally:
        sync.close()


@pytest.mark.broker
def test_a_topic_that_the_class_does_not_create(us: Cluster, eu: Cluster, topic: str, mirror: MakeMirror) -> None:
    """It is skipped with the reason, the others are replicated."""
    us.create_topic(topic)
    us.create_topic(f"{topic}-other")
    settings = {"forwarding__admin__class": NAME, "heartbeats__replication__enabled": "false"}
    flow = mirror(us, eu, f"{topic}.*", alias=f"b{topic[-8:]}", **settings)
    Ticket.refusing.add(flow.remote(topic))
    planner = Planner(flow.config, "run")
    try:
        planner.prepare()
        assert [assignment.tp.topic for assignment in planner.discover()] == [f"{topic}-other"]
        (warning,) = planner.warnings
        expected = f"{NAME}: create_topic of topic {flow.remote(topic)} failed: PermissionError: no quota for"
        assert expected in warning.text
        Ticket.refusing.clear()
        assert {assignment.tp.topic for assignment in planner.discover()} == {topic, f"{topic}-other"}
    finally:
        planner.close()


@pytest.mark.broker
def test_the_heartbeats_topic(us: Cluster, eu: Cluster, topic: str, mirror: MakeMirror) -> None:
    """Not created here: another test may have done that."""
    flow = mirror(us, eu, topic, heartbeats__topic__replication__factor="1", forwarding__admin__class=NAME)
    sync = HeartbeatSync(flow.config)
    sync.close()
    assert type(sync._admin).__name__ == "ForwardingClient"


def test_a_connector_that_others_configure_may_not_name_it() -> None:
    assert "forwarding.admin.class" in not_allowed({"forwarding.admin.class": NAME}, [])
    assert not not_allowed({"forwarding.admin.class": NAME}, [NAME])


class Unmarked:
    def create_topic(self) -> None: ...
    def create_partitions(self) -> None: ...
    def alter_configs(self) -> None: ...


class Half(TopicAdmin):
    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: dict[str, str], /) -> None: ...


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no.such:Class", "no module 'no'"),
        (f"{__name__}:Unmarked", "not marked as a plugin; derive it from twinlog.mm2.plugins.TopicAdmin"),
        (f"{__name__}:Half", "no method create_partitions"),
    ],
)
def test_an_invalid_class(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = us, eu\nus.bootstrap.servers = 127.0.0.1:1\neu.bootstrap.servers = 127.0.0.1:1\n"
        f"us->eu.enabled = true\nforwarding.admin.class = {name}\n"
    )
    (flow,) = [flow for flow in load([file]).flows if flow.replicates]
    with pytest.raises(ConfigError) as caught:
        ConfigAndAclSync(flow, lambda *_: None)
    assert text in str(caught.value)
