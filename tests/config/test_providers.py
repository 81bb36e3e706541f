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
def test_what_cannot_be_resolved_stays_as_text(read: Read, text: str) -> None:
    config = read(BASE + f"us->eu.topics.exclude = a\nus.client.id = {text}\n")
    assert config.flows[0].replicates


@pytest.mark.parametrize(
    ("parameter", "reference", "complaint"),
    [
        ("", "${file:/no/such/file:x}", "no such file: /no/such/file"),
        ("", "${dir:/no/such/folder:x}", "no such folder: /no/such/folder"),
        ("config.providers.file.param.allowed.paths = /etc/kafka", "${file:/root/x:y}", "is not under allowed.paths"),
        (
            "config.providers.file.param.allowed.paths = /etc/kafka",
            "${file:/etc/kafka/../x:y}",
            "is not under allowed.paths",
        ),
        (
            "config.providers.env.param.allowlist.pattern = TWINLOG_.*",
            "${env:HOME}",
            "does not match allowlist.pattern",
        ),
        ("", "${env:some/path:HOME}", "has no path"),
    ],
)
def test_what_must_not_be_read_is_refused(mistakes: Mistakes, parameter: str, reference: str, complaint: str) -> None:
    (found,) = mistakes(BASE + f"{parameter}\nus.ssl.key.password = {reference}\n")
    assert complaint in found
    assert "us.ssl.key.password" in found


def test_an_unknown_provider_is_refused_by_name(mistakes: Mistakes) -> None:
    found = mistakes(BASE.replace("EnvVarConfigProvider", "VaultConfigProvider"))
    assert any("config.providers.env.class = " in one and "no such config provider here" in one for one in found)
    assert "config.providers.x.class is missing" in mistakes(BASE.replace("file, dir, env", "file, dir, env, x"))[0]
