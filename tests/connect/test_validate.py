"""What is said of a configuration without a cluster; how many mistakes a real worker finds is compared elsewhere."""

from typing import Any

import pytest

from twinlog.connect.errors import ConnectError
from twinlog.connect.validate import asked, validate

MIRROR = "org.apache.kafka.connect.mirror."
GOOD = {"name": "x", "connector.class": MIRROR + "MirrorSourceConnector", "source.cluster.alias": "us"}


def entry(config: dict[str, Any], name: str, plugin: str = "MirrorSource") -> dict[str, Any]:
    (found,) = [each for each in validate(plugin, config).answer()["configs"] if each["value"]["name"] == name]
    return dict(found["value"])


def test_a_good_one() -> None:
    answer = validate("MirrorSource", GOOD).answer()
    assert (answer["name"], answer["error_count"]) == (GOOD["connector.class"], 0)
    assert answer["groups"] == [
        "Common", "Transforms", "Predicates", "Error Handling", "Topic Creation", "Exactly Once Support", "offsets.topic",
    ]  # fmt: skip
    assert sorted(answer["configs"][0]) == ["definition", "value"]


def test_every_mistake_is_named_with_key_and_value() -> None:
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
def test_what_a_value_would_be(text: str, value: str | None, count: int) -> None:
    found = entry({**GOOD, "tasks.max": text}, "tasks.max")
    assert (found["value"], len(found["errors"])) == (value, count)


def test_passwords_are_hidden_and_so_is_what_looks_like_one() -> None:
    jaas = 'x.PlainLoginModule required password="rabbit";'
    answer = validate("MirrorSource", {**GOOD, "sasl.jaas.config": jaas, "tasks.max": "password=rabbit"}).answer()
    assert "rabbit" not in str(answer)
    assert entry({**GOOD, "sasl.jaas.config": jaas}, "sasl.jaas.config")["value"] == "[hidden]"


def test_java_that_cannot_be_run_here() -> None:
    router = {"transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter"}
    (error,) = validate("MirrorSource", {**GOOD, **router}).errors
    assert "transforms.r.type" in error
    assert "cannot be run here" in error
    (error,) = validate("MirrorSource", {**GOOD, "replication.policy.class": "com.x.Policy"}).errors
    assert "package.module:Class" in error


def test_null_is_no_value() -> None:
    (error,) = validate("MirrorSource", {**GOOD, "target.cluster.alias": None}).errors
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
def test_what_contradicts(plugin: str, settings: dict[str, str], key: str) -> None:
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
def test_what_does_not(plugin: str, settings: dict[str, str]) -> None:
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
def test_a_class_that_does_not_fit(plugin: str, config: dict[str, str | None], status: int) -> None:
    with pytest.raises(ConnectError) as caught:
        asked(plugin, config)
    assert caught.value.status == status


def test_the_name_in_the_configuration_counts() -> None:
    assert asked("MirrorSource", {**GOOD, "connector.class": "MirrorSource"}).name == "MirrorSource"
    with pytest.raises(ConnectError):
        validate("Nothing", {})
