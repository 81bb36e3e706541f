"""Endpoints and probe results for tests."""

from collections.abc import Mapping

from twinlog.config.flows import Client
from twinlog.config.values import FrozenMap, Origin, Value
from twinlog.inspect.doctor.facts import Address, Endpoint, ProbeResult
from twinlog.inspect.doctor.reachability import ClusterReach
from twinlog.mm2.replication_policy import DefaultReplicationPolicy


class OneName(DefaultReplicationPolicy):
    def format_remote_topic(self, source: str, topic: str) -> str:  # noqa: ARG002  # whatever it is called
        return "one"


def client(**settings: str) -> Client:
    """With `us.` in front, as it comes from mm2.properties."""
    named = {key.replace("_", "."): text for key, text in settings.items()}
    origins = {key: Origin("file", "mm2.properties", 1, f"us.{key}") for key in named}
    return Client("admin", FrozenMap({key: Value(key, text, origins[key]) for key, text in named.items()}))


def reach(
    bootstrap: dict[Address, ProbeResult], others: Mapping[Address, ProbeResult] = {}, /, **settings: str
) -> ClusterReach:
    endpoint = Endpoint("us", client(**settings), ("source.admin", "source.consumer"))
    return ClusterReach(endpoint, list(bootstrap), {**bootstrap, **others})


def connected(brokers: dict[int, Address], *resolved: str, cluster: str = "one") -> ProbeResult:
    return ProbeResult(
        stage="open", resolved=resolved or ("10.0.0.1",), cluster_id=cluster, controller=0, brokers=brokers
    )
