"""examples/cloud: the whole example, its files and its modules."""

import json
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from twinlog.config import Config, load

ROOT = Path(__file__).parents[2]
HOME = ROOT / "examples" / "cloud"
SEEDS = ROOT / "tests" / "config" / "seeds"

Load = Callable[[str, str], ModuleType]


@pytest.mark.broker
@pytest.mark.spark
def test_example(run_example: Callable[..., str], module: Load) -> None:
    output = run_example("cloud", "--seconds", "3")
    for error in module("cloud", "typical_errors").ERRORS.values():
        assert re.search(rf"MM2:    {re.escape(error.mm2)}\n  doctor: \w+: .*{re.escape(error.found)}", output)
    assert "twinlog run, instead of MM2's line: " in output
    assert re.search(r"orders on cloud and source.orders on local: \d+ records, equal", output)
    assert re.search(r"products on local and source.products on cloud: \d+ records, equal", output)
    assert "equal in key, value, headers" in output


def test_the_files_match_the_originals() -> None:
    assert (HOME / "cloud-to-local.properties").read_text() == (SEEDS / "from-cloud.properties").read_text()
    # There is no original of this one, but there are client properties of either cluster.
    ours = _keys(HOME / "kafka-to-es-mm2.properties")
    strimzi, target = _keys(SEEDS / "strimzi-mm2.properties"), _keys(SEEDS / "client-target.properties")
    assert {key: text for key, text in strimzi.items() if key.startswith("source.")}.items() <= ours.items()
    assert {f"target.{key}": text for key, text in target.items()}.items() <= ours.items()


def test_config_providers_resolve_to_the_file_with_passwords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ES_APIKEY", "am_...")
    passwords = tmp_path / "passwords.properties"
    passwords.write_text("truststore=password\n")
    file = HOME / "kafka-to-es-mm2-no-passwords.properties"
    text = file.read_text()
    assert "password=password" not in text
    assert "am_" not in text
    copy = tmp_path / "mm2.properties"
    copy.write_text(text.replace("/home/passwords.properties", str(passwords)))
    assert _clusters(load([str(copy)])) == _clusters(load([str(HOME / "kafka-to-es-mm2.properties")]))


def test_client_properties(module: Load) -> None:
    properties = module("cloud", "kafka_client").client_properties
    assert properties({"KAFKA_BROKERS": "a:9092"}) == {"bootstrap.servers": "a:9092"}
    tls = {"bootstrap.servers": "a:9093", "security.protocol": "ssl", "ssl.ca.location": "ca.pem"}
    assert properties({"KAFKA_BROKERS": "a:9093", "KAFKA_CERT": "ca.pem"}) == tls
    cloud = properties({"KAFKA_BROKERS": "a:9093", "KAFKA_APIKEY": "key", "KAFKA_CERT": "ca.pem"})
    assert (cloud["security.protocol"], cloud["sasl.username"], cloud["sasl.password"]) == ("sasl_ssl", "token", "key")


def test_messages_have_headers_of_every_kind(module: Load) -> None:
    messages = module("cloud", "producer").messages
    first, second = islice(messages("products"), 2)
    assert json.loads(first.value)["id"] == 0
    assert [name for name, _ in first.headers].count("hop") == 2
    assert ("test", None) in first.headers
    assert dict(first.headers)["traceparent"] != dict(second.headers)["traceparent"]
    assert next(messages("products")) == first  # deterministic, so that a test knows what was produced


def test_the_most_severe_finding_is_recognised(module: Load) -> None:
    errors = module("cloud", "typical_errors")
    error = errors.ERRORS["factor"]
    finding: dict[str, Any] = {"check": "replication", "found": "...: cannot be created"}
    low, high = {**finding, "status": "warning"}, {**finding, "status": "error"}
    assert errors.recognised(error, [low, high]) == high
    assert errors.recognised(error, [{**high, "check": "topics"}]) is None
    assert errors.recognised(error, [{**high, "found": "something else"}]) is None


def test_the_readme_lists_every_error(module: Load) -> None:
    readme = (HOME / "README.md").read_text()
    for error in module("cloud", "typical_errors").ERRORS.values():
        assert f"| `{error.mm2}` |" in readme
        assert error.check in readme


def _keys(file: Path) -> dict[str, str]:
    lines = [line.strip() for line in file.read_text().splitlines()]
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def _clusters(config: Config) -> dict[str, dict[str, str]]:
    return {
        alias: {key: value.text for key, value in client.values.items()} for alias, client in config.clusters.items()
    }
