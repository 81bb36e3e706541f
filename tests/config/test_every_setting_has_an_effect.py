"""Every setting is read by the code, or marked as without effect with the reason."""

import ast
import json
import re
from pathlib import Path

import pytest

import twinlog
from twinlog.cli import config_show
from twinlog.config import Config, load
from twinlog.config.clients import CLIENT_KEYS
from twinlog.config.setting import Row, rows
from twinlog.config.settings import CONNECTORS, WORKER_CLIENT_KEYS, WORKER_WITHOUT_EFFECT, WorkerSettings
from twinlog.config.settings_docs import document

ROOT = Path(twinlog.__file__).parent
# Modules that only declare, layer or describe keys.
DECLARE = {
    "config/common_settings.py", "config/connector_settings.py", "config/worker_settings.py", "config/setting_checks.py",
    "config/clients.py", "config/settings_docs.py", "config/layers.py", "config/unknown_keys.py",
    "config/dedicated.py", "config/strimzi.py", "config/strimzi_security.py", "config/connect.py", "config/values.py",
    "connect/definitions.py", "connect/validate.py", "cli/config_show.py",
}  # fmt: skip
ROWS = {row.key.name: row for settings in (*CONNECTORS.values(), WorkerSettings) for row in rows(settings)}
CLIENTS = {name: key for keys in CLIENT_KEYS.values() for name, key in keys.items()}


class Code:
    """All of the product."""

    def __init__(self) -> None:
        files = [path for path in ROOT.rglob("*.py") if "lab" not in path.relative_to(ROOT).parts]
        texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}
        self.reading = "\n".join(text for name, text in texts.items() if name not in DECLARE)
        self.words = {
            node.value
            for name, text in texts.items()
            if name not in DECLARE
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }

    def reads(self, field: str) -> bool:
        """As a field of settings, which have these variable names everywhere."""
        return re.search(rf"\b(?:_?settings|worker|one)\.{field}\b", self.reading) is not None

    def names(self, key: str) -> bool:
        """As a string, or by a prefix such as `sasl.oauthbearer.assertion.`."""
        family = key.count(".") > 2 and any(
            word.endswith(".") and word.count(".") > 2 and key.startswith(word) for word in self.words
        )
        return key in self.words or family


@pytest.fixture(scope="module")
def code() -> Code:
    return Code()


@pytest.mark.parametrize("name", sorted(ROWS))
def test_of_a_connector_or_worker(code: Code, name: str) -> None:
    row: Row = ROWS[name]
    assert row.key.no_effect or code.reads(row.field) or code.names(name), (
        f"{name} is neither read nor marked as without effect"
    )


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_of_a_client(code: Code, name: str) -> None:
    assert CLIENTS[name].no_effect or code.names(name), f"{name} is neither read nor marked as without effect"


def test_a_setting_without_effect_is_documented_with_the_reason() -> None:
    text = document()
    marks = [(name, row.key.no_effect) for name, row in ROWS.items()]
    for name, reason in marks + [(name, key.no_effect) for name, key in CLIENTS.items()]:
        if reason:
            assert not reason.endswith("."), name
            lines = [line for line in text.splitlines() if line.startswith(f"| `{name}`") and reason in line]
            assert lines, name
            assert all("accepted, no effect" in line for line in lines), name
    for name in WORKER_WITHOUT_EFFECT | WORKER_CLIENT_KEYS | {"dedicated.mode.enable.internal.rest"}:
        assert f"`{name}`" in text, name


CLUSTERS = "clusters = us, eu\nus.bootstrap.servers = a:1\neu.bootstrap.servers = b:1\nus->eu.enabled = true\n"


def _config(folder: Path, *lines: str) -> Config:
    file = folder / "mm2.properties"
    file.write_text(CLUSTERS + "\n".join(lines))
    return load([file])


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("offset.lag.max = 10", "offset.lag.max has no effect: "),
        ("us->eu.errors.retry.timeout = 5", "us->eu.errors.retry.timeout has no effect: "),
        ("eu.offset.flush.timeout.ms = 5", "eu.offset.flush.timeout.ms has no effect: "),
        ("eu.producer.acks = 1", "eu.producer.acks has no effect: always all"),
        ("us.consumer.client.dns.lookup = use_all_dns_ips", "us.consumer.client.dns.lookup has no effect: "),
        ("eu.producer.linger.ms = 50", "eu.producer.linger.ms has no effect: "),
        ("eu.session.timeout.ms = 50", "eu.session.timeout.ms has no effect: "),
        ("dedicated.mode.enable.internal.rest = true", "dedicated.mode.enable.internal.rest has no effect: "),
        ("key.converter = org.apache.kafka.connect.json.JsonConverter", "key.converter has no effect: records are copied as bytes"),
    ],
)  # fmt: skip
def test_a_note_if_one_is_set(tmp_path: Path, line: str, note: str) -> None:
    config = _config(tmp_path, line)
    found = [problem for problem in config.problems if note in problem.text]
    assert [problem.level for problem in found] == ["note"], config.problems
    assert found[0].where == "mm2.properties:5"
    shown = json.loads(config_show.as_json(config))
    assert [problem["text"] for problem in shown["problems"] if note in problem["text"]]
    assert note in config_show.as_text(config)


def test_an_interceptor_is_a_warning(tmp_path: Path) -> None:
    """It may mask secrets in records."""
    (problem,) = _config(tmp_path, "us.consumer.interceptor.classes = acme.Hide").problems
    assert problem.level == "warning"
    assert "us.consumer.interceptor.classes has no effect" in problem.text


@pytest.mark.parametrize(
    "line",
    [
        "eu.producer.acks = all", "eu.producer.acks = -1", "eu.producer.enable.idempotence = true",
        "key.converter = org.apache.kafka.connect.converters.ByteArrayConverter", "tasks.max = 3", "us.consumer.client.id = me",
        "us.consumer.request.timeout.ms = 60000", "us.consumer.enable.auto.commit = false",
    ],
)  # fmt: skip
def test_no_note_for_the_fixed_behaviour(tmp_path: Path, line: str) -> None:
    assert not _config(tmp_path, line).problems


def test_no_effect_is_shown_for_defaults_too(tmp_path: Path) -> None:
    config = _config(tmp_path)
    shown = json.loads(config_show.as_json(config))
    flow = next(flow for flow in shown["flows"] if flow["flow"] == "us->eu")
    settings = flow["connectors"]["MirrorSourceConnector"]["settings"]
    assert "no_effect" in settings["offset.lag.max"]
    assert "no_effect" not in settings["topics"]
    assert "no_effect" in flow["worker"]["settings"]["offset.flush.timeout.ms"]
    producer = flow["connectors"]["MirrorSourceConnector"]["clients"]["data.producer"]
    assert producer["acks"]["no_effect"].startswith("always all")
    assert "no_effect" not in producer["bootstrap.servers"]
    assert re.search(r"offset\.lag\.max +default +100 +\(no effect: ", config_show.as_text(config))
