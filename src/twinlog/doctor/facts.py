"""What was seen of clusters, before anybody says what it means. Pure: only nouns."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from twinlog.config.flows import Client, FlowConfig
from twinlog.kafka.checkup import ClockReading, Replicas
from twinlog.topology.configs import Entries
from twinlog.topology.selection import Side
from twinlog.topology.sight import Sight

Address = tuple[str, int]
# How far somebody came who knocked: the last one is inside.
Stage = Literal["name", "connection", "tls", "login", "question", "open"]


@dataclass(frozen=True, slots=True)
class Door:
    """One way to log in to a cluster, and the clients that take it."""

    alias: str
    config: Client
    roles: tuple[str, ...]

    @property
    def user(self) -> str:
        """Who comes in here, for a cluster that has several doors."""
        return ", ".join(self.roles)


@dataclass(frozen=True, slots=True)
class Lock:
    """What a TLS connection was locked with."""

    version: str
    issuer: str
    expires: dt.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Knock:
    """An attempt to come in at one address."""

    stage: Stage
    trouble: str = ""  # why no farther, without the address
    error: int = 0  # the system's number of it
    resolved: tuple[str, ...] = ()  # the addresses of the name
    speaks: Literal["", "plain", "tls"] = ""  # after a failure: what the listener does speak, if that could be told
    mechanisms: tuple[str, ...] = ()  # after a failure: those of a login that it asks for
    lock: Lock | None = None
    versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # API key -> its versions
    cluster_id: str | None = None
    controller: int = -1
    brokers: Mapping[int, Address] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dated:
    """A certificate of a keystore or truststore."""

    place: str  # the setting and the file
    name: str
    issuer: str
    begins: dt.datetime
    expires: dt.datetime
    ours: bool  # shown to brokers; else trusted


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What a cluster says of itself, to somebody who came in."""

    alias: str
    id: str | None
    controller: int
    brokers: Mapping[int, Address]
    versions: Mapping[int, tuple[int, int]]  # those that every broker knows
    settings: Mapping[int, Mapping[str, str | None]] = field(default_factory=dict)  # by broker
    unread: str = ""  # why settings could not be read
    clock: ClockReading | None = None
    no_clock: str = ""


@dataclass(frozen=True, slots=True)
class HalfSight:
    """One cluster of a flow whose other one is away."""

    side: Side
    sight: Sight


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowFacts:
    """Both clusters through the eyes of a flow."""

    flow: FlowConfig
    sight: Sight | None
    trouble: str = ""  # why there is no sight
    away: tuple[str, ...] = ()  # clusters, or some of their brokers, that were not reached
    halves: tuple["HalfSight", ...] = ()  # what was seen of single clusters instead
    replicas: Mapping[Side, Mapping[str, tuple[Replicas, ...]]] = field(default_factory=dict)  # by topic
    own_configs: Mapping[tuple[Side, str], Entries] = field(default_factory=dict)  # of the topics beside the records
