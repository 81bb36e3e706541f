"""Facts that checks are based on. Pure data."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from twinlog.config.flows import Client, FlowConfig
from twinlog.inspect.snapshot import FlowSnapshot
from twinlog.kafka.admin_queries import ClockReading, Replicas
from twinlog.mm2.selection import Side
from twinlog.mm2.topic_configs import Entries

Address = tuple[str, int]
# How far a probe came; `open` is success.
Stage = Literal["name", "connection", "tls", "login", "request", "open"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Connection settings for a cluster, and the client roles that use them."""

    alias: str
    config: Client
    roles: tuple[str, ...]

    @property
    def user(self) -> str:
        """The roles, to tell the endpoints of a cluster apart."""
        return ", ".join(self.roles)


@dataclass(frozen=True, slots=True)
class TlsFacts:
    """Of an established TLS connection."""

    version: str
    issuer: str
    expires: dt.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """An attempt to connect to one address."""

    stage: Stage
    problem: str = ""  # why it went no further, without the address
    advice: str = ""  # what to do about it, if the error says
    error: int = 0  # errno
    resolved: tuple[str, ...] = ()  # the addresses of the name
    speaks: Literal["", "plain", "tls"] = ""  # after a failure: the listener's protocol, if known
    mechanisms: tuple[str, ...] = ()  # after a failure: the SASL mechanisms that it requires
    tls: TlsFacts | None = None
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
    ours: bool  # presented to brokers; otherwise trusted


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Of a reachable cluster."""

    alias: str
    id: str | None
    controller: int
    brokers: Mapping[int, Address]
    versions: Mapping[int, tuple[int, int]]  # supported by every broker
    settings: Mapping[int, Mapping[str, str | None]] = field(default_factory=dict)  # by broker
    unread: str = ""  # why settings could not be read
    clock: ClockReading | None = None
    no_clock: str = ""  # why there is no exact reading
    clock_denied: bool = False  # for lack of a permission


@dataclass(frozen=True, slots=True)
class ClusterSide:
    """One cluster of a flow whose other cluster is unreachable."""

    side: Side
    snapshot: FlowSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowFacts:
    """Both clusters, as a flow uses them."""

    flow: FlowConfig
    snapshot: FlowSnapshot | None
    problem: str = ""  # why there is no snapshot
    advice: str = ""  # what to do about it, if known
    unreachable: tuple[str, ...] = ()  # clusters, or some of their brokers, that are unreachable
    sides: tuple[ClusterSide, ...] = ()  # snapshots of single clusters instead
    replicas: Mapping[Side, Mapping[str, tuple[Replicas, ...]]] = field(default_factory=dict)  # by topic
    own_configs: Mapping[tuple[Side, str], Entries] = field(default_factory=dict)  # of internal topics
