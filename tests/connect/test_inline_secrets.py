"""Inline passwords are stored in the config topic unencrypted: the worker warns about them."""

import pytest

from lab.waiting import until
from tests.connect.conftest import Config, Side
from twinlog.connect.inline_secrets import inline_secrets, warning

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
JAAS = "source.cluster.sasl.jaas.config"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (JAAS, f'{PLAIN} username="u" password="rabbit";'),
        (JAAS, f'{OAUTH} clientId="${{env:ID}}" clientSecret="rabbit";'),
        (JAAS, f'{OAUTH} oauth.access.token="rabbit";'),
        (JAAS, 'unreadable password="rabbit'),
        ("target.cluster.ssl.keystore.password", "rabbit"),
        ("target.cluster.ssl.keystore.key", "-----BEGIN PRIVATE KEY-----"),
        ("target.cluster.ssl.keystore.certificate.chain", "-----BEGIN PRIVATE KEY-----"),
        ("producer.override.ssl.key.password", "rabbit ${file:/a:b}"),
    ],
)
def test_inline(key: str, text: str) -> None:
    assert inline_secrets({"topics": "a", key: text}) == [key]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (JAAS, "${file:/secrets/us:jaas}"),
        (JAAS, f'{PLAIN} username="u" password="${{dir:/secrets:password}}";'),
        (JAAS, f'{SCRAM} username="u" password="${{env:PASSWORD}}" tokenauth="true";'),
        (JAAS, f'{OAUTH} oauth.access.token.location="/token";'),
        ("target.cluster.ssl.keystore.password", "${file:/secrets/us:password}"),
        ("target.cluster.ssl.truststore.certificates", "-----BEGIN CERTIFICATE-----"),
        ("target.cluster.ssl.key.password", None),
    ],
)
def test_references_are_not_inline(key: str, text: str | None) -> None:
    assert inline_secrets({"topics": "a", key: text}) == []


def test_the_warning_names_keys_topic_and_remedy_once() -> None:
    config = {"source.cluster.ssl.key.password": "rabbit"}
    text = warning(config, {}, "connect-configs")
    assert "source.cluster.ssl.key.password" in text
    assert "topic connect-configs" in text
    assert "${file:...}" in text
    assert "rabbit" not in text
    assert not warning({**config, "topics": "b"}, config, "connect-configs")


@pytest.mark.broker
@pytest.mark.spark
def test_a_worker_warns_at_creation(ours: Side, config: Config) -> None:
    inline = {**config("MirrorHeartbeatConnector"), "source.cluster.ssl.key.password": "rabbit-4711"}
    log = ours.log
    assert log is not None
    try:
        assert ours.send("POST", "/connectors", {"name": "inline", "config": inline}).status == 201
        until(lambda: "source.cluster.ssl.key.password: inline" in log.read_text(), "a warning", seconds=60)
        assert "rabbit-4711" not in log.read_text()
    finally:
        ours.delete("inline")
