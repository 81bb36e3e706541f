"""Lines as MM2 and Kafka's clients write them, and what is said to them."""

import pytest

from twinlog.doctor.findings import Finding
from twinlog.doctor.traces import findings, recognised

# Of Kafka 2.4 to 4.3, as they stand in logs.
LINES = {
    "[2020-02-24 19:12:02,001] ERROR Plugin class loader for connector: 'org.apache.kafka.connect.mirror.MirrorCheckpointConnector' was not found. Returning: org.apache.kafka.connect.runtime.isolation.DelegatingClassLoader@4e517165": "does not have the class org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
    "[Consumer clientId=consumer-7, groupId=null] Error while fetching metadata with correlation id 2314 : {source.heartbeats=UNKNOWN_TOPIC_OR_PARTITION} (org.apache.kafka.clients.NetworkClient:1063)": "nobody writes heartbeats there",
    "[Producer clientId=producer-1] Error while fetching metadata with correlation id 5 : {source.orders=UNKNOWN_TOPIC_OR_PARTITION}": "the cluster has no topic source.orders",
    "[Consumer clientId=c] Error while fetching metadata with correlation id 5 : {orders=LEADER_NOT_AVAILABLE}": "a partition of orders had no leader",
    "mkdir: cannot create directory '/opt/kafka/bin/../logs': Permission denied": "the folder for its own log",
    "ERROR WorkerSourceTask{id=MirrorSourceConnector-0} Failed to flush, timed out while waiting for producer to flush outstanding 1 messages (org.apache.kafka.connect.runtime.WorkerSourceTask:422)": "did not take 1 records in time",
    "ERROR WorkerSourceTask{id=MirrorSourceConnector-0} Failed to commit offsets (org.apache.kafka.connect.runtime.SourceTaskOffsetCommitter:114)": "positions could not be written",
    "org.apache.kafka.common.errors.InvalidReplicationFactorException: Replication factor: 3 larger than available brokers: 1.": "more replicas than there are brokers",
    "org.apache.kafka.common.errors.InvalidReplicationFactorException: Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only 1 broker(s) are registered.": "more replicas than there are brokers",
    "Caused by: sun.security.validator.ValidatorException: PKIX path building failed: sun.security.provider.certpath.SunCertPathBuilderException: unable to find valid certification path to requested target": "a CA that the truststore does not have",
    "Caused by: java.security.cert.CertificateException: No subject alternative DNS name matching kafka1 found.": "for other names",
    "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed: Invalid username or password": "refused the user or the password",
    "org.apache.kafka.common.errors.IllegalSaslStateException: Unexpected Kafka request of type METADATA during SASL handshake.": "asks for a login",
    "WARN [AdminClient clientId=adminclient-1] Bootstrap broker kafka1:9093 (id: -1 rack: null) disconnected": "often plain text spoken to a TLS port",
    "WARN [Producer clientId=p] Connection to node -1 (kafka1/10.0.0.1:9092) could not be established. Broker may not be available.": "one of bootstrap.servers",
    "WARN [Producer clientId=p] Connection to node 1001 (kafka1/10.0.0.1:9092) could not be established. Node may not be available.": "the address that broker 1001 advertises",
    "WARN Error connecting to node kafka3:9094 (id: 2 rack: null) java.net.UnknownHostException: kafka3": "could not be resolved",
    "org.apache.kafka.common.errors.NotEnoughReplicasException: Messages are rejected since there are fewer in-sync replicas than required.": "min.insync.replicas",
    "org.apache.kafka.common.errors.RecordTooLargeException: The message is 1048675 bytes when serialized": "a record is larger",
    "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [orders]": "a right on a Topic is missing",
    "SslAuthenticationException: SSL handshake failed": "did not agree on TLS",
}


@pytest.mark.parametrize(("line", "means"), LINES.items(), ids=range(len(LINES)))
def test_every_line_is_known(line: str, means: str) -> None:
    (trace,) = recognised([line])
    assert means in trace.means
    (finding,) = findings([trace], [])
    assert (finding.status, finding.where) == ("note", "line 1")
    assert finding.advice


def test_lines_that_say_nothing() -> None:
    usual = ["INFO Kafka version: 2.4.0", "", "INFO Started MirrorSourceConnector with 3 topic-partitions."]
    assert recognised(usual) == []
    (finding,) = findings([], [])
    assert finding.status == "note"


def test_the_same_again_is_said_once() -> None:
    line = "Error while fetching metadata with correlation id {} : {{orders=UNKNOWN_TOPIC_OR_PARTITION}}"
    traces = recognised([line.format(1), "other", line.format(2), line.format(3)])
    assert [(each.times, each.number) for each in traces] == [(3, 4)]
    assert findings(traces, [])[0].where == "line 4, 3 times"


def test_a_cause_that_was_found_now_is_named() -> None:
    traces = recognised(["Failed to flush, timed out while waiting for producer to flush outstanding 7 messages"])
    seen = [
        Finding("ok", "replication", "a->b", "", "well"),
        Finding("warning", "leaders", "a->b", "t-0", "lags"),
        Finding("error", "leaders", "a->b", "t-1", "without a leader"),
        Finding("error", "login", "b", "", "of another kind"),
    ]
    (finding,) = findings(traces, seen)
    assert (finding.status, finding.advice) == ("error", "now: a->b, t-1: without a leader")


def test_long_lines_are_cut() -> None:
    (finding,) = findings(recognised(["Failed to commit offsets " + "x" * 1000]), [])
    assert len(finding.found) < 400
