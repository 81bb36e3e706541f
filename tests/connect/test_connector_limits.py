"""A connector cannot block the worker, keep it from starting, or change after the check."""

import logging

import pytest

from twinlog.config.values import Origin, Value
from twinlog.connect.connector_limits import MAX_SETTINGS, exceeds_limits
from twinlog.connect.file_access import Access, access_problem
from twinlog.connect.topic_records import Connectors
from twinlog.http.loggers_api import Loggers
from twinlog.http.responses import json_response
from twinlog.mm2.control_topics import ControlTopics


@pytest.mark.parametrize("pattern", ["(a+)+c", "x,(a*)*", "(?:[a-z]+-?)*", "(.*-)*x", "((ab)+|c)+?d"])
@pytest.mark.parametrize("key", ["topics", "topics.exclude", "groups", "groups.exclude", "config.properties.exclude"])
def test_nested_repetition_is_rejected(key: str, pattern: str) -> None:
    assert exceeds_limits({key: pattern}).startswith(f"{key}: nested repetition")


@pytest.mark.parametrize(
    "pattern",
    [".*", "orders.*,payments-[0-9]+", ".*[\\-\\.]internal,.*\\.replica,__.*", "(a|b){1,5}x+", "((a+)b)?", "("],
)
def test_common_patterns_are_accepted(pattern: str) -> None:
    assert not exceeds_limits({"topics": pattern, "description": "(a+)+"})


def test_checked_values_must_not_be_references() -> None:
    assert "topic.filter.class" in exceeds_limits({"topic.filter.class": "${file:/tmp/x:c}"})
    assert "location" in exceeds_limits({"source.cluster.ssl.keystore.location": "${env:STORE}"})
    assert not exceeds_limits(
        {"source.cluster.ssl.keystore.password": "${file:/secrets:p}", "topics": "${file:/x:topics}"}
    )


def test_the_number_of_settings() -> None:
    assert exceeds_limits({f"k{n}": "" for n in range(MAX_SETTINGS + 1)})


@pytest.mark.parametrize("state", [b"[]", b"{}", b"1", b"null", b'"ELSE"'])
def test_an_invalid_state_is_ignored(state: bytes) -> None:
    found = Connectors()
    found.on_record(b"target-state-x", b'{"state":' + state + b"}")
    assert found.states == {}


def test_kerberos_booleans_are_not_files() -> None:
    module = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true useTicketCache=false keyTab="/k/a";'
    values = {"source.cluster.sasl.jaas.config": Value(module, module, Origin("file", "x.json"))}
    assert not access_problem(values, Access(files=("/k",)), "worker")
    assert "keyTab" in access_problem(values, Access(), "worker")


@pytest.mark.parametrize(
    "name",
    [
        "other.checkpoints.internal",
        "other_checkpoints_internal",
        "mm2-offset-syncs_zz_internal",
        "mm2-twinlog-us-internal",
    ],
)
def test_control_topics_of_flows_with_another_separator(name: str) -> None:
    assert ControlTopics().holds(name)
    assert not ControlTopics().holds(f"{name}.orders")


def test_a_lone_surrogate_does_not_break_a_response() -> None:
    assert json_response({"a": "\ud800"}).body == b'{"a":"?"}'


@pytest.mark.parametrize("name", ["py4j", "py4j.java_gateway", "root"])
def test_the_gateway_never_logs_its_token(name: str) -> None:
    """At DEBUG it would, with every command."""
    names: tuple[str | None, ...] = (None, "py4j", "py4j.java_gateway")
    levels = {each: logging.getLogger(each).level for each in names}
    try:
        Loggers().change(name, "DEBUG")
        for each in ("py4j", "py4j.java_gateway"):
            assert not logging.getLogger(each).isEnabledFor(logging.DEBUG), each
    finally:
        for changed, level in levels.items():
            logging.getLogger(changed).setLevel(level)
