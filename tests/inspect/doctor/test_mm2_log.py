"""Explanations of log lines of MM2 and Kafka clients."""

import pytest

from twinlog.inspect.doctor.findings import Finding
from twinlog.inspect.doctor.mm2_log import findings, matches

# Of Kafka 2.4 to 4.3.
LINES = {
    "[2020-02-24 19:12:02,001] ERROR Plugin class loader for connector: 'org.apache.kafka.connect.mirror.MirrorCheckpointConnector' was not found. Returning: org.apache.kafka.connect.runtime.isolation.DelegatingClassLoader@4e517165": "class org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
    "[Consumer clientId=consumer-7, groupId=null] Error while fetching metadata with correlation id 2314 : {source.heartbeats=UNKNOWN_TOPIC_OR_PARTITION} (org.apache.kafka.clients.NetworkClient:1063)": "no flow writes heartbeats to it",
    "[Producer clientId=producer-1] Error while fetching metadata with correlation id 5 : {source.orders=UNKNOWN_TOPIC_OR_PARTITION}": "the cluster has no topic source.orders",
    "[Consumer clientId=c] Error while fetching metadata with correlation id 5 : {orders=LEADER_NOT_AVAILABLE}": "a partition of orders had no leader",
    "mkdir: cannot create directory '/opt/kafka/bin/../logs': Permission denied": "could not create its log directory",
    "ERROR WorkerSourceTask{id=MirrorSourceConnector-0} Failed to flush, timed out while waiting for producer to flush outstanding 1 messages (org.apache.kafka.connect.runtime.WorkerSourceTask:422)": "did not acknowledge 1 records in time",
    "ERROR WorkerSourceTask{id=MirrorSourceConnector-0} Failed to commit offsets (org.apache.kafka.connect.runtime.SourceTaskOffsetCommitter:114)": "offsets could not be committed",
    "org.apache.kafka.common.errors.InvalidReplicationFactorException: Replication factor: 3 larger than available brokers: 1.": "replication factor exceeds the number of brokers",
    "org.apache.kafka.common.errors.InvalidReplicationFactorException: Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only 1 broker(s) are registered.": "replication factor exceeds the number of brokers",
    "Caused by: sun.security.validator.ValidatorException: PKIX path building failed: sun.security.provider.certpath.SunCertPathBuilderException: unable to find valid certification path to requested target": "a CA that is not in the truststore",
    "Caused by: java.security.cert.CertificateException: No subject alternative DNS name matching kafka1 found.": "does not contain the host name",
    "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed: Invalid username or password": "rejected the user name or password",
    "org.apache.kafka.common.errors.IllegalSaslStateException: Unexpected Kafka request of type METADATA during SASL handshake.": "requires SASL authentication",
    "WARN [AdminClient clientId=adminclient-1] Bootstrap broker kafka1:9093 (id: -1 rack: null) disconnected": "often plaintext sent to a TLS port",
    "WARN [Producer clientId=p] Connection to node -1 (kafka1/10.0.0.1:9092) could not be established. Broker may not be available.": "one of bootstrap.servers",
    "WARN [Producer clientId=p] Connection to node 1001 (kafka1/10.0.0.1:9092) could not be established. Node may not be available.": "which broker 1001 advertises",
    "WARN Error connecting to node kafka3:9094 (id: 2 rack: null) java.net.UnknownHostException: kafka3": "could not be resolved",
    "org.apache.kafka.common.errors.NotEnoughReplicasException: Messages are rejected since there are fewer in-sync replicas than required.": "min.insync.replicas",
    "org.apache.kafka.common.errors.RecordTooLargeException: The message is 1048675 bytes when serialized": "a record is larger",
    "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [orders]": "a permission on a Topic is missing",
    "SslAuthenticationException: SSL handshake failed": "the TLS handshake failed",
}


@pytest.mark.parametrize(("line", "means"), LINES.items(), ids=range(len(LINES)))
def test_every_line_is_known(line: str, means: str) -> None:
    (match,) = matches([line])
    assert means in match.means
    (finding,) = findings([match], [])
    assert (finding.status, finding.where) == ("note", "line 1")
    assert finding.advice


def test_irrelevant_lines() -> None:
    usual = ["INFO Kafka version: 2.4.0", "", "INFO Started MirrorSourceConnector with 3 topic-partitions."]
    assert matches(usual) == []
    (finding,) = findings([], [])
    assert finding.status == "note"


def test_repeated_lines_are_reported_once() -> None:
    line = "Error while fetching metadata with correlation id {} : {{orders=UNKNOWN_TOPIC_OR_PARTITION}}"
    found = matches([line.format(1), "other", line.format(2), line.format(3)])
    assert [(each.times, each.number) for each in found] == [(3, 4)]
    assert findings(found, [])[0].where == "line 4, 3 times"


def test_a_cause_that_was_found_now_is_named() -> None:
    found = matches(["Failed to flush, timed out while waiting for producer to flush outstanding 7 messages"])
    seen = [
        Finding("ok", "replication", "a->b", "", "well"),
        Finding("warning", "leaders", "a->b", "t-0", "lags"),
        Finding("error", "leaders", "a->b", "t-1", "without a leader"),
        Finding("error", "login", "b", "", "of another kind"),
    ]
    (finding,) = findings(found, seen)
    assert (finding.status, finding.advice) == ("error", "now: a->b, t-1: without a leader")


def test_long_lines_are_cut() -> None:
    (finding,) = findings(matches(["Failed to commit offsets " + "x" * 1000]), [])
    assert len(finding.found) < 400
