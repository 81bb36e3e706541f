"""`twinlog doctor` as an operator calls it, on real clusters of which each has something wrong."""

import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from lab import listeners
from lab.broker import ClusterSpec
from lab.certificates import Authority, Files
from lab.cluster import Cluster
from lab.lab import Lab
from lab.listeners import CONTROLLER, MUTUAL_TLS, PLAINTEXT, SASL_PLAIN, SASL_PLAIN_TLS, SCRAM_256_TLS, TLS
from lab.ports import HOST
from tests.cli.conftest import NOBODY, twinlog, unchanged
from twinlog.config.properties import properties_text
from twinlog.security.tls_handshake import peer_certificate

pytestmark = pytest.mark.broker

ONE = {
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "heartbeats.replication.enabled": "false",  # others may have left some on clusters that are shared
    "checkpoints.topic.replication.factor": "1",
} | {f"{alias}.{topic}.storage.replication.factor": "1" for alias in "ab" for topic in ("config", "offset", "status")}
NOWHERE = "no-such-broker.invalid"


@dataclass
class Result:
    code: int
    findings: list[dict[str, str]]
    text: str

    def of(self, status: str) -> list[dict[str, str]]:
        return [each for each in self.findings if each["status"] == status]

    def one(self, status: str, scope: str, check: str) -> dict[str, str]:
        (found,) = [each for each in self.of(status) if (each["scope"], each["check"]) == (scope, check)]
        return found


@pytest.fixture
def doctor(tmp_path: Path) -> Any:
    def doctor(a: Mapping[str, str], b: Mapping[str, str], *arguments: str, **settings: str) -> Result:
        """What it says of the flow a->b, whose clusters are reached so."""
        found = {"clusters": "a, b", "a->b.enabled": "true", **ONE}
        found |= {f"a.{key}": value for key, value in a.items()} | {f"b.{key}": value for key, value in b.items()}
        found |= {key.replace("__", "."): value for key, value in settings.items()}
        file = tmp_path / "mm2.properties"
        file.write_text(properties_text({key: value for key, value in found.items() if value}))
        run = twinlog("doctor", file, "--json", *arguments)
        assert run.returncode in (0, 1), run.stderr
        answer = json.loads(run.stdout)
        assert not [user for user in ("alice", "bob", "carol") if listeners.password(user) in run.stdout + run.stderr]
        return Result(run.returncode, answer["findings"], run.stdout)

    return doctor


def test_no_problems_and_nothing_is_changed(us: Cluster, eu: Cluster, topic: str, doctor: Any) -> None:
    us.create_topic(topic, 2)
    with unchanged(us, eu):
        found = doctor(us.client_properties(), eu.client_properties(), topics=topic)
    assert found.code == 0, found.text
    assert not found.of("error")
    assert not found.of("warning")
    assert us.id in found.one("ok", "a", "cluster")["found"]
    assert "controller's clock" in found.one("ok", "a", "clock")["found"]
    assert found.one("ok", "b", "advertised")["found"].startswith("1 broker advertises")
    assert found.one("ok", "b", "versions")["found"] == "broker API versions of Kafka 4.3 or newer"
    assert found.one("ok", "a->b", "topics")["found"] == "1 topic to be copied, 1 to be created"
    assert found.one("ok", "a->b", "rights")["found"] == "no missing permissions"


def test_no_problems_with_mtls_and_an_authorizer(us: Cluster, secure: Cluster, topic: str, doctor: Any) -> None:
    """As a user of this test's own, whose certificate is all that he needs to come in."""
    us.create_topic(topic)
    user = "doctor-all"
    for resource in ({"topic": "*"}, {"group": "*"}, {"cluster": "kafka-cluster"}):
        secure.grant(user, "ALL", **resource)
    found = doctor(us.client_properties(), secure.client_properties(MUTUAL_TLS, user), topics=topic)
    assert found.code == 0, found.text
    assert "TLSv1.3, certificate valid until" in found.one("ok", "b", "connection")["found"]
    assert found.one("ok", "b", "tls")["found"].startswith("our certificate 'CN=doctor-all' is valid until")
    assert "controller's clock" in found.one("ok", "b", "clock")["found"]


def test_people_read_it_as_a_table(tmp_path: Path, us: Cluster) -> None:
    file = tmp_path / "mm2.properties"
    lines = [f"a.bootstrap.servers = {us.bootstrap()}", f"b.bootstrap.servers = {NOBODY}", "a->b.enabled = true"]
    file.write_text("\n".join(["clusters = a, b", *lines]))
    run = twinlog("doctor", file)
    assert run.returncode == 1
    assert f"  ok       {us.bootstrap()}  connected" in run.stdout.splitlines()
    refused, advice = run.stdout[run.stdout.index("\nb\n") :].splitlines()[2:4]
    assert refused == f"  error    {NOBODY}  connection refused"
    assert advice.strip() == "-> check that the broker runs and that the port is that of a listener"
    assert run.stdout.rstrip().endswith("Nothing was changed.")
    assert twinlog("doctor", file, "--cluster", "a").returncode == 1  # a factor of 3 for one broker
    unknown = twinlog("doctor", file, "--cluster", "c")
    assert (unknown.returncode, "no such cluster" in unknown.stderr) == (2, True)


def test_what_is_down_does_not_stop_the_rest(us: Cluster, eu: Cluster, topic: str, doctor: Any) -> None:
    us.create_topic(topic)
    properties = us.client_properties() | {"bootstrap.servers": f"{NOBODY},{us.bootstrap()},{NOWHERE}:9092"}
    found = doctor(properties, {"bootstrap.servers": NOBODY}, topics=topic)
    assert found.code == 1
    refused, unknown = found.of("warning")
    assert (refused["where"], refused["found"]) == (
        NOBODY,
        "connection refused (other addresses in bootstrap.servers respond)",
    )
    assert (unknown["where"], unknown["check"]) == (f"{NOWHERE}:9092", "name")
    assert found.one("error", "b", "connection")["found"] == "connection refused"
    assert found.one("note", "a->b", "topics")["found"] == "topics not compared: b unreachable"
    assert found.one("ok", "a->b", "rights")["found"] == "no missing permissions found on a"
    assert not [
        each for each in doctor(properties, eu.client_properties(), "--cluster", "b").findings if each["scope"] == "a"
    ]


def test_a_host_that_never_answers_costs_seconds(us: Cluster, doctor: Any) -> None:
    with socket.create_server((HOST, 0)) as silent:
        address = f"{HOST}:{silent.getsockname()[1]}"
        found = doctor(us.client_properties(), {"bootstrap.servers": f"{address}"})
    assert found.one("error", "b", "connection")["found"] == "timed out"


def test_one_cluster_under_two_names(us: Cluster, topic: str, doctor: Any) -> None:
    us.create_topic(topic)
    found = doctor(us.client_properties(), us.client_properties(), "--flow", "a->b", topics=topic)
    assert found.code == 1
    assert {each["scope"] for each in found.findings} == {"a", "b", "a->b"}
    same = found.one("error", "a", "cluster")
    assert same["found"] == f"a and b are the same cluster (id {us.id}): a->b would copy it into itself"
    assert same["advice"] == "correct one of a.bootstrap.servers, b.bootstrap.servers"


def test_more_replicas_than_brokers(us: Cluster, eu: Cluster, topic: str, doctor: Any) -> None:
    us.create_topic(topic)
    usual = dict.fromkeys(("replication.factor", "checkpoints.topic.replication.factor"), "")
    found = doctor(us.client_properties(), eu.client_properties(), topics=topic, **usual)
    assert found.code == 1
    wrong = {each["where"]: each for each in found.of("error")}
    assert (
        wrong[f"a.{topic}"]["found"] == "replication.factor is 2 (the default), but b has 1 broker: cannot be created"
    )
    assert wrong[f"a.{topic}"]["advice"] == "set replication.factor to 1, or add brokers"
    assert "checkpoints.topic.replication.factor is 3" in wrong["a.checkpoints.internal"]["found"]


def test_a_topic_that_is_not_there_and_one_that_goes_round(us: Cluster, eu: Cluster, topic: str, doctor: Any) -> None:
    us.create_topic(topic)
    both = {
        "b->a.enabled": "true",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    }
    found = doctor(us.client_properties(), eu.client_properties(), topics=f"{topic},{topic}-missing", **both)
    assert found.one("error", "a->b", "loops")["where"] == topic
    missing = [each for each in found.of("warning") if each["scope"] == "a->b"]
    assert [(each["where"], each["found"]) for each in missing] == [
        (f"{topic}-missing", "listed in topics, but a has no such topic")
    ]


# TLS and authentication


def test_tls_and_plain_text_mixed_up(secure: Cluster, doctor: Any) -> None:
    plain = {"bootstrap.servers": secure.bootstrap(TLS)}
    tls = secure.client_properties(TLS) | {"bootstrap.servers": secure.bootstrap(PLAINTEXT)}
    found = doctor(plain, tls)
    assert found.one("error", "a", "tls")["found"] == "the listener uses TLS, but security.protocol = PLAINTEXT"
    assert found.one("error", "b", "tls")["found"].startswith("the listener uses plaintext")


def test_an_unknown_ca(tmp_path: Path, secure: Cluster, doctor: Any) -> None:
    stranger = Authority(tmp_path / "stranger", "stranger")
    wrong = secure.client_properties(TLS) | {"ssl.truststore.location": str(stranger.truststore)}
    broken = secure.client_properties(TLS) | {"ssl.truststore.location": str(tmp_path / "missing.p12")}
    found = doctor(wrong, broken)
    refused = found.one("error", "a", "tls")
    assert refused["found"] == "broker certificate issued by 'CN=secure CA' is not trusted"
    assert refused["advice"].startswith("add its CA to a.ssl.truststore.location = ")
    assert "No such file" in found.one("error", "b", "tls")["found"]


def test_logins_that_are_refused(secure: Cluster, doctor: Any) -> None:
    wrong = secure.client_properties(SASL_PLAIN, "alice")
    wrong["sasl.jaas.config"] = wrong["sasl.jaas.config"].replace("alice-secret", "bob-secret")
    other = secure.client_properties(SASL_PLAIN_TLS, "alice") | {"bootstrap.servers": secure.bootstrap(SCRAM_256_TLS)}
    found = doctor(wrong, other)
    assert "authentication failed for user 'alice'" in found.one("error", "a", "login")["found"]
    assert "check username and password" in found.one("error", "a", "login")["advice"]
    mechanism = found.one("error", "b", "login")
    assert mechanism["found"] == "b.sasl.mechanism = PLAIN is not enabled on this listener (enabled: SCRAM-SHA-256)"


def test_a_login_that_is_missing_and_one_too_many(secure: Cluster, doctor: Any) -> None:
    missing = {"bootstrap.servers": secure.bootstrap(SASL_PLAIN)}
    many = secure.client_properties(SASL_PLAIN, "alice") | {"bootstrap.servers": secure.bootstrap(PLAINTEXT)}
    found = doctor(missing, many)
    asks = found.one("error", "a", "login")
    assert asks["found"] == "the listener requires SASL authentication (PLAIN), but security.protocol = PLAINTEXT"
    assert asks["advice"] == "set it to SASL_PLAINTEXT, with sasl.mechanism and sasl.jaas.config"
    assert found.one("error", "b", "login")["found"] == "this listener does not use SASL"


def test_a_client_with_its_own_credentials(us: Cluster, secure: Cluster, topic: str, doctor: Any) -> None:
    """Only the producer's password is wrong: the others connect."""
    us.create_topic(topic)
    right = secure.client_properties(SASL_PLAIN, "alice")
    wrong = right["sasl.jaas.config"].replace("alice-secret", "alice-typo")
    found = doctor(us.client_properties(), right | {"producer.sasl.jaas.config": wrong}, topics=topic)
    refused = found.one("error", "b", "login")
    assert refused["where"] == f"{secure.bootstrap(SASL_PLAIN)} (data.producer)"
    assert "target.admin" in found.one("ok", "b", "connection")["where"]


def test_rights_that_are_missing(us: Cluster, secure: Cluster, topic: str, doctor: Any) -> None:
    us.create_topic(topic)
    with unchanged(us, secure):
        found = doctor(us.client_properties(), secure.client_properties(SCRAM_256_TLS, "carol"), topics=topic)
    assert found.code == 1
    (lack,) = [each for each in found.of("error") if each["where"] == f"topic a.{topic}"]
    assert lack["found"].startswith("Create, Write, Read, AlterConfigs, DescribeConfigs on b is missing")
    grant = f"kafka-acls --bootstrap-server {secure.bootstrap(SCRAM_256_TLS)} --add --allow-principal User:... "
    assert lack["advice"].startswith(grant)
    assert lack["advice"].endswith(f"--topic a.{topic}")
    assert found.one("note", "b", "settings")["advice"].startswith("grant DescribeConfigs on the cluster")
    assert found.one("note", "b", "clock")["found"].endswith("Describe on the cluster is not granted")


# A cluster that is set up wrongly


@pytest.fixture(scope="module")
def faulty(lab: Lab) -> Iterator[Cluster]:
    """Small messages only; its plain listener advertises an unknown host."""
    settings = {
        "message.max.bytes": "100000",
        "min.insync.replicas": "2",
        "log.message.timestamp.type": "LogAppendTime",
        "auto.create.topics.enable": "true",
        "compression.type": "gzip",
        "ssl.allow.san.changes": "true",
    }
    cluster = Cluster(ClusterSpec(name="faulty", listeners=(PLAINTEXT, TLS), settings=settings), lab.folder / "faulty")
    (broker,) = cluster.brokers
    advertised = {each: f"{each.name}://{HOST}:{port}" for each, port in broker.ports.items() if each != CONTROLLER}
    advertised[PLAINTEXT] = f"{PLAINTEXT.name}://{NOWHERE}:{broker.ports[PLAINTEXT]}"
    with (broker.folder / "server.properties").open("a") as file:
        file.write(f"advertised.listeners={','.join(advertised.values())}\n")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@contextmanager
def showing(cluster: Cluster, files: Files) -> Iterator[None]:
    """The broker's TLS listener shows another certificate for a while."""
    assert cluster.authority is not None
    port, key = cluster.brokers[0].ports[TLS], "listener.name.tls.ssl.keystore.location"

    def show(wanted: Files) -> None:
        with cluster.admin() as admin:
            resource = ConfigResource(ConfigResourceType.BROKER, "0", {key: str(wanted.pem)})
            admin.alter_configs([resource], raise_on_unknown=False)
        deadline = time.monotonic() + 20
        while (seen := peer_certificate(HOST, port)) is None or seen.serial_number != _serial(wanted):
            assert time.monotonic() < deadline, "the broker does not take the certificate"
            time.sleep(0.1)

    show(files)
    try:
        yield
    finally:
        show(cluster.authority.server())


def _serial(files: Files) -> int:
    from cryptography import x509  # noqa: PLC0415

    return x509.load_pem_x509_certificate(files.certificate.read_bytes()).serial_number


def test_a_broker_that_advertises_an_unknown_host(faulty: Cluster, us: Cluster, doctor: Any) -> None:
    found = doctor(faulty.client_properties(PLAINTEXT), us.client_properties())
    assert found.code == 1
    lost = found.one("error", "a", "advertised")
    address = f"{NOWHERE}:{faulty.brokers[0].ports[PLAINTEXT]}"
    assert lost["found"] == f"broker 0 advertises {address}: unknown host"
    assert lost["advice"].startswith("set advertised.listeners of broker 0 to an address that clients can reach")
    assert found.one("ok", "a", "connection")["where"] == faulty.bootstrap(PLAINTEXT)
    assert found.one("note", "a->b", "topics")["found"] == "topics not compared: some brokers of a unreachable"


def test_limits_of_the_target(faulty: Cluster, us: Cluster, topic: str, doctor: Any) -> None:
    us.create_topic(topic)
    found = doctor(us.client_properties(), faulty.client_properties(TLS), topics=topic)
    assert found.code == 1
    size = found.one("warning", "a->b", "size")
    assert size["where"] == f"a.{topic}"
    assert size["found"].startswith(
        "accepts batches of up to 100,000 bytes (max.message.bytes), the source up to 1,048,588"
    )
    never = found.one("error", "a->b", "replication")
    assert never["found"] == "min.insync.replicas is 2 with 1 replica: acks=all never succeeds there"
    assert "LogAppendTime" in found.one("warning", "a->b", "time")["found"]
    assert found.one("note", "a->b", "compression")["where"] == f"a.{topic}"
    assert "auto.create.topics.enable" in found.one("note", "a->b", "topics")["found"]


def test_certificates_that_are_over_or_for_another_host(faulty: Cluster, us: Cluster, doctor: Any) -> None:
    assert faulty.authority is not None
    with showing(faulty, faulty.authority.server(days=-2)):
        over = doctor(faulty.client_properties(TLS), us.client_properties()).one("error", "a", "tls")
    assert over["found"].startswith("broker certificate expired on ")
    assert over["advice"].startswith("renew it on the broker")
    with showing(faulty, faulty.authority.server(names=["kafka.example.com"])):
        other = doctor(faulty.client_properties(TLS), us.client_properties()).one("error", "a", "tls")
    assert other["found"] == f"broker certificate is for kafka.example.com, not for {HOST}"
    with showing(faulty, faulty.authority.server(days=10)):
        soon = doctor(faulty.client_properties(TLS), us.client_properties()).one("warning", "a", "tls")
    assert soon["found"].startswith("the broker's certificate expires in 9 days")
