"""The errors that the seed found in MirrorMaker 2's traces, and a few of their kin. run.py makes each of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TypicalError:
    mm2: str  # what stands in MM2's log
    check: str  # which check of `twinlog doctor` finds why
    found: str  # words of what it says


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
        "refused",
    ),
    "truststore": TypicalError(
        "SSLHandshakeException: PKIX path building failed: unable to find valid certification path to requested target",
        "tls",
        "is not trusted",
    ),
    "protocol": TypicalError(
        "Bootstrap broker kafka1:9093 (id: -1 rack: null) disconnected",
        "tls",
        "the listener speaks TLS",
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
        "fewer replicas are in sync than min.insync.replicas asks for",
    ),
    "plugin": TypicalError(
        "Plugin class loader for connector: 'org.apache.kafka.connect.mirror.MirrorCheckpointConnector' was not found",
        "configuration",
        "no such class",
    ),
    "log-dir": TypicalError(
        "mkdir: cannot create directory '/opt/kafka/bin/../logs': Permission denied",
        "machine",
        "cannot be written to",
    ),
}


def recognised(error: TypicalError, findings: Iterable[Mapping[str, str]]) -> Mapping[str, str] | None:
    """What the doctor says to it: the worst that was found by that check in those words."""
    found = [each for each in findings if each["check"] == error.check and error.found in each["found"]]
    order = ("error", "warning", "note")
    return min(found, key=lambda each: order.index(each["status"])) if found else None
