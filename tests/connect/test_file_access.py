"""A connector cannot use files or URLs that the operator did not list."""

from pathlib import Path

import pytest

from tests.connect.conftest import Config, Side
from tests.connect.test_connector_files import WORKER, connector
from twinlog.connect.connector_files import ConnectorFiles
from twinlog.connect.topic_records import Connectors

OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
SASL = {"source.cluster.security.protocol": "SASL_SSL", "source.cluster.sasl.mechanism": "OAUTHBEARER"}
URL = "source.cluster.sasl.oauthbearer.token.endpoint.url"
ENDPOINT = {**SASL, "source.cluster.sasl.jaas.config": f'{OAUTH} clientId="a" clientSecret="b";'}
HOSTILE = [
    {**ENDPOINT, URL: "http://169.254.169.254/latest/meta-data"},
    {**ENDPOINT, URL: "file:///etc/shadow"},
    {**ENDPOINT, URL: "FILE:/etc/shadow"},
    {**ENDPOINT, URL: "https://allowed/token/../admin"},
    {**ENDPOINT, URL: "https://allowed/token", "source.cluster.sasl.oauthbearer.assertion.file": "/etc/shadow"},
    {
        **ENDPOINT,
        URL: "https://allowed/token",
        "source.consumer.sasl.oauthbearer.assertion.template.file": "/etc/shadow",
    },
    {**SASL, "source.cluster.sasl.jaas.config": f'{OAUTH} oauth.access.token.location="/etc/shadow";'},
    {**SASL, "source.cluster.sasl.jaas.config": f'{OAUTH} oauth.token.endpoint.uri="http://internal/";'},
    {**ENDPOINT, "source.cluster.sasl.jaas.config": f'{OAUTH} ssl.truststore.location="/etc/shadow";'},
    {"source.cluster.security.protocol": "SSL", "source.cluster.ssl.truststore.location": "/etc/shadow"},
    {"source.cluster.security.protocol": "SSL", "source.cluster.ssl.truststore.location": "/tls/../etc/shadow"},
    {"producer.override.ssl.keystore.location": "/etc/shadow"},
    {"target.admin.ssl.keystore.location": "relative"},
    {
        "source.cluster.sasl.jaas.config": 'com.sun.security.auth.module.Krb5LoginModule required keyTab="/etc/krb5.keytab";'
    },
]
LISTS = b"""twinlog.connector.files=/tls,/one/file
org.apache.kafka.sasl.oauthbearer.allowed.urls=https://allowed/token
org.apache.kafka.sasl.oauthbearer.allowed.files=/token
"""


@pytest.mark.parametrize("lists", [b"", LISTS])
@pytest.mark.parametrize("more", HOSTILE)
def test_unlisted_files_and_urls_are_rejected(tmp_path: Path, more: dict[str, str], lists: bytes) -> None:
    config = {**connector(), **more}
    files = ConnectorFiles(tmp_path / "connectors", WORKER + lists)
    reason = files.problem("hostile", config)
    assert "not allowed for connectors" in reason
    made = files.make(Connectors({"hostile": config, "good": connector()}))  # as from the config topic
    assert set(made.failed) == {"hostile"}
    assert len(made.flows) == 1


def test_a_connector_cannot_extend_the_lists(tmp_path: Path) -> None:
    own = {"twinlog.connector.files": "/", "org.apache.kafka.sasl.oauthbearer.allowed.urls": "http://internal/"}
    files = ConnectorFiles(tmp_path / "connectors", WORKER)
    for more in HOSTILE:
        assert "not allowed for connectors" in files.problem("hostile", {**connector(), **own, **more})


@pytest.mark.parametrize(
    "more",
    [
        {**ENDPOINT, URL: "https://allowed/token"},
        {**ENDPOINT, URL: "file:///token"},
        {**ENDPOINT, URL: "file:///tls/token"},
        {"source.cluster.security.protocol": "SSL", "source.cluster.ssl.truststore.location": "/tls/us.p12"},
        {"source.cluster.security.protocol": "SSL", "source.cluster.ssl.truststore.location": "/one/file"},
        {"offset-syncs.topic.location": "target"},
    ],
)
def test_listed_files_and_urls_are_allowed(tmp_path: Path, more: dict[str, str]) -> None:
    assert not ConnectorFiles(tmp_path / "connectors", WORKER + LISTS).problem("fine", {**connector(), **more})


def test_the_worker_file_is_not_limited(tmp_path: Path) -> None:
    operators = b"producer.ssl.truststore.location=/etc/anything\nssl.truststore.location=/etc/anything\n"
    assert not ConnectorFiles(tmp_path / "connectors", WORKER + operators).problem("fine", connector())


@pytest.mark.broker
@pytest.mark.spark
def test_rest_rejects_it_with_400(ours: Side, config: Config) -> None:
    hostile = {**config("MirrorSourceConnector"), "source.cluster.ssl.truststore.location": "/etc/shadow"}
    made = ours.send("POST", "/connectors", {"name": "reader", "config": hostile})
    assert made.status == 400
    assert "twinlog.connector.files" in made.json["message"]
