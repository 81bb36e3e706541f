"""Every listener accepts valid credentials and rejects invalid ones."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException

from lab import kafka_tools, kdc
from lab.certificates import Authority
from lab.cluster import Cluster
from lab.errors import LabError
from lab.lab import Lab
from lab.listeners import (
    EVERY,
    GSSAPI,
    MUTUAL_TLS,
    OAUTH,
    OAUTH_TLS,
    PLAINTEXT,
    SASL_PLAIN,
    SCRAM_256,
    SCRAM_512,
    SCRAM_512_TLS,
    TLS,
    Listener,
)
from lab.oauth_server import TokenIssuer

pytestmark = pytest.mark.broker

Produce = Callable[..., int]
Consume = Callable[..., list[str]]


def create_topic_for(cluster: Cluster, topic: str, *users: str) -> None:
    cluster.create_topic(topic)
    for user in users:
        cluster.grant(user, "READ", "WRITE", "DESCRIBE", topic=topic)
        cluster.grant(user, "READ", group="*")


@pytest.mark.parametrize("listener", EVERY, ids=lambda listener: listener.name)
def test_produce_and_consume_through_every_listener(
    secure: Cluster, topic: str, listener: Listener, produce: Produce, consume: Consume
) -> None:
    create_topic_for(secure, topic, "ANONYMOUS" if listener in (PLAINTEXT, TLS) else "alice")
    client = secure.librdkafka_properties(listener, "alice")
    assert produce(client, topic, "hello") == 0
    assert consume(client, topic, 1) == ["hello"]


@pytest.mark.parametrize("listener", [MUTUAL_TLS, SCRAM_512_TLS, OAUTH_TLS], ids=lambda listener: listener.name)
@pytest.mark.slow
def test_java_clients_connect_with_the_client_properties(secure: Cluster, topic: str, listener: Listener) -> None:
    create_topic_for(secure, topic, "alice")
    secure.tool("console-producer", "--topic", topic, listener=listener, user="alice", stdin="hello\n")
    read = ("--topic", topic, "--from-beginning", "--max-messages", "1")
    assert secure.tool("console-consumer", *read, listener=listener, user="alice") == "hello\n"


@pytest.mark.parametrize("listener", [SASL_PLAIN, SCRAM_256, SCRAM_512], ids=lambda listener: listener.name)
def test_a_wrong_password_is_rejected(secure: Cluster, topic: str, listener: Listener, produce: Produce) -> None:
    create_topic_for(secure, topic, "alice")
    client = secure.librdkafka_properties(listener, "alice") | {"sasl.password": "guessed"}
    with pytest.raises(KafkaException, match=r"_AUTHENTICATION.*Authentication failed"):
        produce(client, topic, "hello")


@pytest.mark.slow
def test_a_wrong_client_secret_gets_no_token(secure: Cluster, topic: str) -> None:
    create_topic_for(secure, topic, "alice")
    client = secure.client_properties(OAUTH, "alice")
    client["sasl.jaas.config"] = client["sasl.jaas.config"].replace("alice-secret", "guessed")
    with pytest.raises(LabError, match="HTTP response code: 401"):
        kafka_tools.run("topics", "--list", properties=client)


def test_a_token_of_another_issuer_is_rejected(secure: Cluster, topic: str, produce: Produce) -> None:
    create_topic_for(secure, topic, "alice")
    other_issuer = TokenIssuer({"alice": "alice-secret"})
    try:
        client = secure.librdkafka_properties(OAUTH, "alice")
        client["sasl.oauthbearer.token.endpoint.url"] = other_issuer.endpoints.token
        with pytest.raises(KafkaException, match=r"_AUTHENTICATION.*invalid_token"):
            produce(client, topic, "hello")
    finally:
        other_issuer.close()


def test_a_certificate_of_another_ca_is_rejected(
    secure: Cluster, topic: str, produce: Produce, tmp_path_factory: pytest.TempPathFactory
) -> None:
    create_topic_for(secure, topic, "alice")
    foreign = Authority(tmp_path_factory.mktemp("other-ca")).client("alice")
    client = secure.librdkafka_properties(MUTUAL_TLS, "alice")
    client |= {"ssl.certificate.location": str(foreign.certificate), "ssl.key.location": str(foreign.key)}
    with pytest.raises(KafkaException, match=r"alert (bad certificate|certificate required|unknown ca)"):
        produce(client, topic, "hello")


def test_a_client_without_a_certificate_is_rejected(secure: Cluster, topic: str, produce: Produce) -> None:
    create_topic_for(secure, topic, "ANONYMOUS")
    client = secure.librdkafka_properties(TLS) | {"bootstrap.servers": secure.bootstrap(MUTUAL_TLS)}
    with pytest.raises(KafkaException, match=r"alert (bad certificate|certificate required|unknown ca)"):
        produce(client, topic, "hello")


def test_a_broker_of_another_ca_is_not_trusted(
    secure: Cluster, topic: str, produce: Produce, tmp_path_factory: pytest.TempPathFactory
) -> None:
    create_topic_for(secure, topic, "ANONYMOUS")
    other = Authority(tmp_path_factory.mktemp("other"))
    client = secure.librdkafka_properties(TLS) | {"ssl.ca.location": str(other.ca)}
    with pytest.raises(KafkaException, match="certificate verify failed"):
        produce(client, topic, "hello")


def test_acls_are_enforced(secure: Cluster, topic: str, produce: Produce, consume: Consume) -> None:
    secure.create_topic(topic)
    bob = secure.librdkafka_properties(SASL_PLAIN, "bob")
    with pytest.raises(KafkaException, match=r"(?i)authoriz"):
        produce(bob, topic, "hello")
    secure.grant("bob", "WRITE", "DESCRIBE", topic=topic[:-1] + "*")
    assert produce(bob, topic, "hello") == 0
    secure.grant("bob", "READ", group="*")
    with pytest.raises(KafkaException, match=r"(?i)topic authoriz"):
        consume(bob, topic, 1)
    secure.grant("bob", "READ", topic=topic)
    assert consume(bob, topic, 1) == ["hello"]


def test_kafkas_own_tool_lists_the_acls(secure: Cluster, topic: str) -> None:
    secure.create_topic(topic)
    secure.grant("carol", "READ", topic=topic)
    secure.deny("carol", "WRITE", topic=topic)
    listed = secure.tool("acls", "--list", "--topic", topic)
    assert "principal=User:carol, host=*, operation=READ, permissionType=ALLOW" in listed
    assert "principal=User:carol, host=*, operation=WRITE, permissionType=DENY" in listed


def test_a_kerberos_listener_reports_missing_tools(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kdc, "_PATH", "")
    with pytest.raises(LabError, match=r"krb5kdc, .* not found: install krb5-kdc"):
        lab.cluster("kerberos-less", listeners=(GSSAPI,), users=("alice",))
