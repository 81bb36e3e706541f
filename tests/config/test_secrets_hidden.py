"""No secret is ever shown: not in `repr`, not in messages, not by `config show`."""

from pathlib import Path

import pytest

from twinlog.cli import config_show
from twinlog.config import InvalidConfigError, load
from twinlog.config.values import Origin, Value, is_secret
from twinlog.text import MASK

SECRET = "s3cr3t-value"


@pytest.mark.parametrize(
    "key",
    [
        "us.sasl.jaas.config", "ssl.keystore.password", "us.consumer.ssl.key.password", "source.cluster.ssl.truststore.password",
        "us.sasl.jaas.confg", "us.ssl.keystore.pasword", "ssl.keystore.key", "us.my.api.key", "x.access.token",
        "us.ssl.truststore.pass", "us.ssl.keystore.pwd", "my.pwd", "basic.auth.user.info", "us.sasl.oauthbearer.client.credentials.client.secret", "aws.secret.access.key",
    ],
)  # fmt: skip
def test_secret_keys(key: str) -> None:
    assert is_secret(key)
    assert SECRET not in repr(Value(key, SECRET, Origin("default")))


@pytest.mark.parametrize(
    "key",
    [
        "topics", "ssl.keystore.location", "ssl.truststore.type", "sasl.mechanism", "security.protocol", "name",
        "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.credentials.client.id", "key.converter",
        "sasl.login.callback.handler.class", "tasks.max",
    ],
)  # fmt: skip
def test_harmless_keys(key: str) -> None:
    assert not is_secret(key)


def test_a_secret_is_recognized_by_its_text() -> None:
    assert is_secret("comment", 'org.x.PlainLoginModule required username="u" password="p";')
    assert is_secret("url", "http://user:pass@host/")


def every_output(path: Path) -> str:
    try:
        config = load([path])
    except InvalidConfigError as error:
        return str(error) + repr(error) + repr(error.problems)
    return (
        repr(config) + str(config) + config_show.as_json(config) + config_show.as_text(config) + repr(config.problems)
    )


@pytest.mark.parametrize("extra", ["", "tasks.max = none\n"])
def test_no_output_contains_the_secret(tmp_path: Path, extra: str) -> None:
    (tmp_path / "secrets.properties").write_text(f"password = {SECRET}\n")
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = us, eu\nus.bootstrap.servers = u:1\neu.bootstrap.servers = e:1\nus->eu.enabled = true\n"
        f'us.sasl.jaas.config = org.x.PlainLoginModule required username="me" password="{SECRET}";\n'
        f"eu.ssl.keystore.password = {SECRET}\n"
        f"eu.consumer.ssl.key.password = {SECRET}\n"
        f"us.ssl.kestore.pasword = {SECRET}\n"
        f"us.sasl.login.refresh.window.factor.password = {SECRET}\n"
        f"basic.auth.credentials = {SECRET}\n"
        "config.providers = file\n"
        "config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
        f"us.client.rack = ${{file:{tmp_path}/secrets.properties:password}}\n"
        f"eu.ssl.truststore.password = ${{file:{tmp_path}/secrets.properties:password}}\n" + extra
    )
    shown = every_output(path)
    assert SECRET not in shown
    if not extra:
        assert MASK in shown
        assert "secrets.properties:password}" in shown  # its source is shown


@pytest.mark.parametrize(
    "line",
    [
        f"us.bootstrap.servers = SASL_SSL://user:{SECRET}@host:9092",
        f'us.security.protocol = org.PlainLoginModule required password="{SECRET}";\nus.ssl.truststore.location = /x',
        f"us.ssl.keystore.password = my${{pass:{SECRET}}}",
        f"us.sasl.oauthbearer.token.endpoint.url = https://idp/t?client_secret={SECRET}",
        "us.ssl.keystore.key = -----BEGIN PRIVATE KEY-----\ns3cr3tvalueMIIEvQIBADANBgkqhkiG9w0BAQEFAASC==\n",
        "us->eu.topics = ${file:PATH:password}, ${file:PATH:password}\nus->eu.name = ${file:PATH:password}",
        "us.bootstrap.servers = ${file:PATH:password}",
    ],
)
def test_no_message_contains_the_secret(tmp_path: Path, line: str) -> None:
    (tmp_path / "secrets.properties").write_text(f"password = {SECRET}\n")
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = us, eu\nus.bootstrap.servers = u:1\neu.bootstrap.servers = e:1\nus->eu.enabled = true\n"
        "config.providers = file\nconfig.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
        + line.replace("PATH", str(tmp_path / "secrets.properties"))
        + "\n"
    )
    shown = every_output(path)
    assert SECRET not in shown
    assert SECRET.upper() not in shown
    assert "s3cr3tvalueMIIE" not in shown
