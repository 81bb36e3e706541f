"""Doors and knocks by hand."""

from collections.abc import Mapping

from twinlog.config.flows import Client
from twinlog.config.values import FrozenMap, Origin, Value
from twinlog.doctor.facts import Address, Door, Knock
from twinlog.doctor.reach import Way
from twinlog.topology.policy import DefaultReplicationPolicy


class OneName(DefaultReplicationPolicy):
    def format_remote_topic(self, source: str, topic: str) -> str:  # noqa: ARG002  # whatever it is called
        return "one"


def client(**settings: str) -> Client:
    """With `us.` in front, as it comes from mm2.properties."""
    named = {key.replace("_", "."): text for key, text in settings.items()}
    origins = {key: Origin("file", "mm2.properties", 1, f"us.{key}") for key in named}
    return Client("admin", FrozenMap({key: Value(key, text, origins[key]) for key, text in named.items()}))


def way(bootstrap: dict[Address, Knock], others: Mapping[Address, Knock] = {}, /, **settings: str) -> Way:
    door = Door("us", client(**settings), ("source.admin", "source.consumer"))
    return Way(door, list(bootstrap), {**bootstrap, **others})


def inside(brokers: dict[int, Address], *resolved: str, cluster: str = "one") -> Knock:
    return Knock(stage="open", resolved=resolved or ("10.0.0.1",), cluster_id=cluster, controller=0, brokers=brokers)
