"""Creates and alters topics with a custom class (`forwarding.admin.class`).

Only changes of topics are forwarded; reads, ACLs and group offsets go to the cluster.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from twinlog.config.flows import Client as ClientConfig
from twinlog.config.flows import Connector
from twinlog.errors import RefusedError
from twinlog.kafka.admin import Admin
from twinlog.kafka.client import Client, NewTopic
from twinlog.kafka.resources import ConfigChange
from twinlog.mm2 import plugins
from twinlog.mm2.plugins import TopicAdmin
from twinlog.mm2.replication_policy import texts_of

_KEY: Final = "forwarding.admin.class"
_METHODS: Final = ("create_topic", "create_partitions", "alter_configs")
_FAILED: Final = -1  # Kafka's UNKNOWN_SERVER_ERROR
APPEARS: Final = 10.0  # seconds until every broker knows a new topic
_FORWARDED_APPEARS: Final = 60.0  # a Kubernetes operator or a ticket system is slower than a broker


class ForwardingClient(Client):
    """A client of a cluster whose topics are created by the custom class."""

    def __init__(self, alias: str, config: ClientConfig, client_id: str, name: str, topics: TopicAdmin) -> None:
        super().__init__(alias, config, client_id)
        self.class_name = name  # package.module:Class
        self.topics = topics

    def close(self) -> None:
        super().close()
        if callable(close := getattr(self.topics, "close", None)):
            with contextlib.suppress(Exception):
                close()

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> int:
        self.forward("create_topic", name, lambda: self.topics.create_topic(
            name, partitions, replication_factor, dict(configs)
        ))  # fmt: skip
        return 0

    def create_topics(self, topics: Sequence[NewTopic]) -> set[str]:  # noqa: ARG002  # the class takes one at a time
        return set()

    def grow_topic(self, name: str, partitions: int) -> None:
        self.forward("create_partitions", name, lambda: self.topics.create_partitions(name, partitions))

    def forward(self, method: str, topic: str, call: Callable[[], object]) -> None:
        """Every failure becomes a RefusedError: the topic is skipped, and retried later."""
        try:
            call()
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise RefusedError(
                f"cluster {self.alias}: {_KEY} {self.class_name}: {method} of topic {topic} failed: {text}", _FAILED
            ) from error


class ForwardingAdmin(Admin):
    def __init__(self, client: ForwardingClient) -> None:
        super().__init__(client)
        self._forwarding = client

    def alter_topic_configs(
        self, changes: Mapping[str, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> dict[str, RefusedError]:
        refused: dict[str, RefusedError] = {}
        for name, wanted in changes.items() if not validate_only else ():
            configs = {change.name: change.value for change in wanted}
            try:
                self._forwarding.forward("alter_configs", name, lambda n=name, c=configs: self._alter(n, c))  # type: ignore[misc]
            except RefusedError as error:
                refused[name] = error
        return refused

    def _alter(self, name: str, configs: dict[str, str | None]) -> None:
        self._forwarding.topics.alter_configs(name, configs)


def admin_client(connector: Connector[Any], role: str, alias: str, client_id: str) -> Client:
    """The client that creates topics on a cluster. `role` is `source.admin` or `target.admin`."""
    settings = connector.settings
    name: str = settings.forwarding_admin_class
    if not plugins.is_python(name):
        return Client(alias, connector.clients[role], client_id)
    topics: TopicAdmin = plugins.instance(
        _KEY, name, texts_of(connector), _METHODS, (TopicAdmin,), {"cluster": alias, "side": role.partition(".")[0]}
    )
    return ForwardingClient(alias, connector.clients[role], client_id, name, topics)


def admin_of(client: Client) -> Admin:
    return ForwardingAdmin(client) if isinstance(client, ForwardingClient) else Admin(client)


def appears_within(client: Client) -> float:
    """Seconds until a topic created by this client is available."""
    return _FORWARDED_APPEARS if isinstance(client, ForwardingClient) else APPEARS
