"""Validation without a cluster; the number of errors is compared with a real worker elsewhere."""

from typing import Any

import pytest

from twinlog.connect.errors import ConnectError
from twinlog.connect.validate import validate, validate_request

MIRROR = "org.apache.kafka.connect.mirror."
GOOD = {"name": "x", "connector.class": MIRROR + "MirrorSourceConnector", "source.cluster.alias": "us"}


def entry(config: dict[str, Any], name: str, plugin: str = "MirrorSource") -> dict[str, Any]:
    (found,) = [each for each in validate(plugin, config).as_json()["configs"] if each["value"]["name"] == name]
    return dict(found["value"])


def test_a_valid_configuration() -> None:
    answer = validate("MirrorSource", GOOD).as_json()
    assert (answer["name"], answer["error_count"]) == (GOOD["connector.class"], 0)
    assert answer["groups"] == [
        "Common", "Transforms", "Predicates", "Error Handling", "Topic Creation", "Exactly Once Support", "offsets.topic",
    ]  # fmt: skip
    assert sorted(answer["configs"][0]) == ["definition", "value"]


def test_every_error_names_key_and_value() -> None:
    wrong = {"connector.class": GOOD["connector.class"], "tasks.max": "0", "enabled": "maybe", "topics": "(("}
    errors = validate("MirrorSource", wrong).errors
    assert errors[0] == 'Missing required configuration "name" which has no default value.'
    assert "Invalid value 0 for configuration tasks.max: expected at least 1" in errors
    assert "Invalid value maybe for configuration enabled: expected true or false" in errors
    assert any(error.startswith("Invalid value (( for configuration topics: ") for error in errors)
    assert len(errors) == 5


@pytest.mark.parametrize(
    ("text", "value", "count"),
    [("3", "3", 0), (" 3 ", "3", 0), ("0", "0", 1), ("many", None, 2), ("${env:TASKS}", "${env:TASKS}", 0)],
)
def test_parsed_values(text: str, value: str | None, count: int) -> None:
    found = entry({**GOOD, "tasks.max": text}, "tasks.max")
    assert (found["value"], len(found["errors"])) == (value, count)


def test_passwords_are_hidden_in_any_key() -> None:
    jaas = 'x.PlainLoginModule required password="rabbit";'
    answer = validate("MirrorSource", {**GOOD, "sasl.jaas.config": jaas, "tasks.max": "password=rabbit"}).as_json()
    assert "rabbit" not in str(answer)
    assert entry({**GOOD, "sasl.jaas.config": jaas}, "sasl.jaas.config")["value"] == "[hidden]"


def test_java_classes_are_rejected() -> None:
    router = {"transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter"}
    (error,) = validate("MirrorSource", {**GOOD, **router}).errors
    assert "transforms.r.type" in error
    assert "cannot run here" in error
    (error,) = validate("MirrorSource", {**GOOD, "replication.policy.class": "com.x.Policy"}).errors
    assert "package.module:Class" in error


def test_null_is_rejected_as_by_connect() -> None:
    """tests/connect/test_rest_against_connect.py compares every key with a real worker."""
    assert not validate("MirrorSource", {**GOOD, "target.cluster.alias": None, "enabled": None}).errors
    (error,) = validate("MirrorSource", {**GOOD, "tasks.max": None}).errors
    assert error == "Invalid value null for configuration tasks.max: Value must be non-null"
    (error,) = validate("MirrorSource", {**GOOD, "source.cluster.alias": None}).errors
    assert error.startswith("Missing required")
    (error,) = validate("MirrorSource", {**GOOD, "x.y": None}).errors
    assert error.startswith("Null value")
    assert entry({**GOOD, "made.up": None}, "made.up")["errors"]


@pytest.mark.parametrize(
    ("plugin", "settings", "key"),
    [
        ("MirrorSource", {"exactly.once.support": "required"}, "exactly.once.support"),
        ("MirrorCheckpoint", {"exactly.once.support": "Required"}, "exactly.once.support"),
        ("MirrorSource", {"emit.offset-syncs.enabled": "false", "offset-syncs.topic.location": "target"}, "emit.offset-syncs.enabled"),
        ("MirrorCheckpoint", {"emit.checkpoints.enabled": "false"}, "emit.checkpoints.enabled"),
        ("MirrorCheckpoint", {"emit.offset-syncs.enabled": "false"}, "emit.offset-syncs.enabled"),
        ("MirrorHeartbeat", {"transaction.boundary": "connector"}, "transaction.boundary"),
    ],
)  # fmt: skip
def test_contradictions(plugin: str, settings: dict[str, str], key: str) -> None:
    config = {**GOOD, "connector.class": MIRROR + plugin + "Connector", **settings}
    assert len(validate(plugin, config).errors) == len(entry(config, key, plugin)["errors"]) == 1


@pytest.mark.parametrize(
    ("plugin", "settings"),
    [
        ("MirrorSource", {"exactly.once.support": "required", "consumer.isolation.level": "read_committed"}),
        ("MirrorSource", {"emit.offset-syncs.enabled": "false"}),
        ("MirrorCheckpoint", {"emit.checkpoints.enabled": "false", "enabled": "false"}),
        ("MirrorCheckpoint", {"emit.checkpoints.enabled": "FALSE"}),
    ],
)
def test_no_contradictions(plugin: str, settings: dict[str, str]) -> None:
    assert not validate(plugin, {**GOOD, **settings}).errors


@pytest.mark.parametrize(
    ("plugin", "config", "status"),
    [
        ("MirrorSource", {}, 500),
        ("MirrorSource", {"connector.class": "MirrorHeartbeat"}, 400),
        ("Nothing", {"connector.class": "Nothing"}, 500),
        ("Nothing", GOOD, 400),
    ],
)
def test_a_class_that_does_not_match_the_path(plugin: str, config: dict[str, str | None], status: int) -> None:
    with pytest.raises(ConnectError) as caught:
        validate_request(plugin, config)
    assert caught.value.status == status


def test_the_class_in_the_configuration_is_used() -> None:
    assert validate_request("MirrorSource", {**GOOD, "connector.class": "MirrorSource"}).name == "MirrorSource"
    with pytest.raises(ConnectError):
        validate("Nothing", {})
