"""`twinlog offsets translate` and `twinlog upstream`, as an operator runs them."""

import json
import struct
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.waiting import until
from tests.cli.conftest import call
from twinlog.cli import offsets
from twinlog.config import Client as ClientConfig
from twinlog.config.values import FrozenMap, derived
from twinlog.errors import RefusedError
from twinlog.failover import RemoteCheckpoints, Upstream
from twinlog.kafka.client import Client
from twinlog.kafka.records import encode
from twinlog.mm2.checkpoints import Checkpoint
from twinlog.model import TopicPartition

NOBODY = "127.0.0.1:1"  # no port of that number is ever in use
FILE = """\
clusters = ocus, oceu
ocus.bootstrap.servers = {us}
oceu.bootstrap.servers = {eu}
ocus->oceu.enabled = true
"""
NOON_MS = 1_777_636_800_000
AGE_MS = 3 * 3_600_000

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Beside a file whose clusters are these."""

    def run(*arguments: str, eu: str = NOBODY, more: str = "") -> subprocess.CompletedProcess[str]:
        (tmp_path / "mm2.properties").write_text(FILE.format(us=NOBODY, eu=eu) + more)
        return call(*arguments, cwd=tmp_path)

    return run


TRANSLATE = ("offsets", "translate", "mm2.properties", "--from", "ocus", "--to", "oceu")
UPSTREAM = ("upstream", "mm2.properties", "--cluster", "oceu")


class TestLooks:
    FOUND = RemoteCheckpoints(
        "us.checkpoints.internal",
        {
            "app-2": {TopicPartition("us.orders", 0): Checkpoint("app-2", "us.orders", 0, 7, 7, "a\nb")},
            "app-1": {
                TopicPartition("us.orders", 10): Checkpoint("app-1", "us.orders", 10, 1, 1),
                TopicPartition("us.orders", 2): Checkpoint("app-1", "us.orders", 2, 1234, 1230, "mine"),
            },
        },
        {"app-1": NOON_MS, "app-2": -1},
        frozenset(),
        0,
    )

    def test_a_table(self) -> None:
        assert offsets.as_text(self.FOUND, NOON_MS + 12_400).splitlines() == [
            "group  topic      partition  offset  metadata",
            "app-1  us.orders  2          1230    mine",
            "app-1  us.orders  10         1",
            r"app-2  us.orders  0          7       a\nb",
            "",
            "group  newest checkpoint",
            "app-1  2026-05-01 12:00:00 UTC (12 s ago)",
            "app-2  unknown",
        ]

    def test_lines_for_kafkas_tool(self) -> None:
        assert offsets.as_csv(self.FOUND, "app-1") == "us.orders,2,1230\nus.orders,10,1"

    @pytest.mark.parametrize(
        ("age_ms", "shown"),
        [(-5000, "0 s"), (119_000, "119 s"), (120_000, "2 min"), (7_200_000, "2 hours"), (172_800_000, "2 days")],
    )
    def test_ages(self, age_ms: int, shown: str) -> None:
        assert offsets._when(NOON_MS, NOON_MS + age_ms) == f"2026-05-01 12:00:00 UTC ({shown} ago)"

    def test_upstream_clusters(self) -> None:
        found = [
            Upstream("us", 1, "us.heartbeats", NOON_MS, ("us.orders", "us.heartbeats")),
            Upstream("asia", 2, "us.asia.heartbeats", None, ()),
        ]
        assert offsets.upstreams_as_text(found, "eu", NOON_MS + 1000).splitlines() == [
            "cluster  hops  heartbeats topic    newest heartbeat                   remote topics",
            "us       1     us.heartbeats       2026-05-01 12:00:00 UTC (1 s ago)  2",
            "asia     2     us.asia.heartbeats  none readable                      0",
        ]
        assert offsets.upstreams_as_text([], "eu") == (
            "eu has no upstream clusters: it has no heartbeats of other clusters"
        )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (TRANSLATE, "Error: set either --group or --group-pattern"),
        ((*TRANSLATE, "--group", "a", "--group-pattern", "b"), "Error: set either --group or --group-pattern"),
        (
            (*TRANSLATE, "--group-pattern", "a", "--reset-command"),
            "Error: --reset-command requires --group, and excludes --json",
        ),
        (
            (*TRANSLATE, "--group-pattern", "app-("),
            "twinlog: group pattern 'app-(': invalid Java regular expression: ",
        ),
        (
            (*TRANSLATE[:-1], "moon", "--group", "a"),
            "twinlog: cluster moon: no such cluster in mm2.properties; configured: oceu, ocus",
        ),
        (
            (*UPSTREAM[:-1], "moon"),
            "twinlog: cluster moon: no such cluster in mm2.properties; configured: oceu, ocus",
        ),
    ],
)
def test_a_call_that_makes_no_sense(run: Run, arguments: tuple[str, ...], line: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(line)
    assert not done.stdout


@pytest.mark.parametrize("arguments", [(*TRANSLATE, "--group", "app-1"), UPSTREAM])
def test_a_cluster_is_down(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 1
    assert done.stderr == (
        "twinlog: cluster oceu cannot be reached: 127.0.0.1:1: Connection refused; "
        "check oceu.bootstrap.servers and that the brokers are running\n"
    )
    assert not done.stdout


def text(content: str) -> bytes:
    return struct.pack(">h", len(content)) + content.encode()


def checkpoint(group: str, topic: str, partition: int, down: int, metadata: str = "") -> tuple[bytes, bytes]:
    key = text(group) + text(topic) + struct.pack(">i", partition)
    return key, struct.pack(">hqq", 0, down + 100, down) + text(metadata)


@pytest.fixture(scope="module")
def stage(eu: Cluster) -> Cluster:
    """What the flow would have written: checkpoints, heartbeats, a topic with two partitions."""
    now = int(time.time() * 1000)
    content: dict[str, list[tuple[bytes, bytes]]] = {
        "ocus.checkpoints.internal": [
            checkpoint("oc-app-1", "ocus.orders", 0, 3),
            checkpoint("oc-app-1", "ocus.orders", 1, 0, "mine"),
            checkpoint("oc-app-2", "ocus.orders", 0, 1),
            (b"?", b"?"),
        ],
        "ocus.heartbeats": [(text("oceu") + text("ocus"), struct.pack(">hq", 0, now - AGE_MS))],
        "ocus.orders": [(b"key", b"value")] * 5,
    }
    client = Client("eu", ClientConfig("consumer", FrozenMap({"bootstrap.servers": derived("", eu.bootstrap(), "")})))

    def written(topic: str) -> bool:
        batch = encode([(now, key, value, ()) for key, value in content[topic]])
        with suppress(RefusedError):  # it was made this very moment
            return client.append(TopicPartition(topic, 0), batch) >= 0
        return False

    try:
        for topic in content:
            eu.create_topic(topic, 2 if topic == "ocus.orders" else 1)
            until(partial(written, topic), f"writing to {topic}")
    finally:
        client.close()
    return eu


@pytest.mark.broker
class TestTranslate:
    def test_one_group(self, run: Run, stage: Cluster) -> None:
        done = run(*TRANSLATE, "--group", "oc-app-1", eu=stage.bootstrap())
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert [line.split() for line in lines[:3]] == [
            ["group", "topic", "partition", "offset", "metadata"],
            ["oc-app-1", "ocus.orders", "0", "3"],
            ["oc-app-1", "ocus.orders", "1", "0", "mine"],
        ]
        assert lines[-1].startswith("oc-app-1  20")
        assert lines[-1].endswith("ago)")
        assert done.stderr == ("twinlog: warning: 1 record of ocus.checkpoints.internal on oceu skipped: malformed\n")

    def test_groups_by_pattern_for_scripts(self, run: Run, stage: Cluster) -> None:
        done = run(*TRANSLATE, "--group-pattern", "oc-app-[12]", "--json", eu=stage.bootstrap())
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert (found["from"], found["to"], found["skipped_records"]) == ("ocus", "oceu", 1)
        assert [each["group"] for each in found["groups"]] == ["oc-app-1", "oc-app-2"]
        assert found["groups"][0]["offsets"][1] == {
            "topic": "ocus.orders", "partition": 1, "offset": 0, "source_offset": 100, "metadata": "mine",
        }  # fmt: skip
        assert found["groups"][0]["newest_checkpoint_ms"] > 1_600_000_000_000

    def test_kafkas_own_tool_takes_the_lines(self, run: Run, stage: Cluster, tmp_path: Path) -> None:
        done = run(*TRANSLATE, "--group", "oc-app-1", "--reset-command", eu=stage.bootstrap())
        assert done.returncode == 0, done.stderr
        file = tmp_path / "offsets.csv"
        file.write_text(done.stdout)
        reset = ("--reset-offsets", "--from-file", str(file), "--execute")
        stage.tool("groups", "--group", "oc-app-1", *reset)
        described = stage.tool("groups", "--group", "oc-app-1", "--describe", "--offsets")
        rows = {tuple(line.split()[1:4]) for line in described.splitlines() if line.startswith("oc-app-1")}
        assert rows == {("ocus.orders", "0", "3"), ("ocus.orders", "1", "0")}

    def test_a_group_of_which_nothing_is_known(self, run: Run, stage: Cluster) -> None:
        done = run(*TRANSLATE, "--group", "oc-app1", eu=stage.bootstrap())
        assert done.returncode == 1
        assert not done.stdout
        assert done.stderr.splitlines()[-1].startswith(
            "twinlog: cluster oceu: ocus.checkpoints.internal has no checkpoint of group oc-app1 "
            "(did you mean oc-app-1?) (it has checkpoints of 2 groups); check that the group has committed offsets on ocus"
        )

    def test_no_checkpoints_topic(self, run: Run, stage: Cluster) -> None:
        arguments = ["mars" if each == "ocus" else each for each in TRANSLATE]
        done = run(*arguments, "--group", "oc-app-1", eu=stage.bootstrap())
        assert done.returncode == 1
        assert done.stderr.startswith("twinlog: cluster oceu has no topic mars.checkpoints.internal")
        assert len(done.stderr.splitlines()) == 1

    def test_no_time(self, run: Run, stage: Cluster) -> None:
        done = run(*TRANSLATE, "--group", "oc-app-1", "--timeout", "0", eu=stage.bootstrap())
        assert done.returncode == 1
        assert "not read to its end within 0 s" in done.stderr


@pytest.mark.broker
class TestUpstream:
    def test_as_a_table(self, run: Run, stage: Cluster) -> None:
        done = run(*UPSTREAM, eu=stage.bootstrap())
        assert done.returncode == 0, done.stderr
        (row,) = [line for line in done.stdout.splitlines() if line.startswith("ocus ")]
        assert row.split()[:3] == ["ocus", "1", "ocus.heartbeats"]
        assert "(3 hours ago)" in row
        assert row.split()[-1] == "2"

    def test_for_scripts(self, run: Run, stage: Cluster) -> None:
        done = run(*UPSTREAM, "--json", eu=stage.bootstrap())
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["cluster"] == "oceu"
        (ours,) = [each for each in found["upstream"] if each["cluster"] == "ocus"]
        assert ours["newest_heartbeat_ms"] > 0
        del ours["newest_heartbeat_ms"]
        assert ours == {
            "cluster": "ocus",
            "hops": 1,
            "heartbeats_topic": "ocus.heartbeats",
            "remote_topics": ["ocus.heartbeats", "ocus.orders"],
        }
