"""Typical errors in MirrorMaker 2's logs, and how `twinlog doctor` reports them. run.py provokes each of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TypicalError:
    mm2: str  # MM2's log line
    check: str  # the check of `twinlog doctor` that finds the cause
    found: str  # part of its message


ERRORS: dict[str, TypicalError] = {
    "topic": TypicalError(
        "Error while fetching metadata with correlation id 2314 : {ordres=UNKNOWN_TOPIC_OR_PARTITION}",
        "topics",
        "has no such topic",
    ),
    "leader": TypicalError(
        "Error while fetching metadata with correlation id 2314 : {stock=LEADER_NOT_AVAILABLE}",
        "leaders",
        "without a leader",
    ),
    "advertised": TypicalError(
        "Error connecting to node kafka-3.example.invalid:9094 (id: 2 rack: null): UnknownHostException",
        "advertised",
        "broker 2 advertises kafka-3.example.invalid",
    ),
    "api-key": TypicalError(
        "SaslAuthenticationException: Authentication failed: Invalid username or password",
        "login",
        "authentication failed",
    ),
    "truststore": TypicalError(
        "SSLHandshakeException: PKIX path building failed: unable to find valid certification path to requested target",
        "tls",
        "is not trusted",
    ),
    "protocol": TypicalError(
        "Bootstrap broker kafka1:9093 (id: -1 rack: null) disconnected",
        "tls",
        "the listener uses TLS",
    ),
    "factor": TypicalError(
        "InvalidReplicationFactorException: Replication factor: 3 larger than available brokers: 2",
        "replication",
        "cannot be created",
    ),
    "flush": TypicalError(
        "WorkerSourceTask{id=MirrorSourceConnector-0} Failed to flush, timed out while waiting for producer to flush "
        "outstanding 1 messages",
        "replication",
        "fewer replicas are in sync than min.insync.replicas requires",
    ),
    "plugin": TypicalError(
        "Plugin class loader for connector: 'org.apache.kafka.connect.mirror.MirrorCheckpointConnector' was not found",
        "configuration",
        "unknown class",
    ),
    "log-dir": TypicalError(
        "mkdir: cannot create directory '/opt/kafka/bin/../logs': Permission denied",
        "machine",
        "is not writable",
    ),
}


def recognised(error: TypicalError, findings: Iterable[Mapping[str, str]]) -> Mapping[str, str] | None:
    """The most severe finding of that check with that message."""
    found = [each for each in findings if each["check"] == error.check and error.found in each["found"]]
    order = ("error", "warning", "note")
    return min(found, key=lambda each: order.index(each["status"])) if found else None
