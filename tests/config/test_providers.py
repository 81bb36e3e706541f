"""Config providers: ${file:...}, ${dir:...}, ${env:...}, with their allow lists."""

from collections.abc import Callable
from pathlib import Path

import pytest

from twinlog.config import Config

Read = Callable[..., Config]
Mistakes = Callable[..., list[str]]

BASE = """\
clusters = us, eu
us.bootstrap.servers = u:1
eu.bootstrap.servers = e:1
us->eu.enabled = ${env:TWINLOG_ON}
config.providers = file, dir, env
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.dir.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
"""


@pytest.fixture(autouse=True)
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TWINLOG_ON", "true")
    folder = tmp_path / "mounted"
    folder.mkdir()
    (folder / "password").write_text("from-folder")
    (folder / "s.properties").write_text("password = from-file\n")
    return folder


def test_each_provider_resolves(read: Read, secrets: Path) -> None:
    config = read(
        BASE + f"us.ssl.keystore.password = ${{file:{secrets}/s.properties:password}}\n"
        f"us.ssl.key.password = ${{dir:{secrets}:password}}\n"
        f"us.ssl.truststore.password = a${{dir:{secrets}:password}}b${{env:TWINLOG_ON}}c\n"
    )
    assert config.flows[0].replicates  # flags are resolved before flows are looked for
    source = config.flows[0].source
    assert source is not None
    consumer = source.clients["source.consumer"]
    assert consumer["ssl.keystore.password"] == "from-file"
    assert consumer["ssl.key.password"] == "from-folder"
    assert consumer["ssl.truststore.password"] == "afrom-folderbtruec"


@pytest.mark.parametrize("text", ["${env:NOT_THERE_AT_ALL}", "${nobody:a:b}", "${env}", "$env:X"])
def test_unresolved_references_are_left_as_they_are(read: Read, text: str) -> None:
    config = read(BASE + f"us->eu.topics.exclude = a\nus.client.id = {text}\n")
    assert config.flows[0].replicates


@pytest.mark.parametrize(
    ("parameter", "reference", "complaint"),
    [
        ("", "${dir:/no/such/folder:x}", "directory /no/such/folder not found"),
        ("", "${file:x}", "no file in the reference"),
        (
            "config.providers.file.param.allowed.paths = /etc/kafka",
            "${file:/elsewhere/x:y}",
            "is not in allowed.paths",
        ),
        (
            "config.providers.file.param.allowed.paths = /etc/kafka",
            "${file:/etc/kafka/../x:y}",
            "is not in allowed.paths",
        ),
        (
            "config.providers.env.param.allowlist.pattern = TWINLOG_.*",
            "${env:HOME}",
            "does not match allowlist.pattern",
        ),
    ],
)
def test_unresolved_references_are_warnings(read: Read, parameter: str, reference: str, complaint: str) -> None:
    config = read(BASE + f"{parameter}\nus.client.id = {reference}\nus.security.protocol = PLAINTEXT\n")
    assert any(complaint in problem.text and "us.client.id" in problem.text for problem in config.problems)
    assert config.flows[1].worker.values["client.id"].text == reference


@pytest.mark.parametrize(
    ("reference", "complaint"),
    [("${file:/no/such/file:x}", "file /no/such/file not found"), ("${env:some/path:HOME}", "has no path")],
)
def test_references_that_kafka_rejects_are_errors(mistakes: Mistakes, reference: str, complaint: str) -> None:
    (found,) = mistakes(BASE + f"us.ssl.key.password = {reference}\n")
    assert complaint in found
    assert "us.ssl.key.password" in found


def test_an_unknown_provider_is_rejected(mistakes: Mistakes, read: Read) -> None:
    found = mistakes(BASE.replace("EnvVarConfigProvider", "VaultConfigProvider"))
    assert any("config.providers.env.class = " in one and "other Java classes cannot be run" in one for one in found)
    message = [problem.text for problem in read(BASE.replace("file, dir, env", "file, dir, env, x")).problems]
    assert any("config.providers.x.class is missing" in text for text in message)


def test_files_of_secrets_are_utf_8_unlike_the_configuration_itself(read: Read, secrets: Path) -> None:
    (secrets / "umlaut.properties").write_text("password = päss\n", "utf-8")
    config = read(BASE + f"us.ssl.key.password = ${{file:{secrets}/umlaut.properties:password}}\n")
    source = config.flows[0].source
    assert source is not None
    assert source.clients["source.consumer"]["ssl.key.password"] == "päss"


def test_a_value_is_resolved_once(read: Read, secrets: Path) -> None:
    (secrets / "nested.properties").write_text("password = abc${env:TWINLOG_ON}xyz\n")
    config = read(BASE + f"eu.ssl.key.password = ${{file:{secrets}/nested.properties:password}}\n")
    value = config.flows[0].worker.values["ssl.key.password"]
    assert value.text == "abc${env:TWINLOG_ON}xyz"
    assert value.shown.startswith("${file:")


def test_a_worker_may_have_providers_of_its_own(read: Read) -> None:
    config = read(
        "clusters = us, eu\nus.bootstrap.servers = u:1\neu.bootstrap.servers = e:1\nus->eu.enabled = true\n"
        "emit.heartbeats.enabled = false\neu.config.providers = env\n"
        "eu.config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "eu.client.id = ${env:TWINLOG_ON}\n"
    )
    assert [problem.text[:26] for problem in config.problems] == ["eu.client.id has no effect"]
    assert config.flows[0].worker.settings.client_id == "true"


@pytest.mark.parametrize(
    "line",
    [
        "us.ssl.keystore.password = hunter2${Tr0ub4dor:x}",
        "us.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required username=a "
        'password="hunter2${Tr0ub4dor:x}";',
    ],
)
def test_a_password_that_looks_like_a_reference_is_not_quoted(read: Read, line: str) -> None:
    problems = [str(problem) for problem in read(BASE + line + "\n").problems]
    assert any("${...} is not resolved" in text for text in problems)
    assert not any("Tr0ub4dor" in text or "hunter2" in text for text in problems)
