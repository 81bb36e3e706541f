"""A connection to a broker of the source, and the fetch session on it."""

from dataclasses import dataclass, field
from typing import Optional

from twinlog.kafka.fetch import BY_ID, Session
from twinlog.model import TopicPartition
from twinlog.replicate.broker_connections import BrokerConnection
from twinlog.replicate.partition import Partition


@dataclass(slots=True, eq=False)
class SourceConnection(BrokerConnection):
    session: Session = field(default_factory=lambda: Session(BY_ID))
    partitions: dict[TopicPartition, Partition] = field(default_factory=dict)
    to_request: dict[TopicPartition, None] = field(default_factory=dict)  # new or changed since the last request
    forget: dict[TopicPartition, None] = field(default_factory=dict)
    paused: dict[TopicPartition, None] = field(default_factory=dict)  # until the target has acknowledged some
    truncated_counts: dict[TopicPartition, int] = field(default_factory=dict)  # consecutive truncated responses
    fetch_sent_at: float = 0.0
    max_wait: float = 0.0  # seconds, of the open request
    empty_responses: int = 0  # consecutive, without a wait
    primary: Optional["SourceConnection"] = None  # the first one to the same broker. None: this is the first
    loads: dict[TopicPartition, int] = field(default_factory=dict)  # bytes received since partitions were moved
    slow_responses: int = 0  # consecutive: see fetch_spread.py
