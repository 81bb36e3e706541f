"""Access settings of a Connect worker file are enforced or rejected, never ignored."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from twinlog.cli.main import cli
from twinlog.config.values import Origin, Value
from twinlog.connect.rest_extensions import BASIC_AUTH, Protection, jaas_file, protection
from twinlog.errors import ConfigError

MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


def values(**texts: str) -> dict[str, Value]:
    named = {key.replace("_", "."): text for key, text in texts.items()}
    return {key: Value(key, text, Origin("file", "w", 1, key)) for key, text in named.items()}


def environment(file: Path) -> dict[str, str]:
    return {"KAFKA_OPTS": f"-Xmx1g '-Djava.security.auth.login.config={file}'"}


@pytest.mark.parametrize("extension", [BASIC_AUTH, "BasicAuthSecurityRestExtension", f" {BASIC_AUTH} "])
def test_kafkas_basic_auth_uses_its_own_user_file(tmp_path: Path, extension: str) -> None:
    file = tmp_path / "connect jaas.conf"
    file.write_text(
        f'// Other {{ nobody; }};\nKafkaClient {{ x.Y required password="}};{{"; }};\n'
        f'/* KafkaConnect {{ }} */ KafkaConnect {{\n  {MODULE} required\n  file="/etc/kafka/users // {{1}}.properties";\n}};\n'
    )
    found = protection(values(rest_extension_classes=extension), environment(file), login=False)
    assert found.users == Path("/etc/kafka/users // {1}.properties")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no entry KafkaConnect"),
        ("KafkaClient { x.Y required; };", "no entry KafkaConnect"),
        ("KafkaConnect { com.example.LdapLoginModule required; };", "use --auth-file instead"),
        (f'KafkaConnect {{ {MODULE} required file="a"; x.Y optional; }};', "use --auth-file instead"),
        (f"KafkaConnect {{ {MODULE} required; }};", "has no file"),
        (f'KafkaConnect {{ {MODULE} required file="a" }};', "not a login module"),
        ("KafkaConnect { }", "not a login module"),
        ('KafkaConnect { "swordfish', "no entry KafkaConnect"),
    ],
)
def test_an_unsupported_jaas_file_is_rejected(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        protection(values(rest_extension_classes=BASIC_AUTH), environment(file), login=False)
    assert "swordfish" not in str(caught.value)


@pytest.mark.parametrize(
    ("extension", "message"),
    [
        (BASIC_AUTH, r"set KAFKA_OPTS=-Djava.security.auth.login.config=FILE as for Connect, or use --auth-file"),
        ("com.example.Ldap", r"com.example.Ldap: .*--auth-file or --tls-client-ca, or remove the class"),
        (f"{BASIC_AUTH}, com.example.Ldap", r"com.example.Ldap"),
    ],
)
def test_an_unsupported_extension_needs_a_login(extension: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        protection(values(rest_extension_classes=extension), {}, login=False)
    assert protection(values(rest_extension_classes=extension), {}, login=True) == Protection()


def test_a_missing_jaas_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere: No such file"):
        protection(values(rest_extension_classes=BASIC_AUTH), environment(tmp_path / "nowhere"), login=False)


def test_the_last_option_counts_as_in_java() -> None:
    options = "-Djava.security.auth.login.config=a -Djava.security.auth.login.config==b"
    assert jaas_file({"KAFKA_OPTS": options}) == Path("b")
    with pytest.raises(ConfigError, match="KAFKA_OPTS: unclosed quote"):
        jaas_file({"KAFKA_OPTS": "'"})


@pytest.mark.parametrize(
    ("texts", "admin"),
    [
        ({}, True), ({"admin_listeners": ""}, False), ({"admin_listeners": " , "}, False),
        ({"admin_listeners": "http://:8083", "listeners": "http://:8083"}, True),
    ],
)  # fmt: skip
def test_admin_is_disabled_as_in_connect(texts: dict[str, str], admin: bool) -> None:
    assert protection(values(**texts), {}, login=False).admin == admin


def test_a_separate_address_for_admin_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"admin.listeners = http://127.0.0.1:9999: .*leave the value empty"):
        protection(values(admin_listeners="http://127.0.0.1:9999", listeners="http://:8083"), {}, login=True)


def test_serve_does_not_start_without_a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignoring the extension would leave the API unauthenticated."""
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    file = tmp_path / "connect-distributed.properties"
    file.write_text(
        "bootstrap.servers=127.0.0.1:1\ngroup.id=g\nkey.converter=x.Y\nvalue.converter=x.Y\n"
        "offset.storage.topic=o\nconfig.storage.topic=c\nstatus.storage.topic=s\n"
        f"listeners=http://:0\nrest.extension.classes={BASIC_AUTH}\n"
    )
    result = CliRunner().invoke(cli, ["serve", str(file)])
    assert isinstance(result.exception, ConfigError)
    assert "use --auth-file" in str(result.exception)
