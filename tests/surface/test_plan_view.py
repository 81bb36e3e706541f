"""How `twinlog plan` looks, for people and for scripts; and what it says when it is called wrongly. Without a cluster."""

import io
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.surface.conftest import NOBODY, twinlog, write

from twinlog.config import FlowConfig
from twinlog.surface import plan as view
from twinlog.surface.progress import Progress
from twinlog.topology.acls import AclBinding
from twinlog.topology.plan import FlowPlan, KnownTopic, NewTopic, Reconfigured
from twinlog.topology.rights import CLUSTER, Missing, Resource
from twinlog.topology.sight import OwnTopic, Wait

ReadFlow = Callable[..., FlowConfig]


class TestLook:
    @pytest.fixture
    def plan(self, read_flow: ReadFlow) -> FlowPlan:
        return FlowPlan(
            flow=read_flow(),
            own=(OwnTopic("source", "mm2-offset-syncs.B.internal", 1, 3, "offset-syncs.topic.replication.factor"),),
            created=(NewTopic("orders", "A.orders", 3, -1, {"retention.ms": "5"}, Wait(1200, 250_000)),),
            known=(KnownTopic("users", "A.users", 4, 2, Wait(1, None)), KnownTopic("logs", "A.logs", 1, 1, Wait(0, 0))),
            configs=(Reconfigured("A.users", "segment.ms", None, "7"), Reconfigured("A.users", "a", "1", None)),
            granted=(AclBinding("TOPIC", "A.orders", "LITERAL", "User:alice", "*", "READ", "ALLOW"),),
            groups=tuple(f"g{number}" for number in range(7)),
            groups_left_out={"no position in a topic of this flow": ("idle",)},
            left_out={"topics.exclude has 'x.*' (the default)": ("x1", "x2")},
            missing=(
                Missing("source", tuple(Resource("topic", f"t{n}") for n in range(7)), ("READ",), ("to read records",)),
                Missing("target", (CLUSTER,), ("ALTER",), ("to copy ACLs",)),
            ),
            problems=("something is odd",),
        )

    def test_for_people(self, plan: FlowPlan) -> None:
        said = view.as_text([plan])
        assert [line.rstrip() for line in said.splitlines()] == [
            "A->B: replicates 3 topics, 8 partitions; 1,201 records wait, of unknown size",
            "============================================================================",
            "",
            "to be looked at",
            "  something is odd",
            "",
            "permissions that are missing",
            "  A: Read on topic t0, t1, t2, t3, t4 and 2 more (to read records)",
            "    kafka-acls --bootstrap-server a:1 --add --allow-principal User:... --operation Read --topic t0 --topic t1 --topic t2 --topic t3 --topic t4 ... (all of them with --json)",
            "  B: Alter on the cluster itself (to copy ACLs)",
            "    kafka-acls --bootstrap-server b:1 --add --allow-principal User:... --operation Alter --cluster",
            "",
            "topics that would be created on B",
            "  orders  A.orders  3 partitions, the broker's number of replicas  1,200 records wait, about 250.0 kB  retention.ms=5",
            "",
            "topics that would get more partitions on B",
            "  A.users  2 -> 4",
            "",
            "topic configs that would change on B",
            "  A.users  segment.ms  not set -> 7",
            "  A.users  a           1 -> not set",
            "",
            "ACLs that would be granted on B",
            "  ALLOW  User:alice  READ  A.orders  from *",
            "",
            "topics that are on B already",
            "  users  A.users  4 partitions  1 record waits, of unknown size",
            "  logs   A.logs   1 partition   nothing waits",
            "",
            "topics beside the records that would be created",
            "  mm2-offset-syncs.B.internal  on A  1 partition, 3 replicas",
            "",
            "consumer groups whose offsets would be translated",
            "  7 groups: g0, g1, g2, g3, g4 and 2 more",
            "  not translated: 1 group  no position in a topic of this flow: idle",
            "",
            "topics of A that are left out",
            "  2 topics  topics.exclude has 'x.*' (the default): x1, x2",
            "",
            "Nothing was changed.",
        ]

    def test_for_scripts_every_name_is_there(self, plan: FlowPlan) -> None:
        (flow,) = json.loads(view.as_json([plan]))["flows"]
        assert flow["flow"] == "A->B"
        assert (flow["records"], flow["bytes_about"]) == (1201, None)
        assert flow["created"][0]["configs"] == {"retention.ms": "5"}
        assert [(each["remote"], each["grows"]) for each in flow["there"]] == [("A.users", True), ("A.logs", False)]
        assert len(flow["groups"]) == 7
        assert len(flow["missing_rights"][0]["resources"]) == 7
        assert flow["missing_rights"][0]["remedy"].endswith(" --topic t6")
        assert flow["left_out"] == [{"reason": "topics.exclude has 'x.*' (the default)", "names": ["x1", "x2"]}]
        assert flow["problems"] == ["something is odd"]


def test_a_flow_that_replicates_nothing(read_flow: ReadFlow) -> None:
    flow = read_flow("A->B.enabled = false", "A->B.emit.heartbeats.enabled = true")
    assert view.as_text([FlowPlan(flow=flow)]).startswith("A->B: replicates nothing, emits heartbeats\n")


def test_a_sign_of_life_that_says_what_is_done() -> None:
    out = io.StringIO()
    seen = threading.Event()
    with Progress("twinlog plan", out, quiet=0.001, seldom=0.001) as progress:
        progress.step("topics of us")
        for _ in range(2000):
            if "twinlog plan: topics of us (" in out.getvalue():
                seen.set()
                break
            time.sleep(0.005)
    assert seen.is_set(), out.getvalue()


def test_nothing_is_said_of_what_does_not_last() -> None:
    out = io.StringIO()
    with Progress("twinlog plan", out, quiet=600) as progress:
        progress.step("topics of us")
    assert not out.getvalue()


def test_a_cluster_is_down(tmp_path: Path) -> None:
    for form in ([], ["--json"]):
        run = twinlog("plan", write(tmp_path, us=NOBODY, eu=NOBODY), *form)
        assert (run.returncode, run.stdout) == (1, "")
        assert run.stderr == (
            "twinlog: cluster us cannot be reached (127.0.0.1:1: Connection refused): "
            "check us.bootstrap.servers, and that the brokers run\n"
        )


def test_a_wrong_call(tmp_path: Path) -> None:
    file = write(tmp_path, us=NOBODY, eu=NOBODY)
    for arguments, said in (
        (["plan"], "Missing argument"),
        (["plan", "nowhere.properties"], "no such file or folder"),
        (["plan", file, "--flow", "a->b"], "--flow a->b: no such flow"),
    ):
        run = twinlog(*arguments)
        assert run.returncode == 2
        assert said in run.stderr
