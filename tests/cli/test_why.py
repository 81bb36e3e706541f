"""`twinlog why`: the rule, the setting, the line; without any cluster."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import call
from twinlog.cli import why as view
from twinlog.config import load

FILE = """\
clusters = us, eu
us.bootstrap.servers = 127.0.0.1:1
eu.bootstrap.servers = 127.0.0.1:1
us->eu.enabled = true
us->eu.topics = orders.*, logs
topics.blacklist = orders-test
groups.exclude = test-.*
us->eu.sync.group.offsets.enabled = true
"""


def twinlog(folder: Path, *arguments: str, text: str = FILE) -> subprocess.CompletedProcess[str]:
    (folder / "mm2.properties").write_text(text)
    return call(*arguments, cwd=folder)


def why(folder: Path, name: str, text: str = FILE) -> list[str]:
    """The lines about us->eu, without the flow."""
    file = folder / "mm2.properties"
    file.write_text(text)
    said = view.as_text(name, view.why(load([file]), name))
    return [line.removeprefix("us->eu: ") for line in said.splitlines() if line.startswith("us->eu: ")]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("orders-1", "topic orders-1 of us is replicated as us.orders-1: topics has 'orders.*' (mm2.properties:5, as us->eu.topics)"),
        ("logs", "topic logs of us is replicated as us.logs: topics has 'logs' (mm2.properties:5, as us->eu.topics)"),
        ("orders-test", "topic orders-test of us is not replicated: topics.exclude has 'orders-test' (mm2.properties:6, as topics.blacklist)"),
        ("payments", "topic payments of us is not replicated: no pattern of topics matches it (mm2.properties:5, as us->eu.topics)"),
        ("__consumer_offsets", "topic __consumer_offsets of us is not replicated: internal topic (its name starts with __)"),
        ("eu.orders", "topic eu.orders of us is not replicated: replication cycle: by its name it was copied from eu"),
        ("checkpoints.internal", "topic checkpoints.internal of us is not replicated: us.checkpoints.internal on eu is a control topic (checkpoints)"),
        ("heartbeats", "topic heartbeats of us is replicated as us.heartbeats: heartbeats topic, replicated regardless of topics and topics.exclude (the default)"),
        ("heartbeats", "topic heartbeats of eu is an internal topic of this flow"),
        ("mm2-offset-syncs.eu.internal", "topic mm2-offset-syncs.eu.internal of us is an internal topic of this flow"),
        ("us.orders", "topic us.orders of eu is the copy of topic orders of us, which is replicated as us.orders: topics has 'orders.*' (mm2.properties:5, as us->eu.topics)"),
        ("us.payments", "topic us.payments of eu would be the copy of topic payments of us, which is not replicated: no pattern of topics matches it (mm2.properties:5, as us->eu.topics)"),
        ("billing", "group billing of us is followed: groups has '.*' (the default)"),
        ("billing", "group billing: offsets committed on eu while the group is idle there: sync.group.offsets.enabled is true (mm2.properties:8, as us->eu.sync.group.offsets.enabled)"),
        ("test-1", "group test-1 of us is not followed: groups.exclude has 'test-.*' (mm2.properties:7)"),
    ],
)  # fmt: skip
def test_one_sentence_for_each(tmp_path: Path, name: str, line: str) -> None:
    assert line in why(tmp_path, name)


def test_a_name_that_is_no_copy_is_not_called_one(tmp_path: Path) -> None:
    for name in ("orders", "asia.orders", "usorders"):
        assert not [line for line in why(tmp_path, name) if "copy of" in line]


def test_under_the_identity_policy_a_copy_has_the_same_name(tmp_path: Path) -> None:
    text = FILE + "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    lines = why(tmp_path, "us.orders", text=text.replace("orders.*", ".*orders.*"))
    assert lines[0].startswith("topic us.orders of us is replicated as us.orders: ")
    assert not [line for line in lines if "copy of" in line]


def test_a_disabled_flow_has_one_line(tmp_path: Path) -> None:
    run = twinlog(tmp_path, "why", "mm2.properties", "orders")
    assert [line for line in run.stdout.splitlines() if line.startswith("eu->us")] == [
        "eu->us: nothing of eu is replicated: the flow is not enabled (default in dedicated mode)"
    ]


@pytest.mark.parametrize("key", ["emit.checkpoints.enabled", "emit.offset-syncs.enabled"])
def test_groups_are_not_followed_without_checkpoints(tmp_path: Path, key: str) -> None:
    lines = why(tmp_path, "billing", text=FILE + f"us->eu.{key} = false\n")
    where = f"(mm2.properties:9, as us->eu.{key})"
    assert lines[-1] == f"group billing of us is not followed: {key} is false {where}"


def test_a_filter_of_ones_own(tmp_path: Path) -> None:
    module = "class Long:\n    twinlog_plugin = True\n    def accepts(self, name): return len(name) > 5\n"
    (tmp_path / "acme_why.py").write_text(module)
    text = FILE + "topic.filter.class = acme_why:Long\n"
    (tmp_path / "mm2.properties").write_text(text)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "from twinlog.cli.main import main; main()", "why", "mm2.properties", "tiny"],
        capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    line = "topic tiny of us is not replicated: topic.filter.class acme_why:Long does not accept it (mm2.properties:9)"
    assert line in run.stdout


def test_for_scripts(tmp_path: Path) -> None:
    run = twinlog(tmp_path, "why", "mm2.properties", "us.orders", "--json", "--flow", "us->eu")
    shown = json.loads(run.stdout)
    (flow,) = shown["flows"]
    assert shown["name"] == "us.orders"
    assert flow["topic"]["replicated"] is False
    assert flow["topic"]["setting"] == "topics"
    assert flow["copy_of"]["topic"] == "orders"
    assert flow["copy_of"]["remote"] == "us.orders"
    assert flow["copy_of"]["from"] == {"kind": "file", "file": "mm2.properties", "line": 5, "key": "us->eu.topics"}
    assert flow["group"]["followed"] is True
    assert flow["group"]["committed_on_target"]["committed"] is True
    assert "seen" not in flow


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["why", "mm2.properties"], "Missing argument"),
        (["why", "mm2.properties", ""], "TOPIC_OR_GROUP is empty"),
        (["why", "mm2.properties", "t", "--flow", "a->b"], "--flow a->b: no such flow"),
        (["why", "nowhere.properties", "t"], "nowhere.properties: no such file or directory"),
    ],
)
def test_a_wrong_call(tmp_path: Path, arguments: list[str], said: str) -> None:
    run = twinlog(tmp_path, *arguments)
    assert run.returncode == 2
    assert said in run.stderr
    assert "Traceback" not in run.stderr


def test_a_lookup_on_a_cluster_that_is_down(tmp_path: Path) -> None:
    run = twinlog(tmp_path, "why", "mm2.properties", "orders", "--look")
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.splitlines()[-1].startswith("twinlog: cluster us cannot be reached: 127.0.0.1:1: ")
