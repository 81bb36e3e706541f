"""How `twinlog plan` looks, for people and for scripts; and what it says when it is called wrongly. Without a cluster."""

import io
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import NOBODY, call, write
from twinlog.cli import plan as view
from twinlog.cli.progress import Progress
from twinlog.config import FlowConfig
from twinlog.inspect.permissions import CLUSTER, Missing, Resource
from twinlog.inspect.plan import FlowPlan, KnownTopic, NewTopic, Reconfigured
from twinlog.inspect.plan_json import as_json
from twinlog.inspect.snapshot import Backlog
from twinlog.kafka.resources import AclBinding
from twinlog.sync.internal_topics import InternalTopic

ReadFlow = Callable[..., FlowConfig]


class TestLook:
    @pytest.fixture
    def plan(self, read_flow: ReadFlow) -> FlowPlan:
        return FlowPlan(
            flow=read_flow(),
            internal_topics=(
                InternalTopic("source", "mm2-offset-syncs.B.internal", 1, 3, "offset-syncs.topic.replication.factor"),
            ),
            created=(NewTopic("orders", "A.orders", 3, -1, {"retention.ms": "5"}, Backlog(1200, 250_000)),),
            known=(
                KnownTopic("users", "A.users", 4, 2, Backlog(1, None)),
                KnownTopic("logs", "A.logs", 1, 1, Backlog(0, 0)),
            ),
            configs=(Reconfigured("A.users", "segment.ms", None, "7"), Reconfigured("A.users", "a", "1", None)),
            granted=(AclBinding("TOPIC", "A.orders", "LITERAL", "User:alice", "*", "READ", "ALLOW"),),
            groups=tuple(f"g{number}" for number in range(7)),
            groups_left_out={"no committed offset in a topic of this flow": ("idle",)},
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
            "A->B: replicates 3 topics, 8 partitions; 1,201 records to copy, size unknown",
            "============================================================================",
            "",
            "problems",
            "  something is odd",
            "",
            "missing permissions",
            "  A: Read on topic t0, t1, t2, t3, t4 and 2 more (to read records)",
            "    kafka-acls --bootstrap-server a:1 --add --allow-principal User:... --operation Read --topic t0 --topic t1 --topic t2 --topic t3 --topic t4 ... (--json lists all)",
            "  B: Alter on the cluster (to copy ACLs)",
            "    kafka-acls --bootstrap-server b:1 --add --allow-principal User:... --operation Alter --cluster",
            "",
            "topics to be created on B",
            "  orders  A.orders  3 partitions, the broker's default number of replicas  1,200 records to copy, about 250.0 kB  retention.ms=5",
            "",
            "topics to get more partitions on B",
            "  A.users  2 -> 4",
            "",
            "topic configs to be changed on B",
            "  A.users  segment.ms  not set -> 7",
            "  A.users  a           1 -> not set",
            "",
            "ACLs to be granted on B",
            "  ALLOW  User:alice  READ  A.orders  from *",
            "",
            "topics that exist on B",
            "  users  A.users  4 partitions  1 record to copy, size unknown",
            "  logs   A.logs   1 partition   no backlog",
            "",
            "internal topics to be created",
            "  mm2-offset-syncs.B.internal  on A  1 partition, 3 replicas",
            "",
            "consumer groups whose offsets are translated",
            "  7 groups: g0, g1, g2, g3, g4 and 2 more",
            "  not translated: 1 group  no committed offset in a topic of this flow: idle",
            "",
            "topics of A that are not replicated",
            "  2 topics  topics.exclude has 'x.*' (the default): x1, x2",
            "",
            "Nothing was changed.",
        ]

    def test_for_scripts_every_name_is_there(self, plan: FlowPlan) -> None:
        (flow,) = json.loads(as_json([plan]))["flows"]
        assert flow["flow"] == "A->B"
        assert (flow["records"], flow["bytes_about"]) == (1201, None)
        assert flow["created"][0]["configs"] == {"retention.ms": "5"}
        assert [(each["remote"], each["grows"]) for each in flow["there"]] == [("A.users", True), ("A.logs", False)]
        assert len(flow["groups"]) == 7
        assert len(flow["missing_rights"][0]["resources"]) == 7
        assert flow["missing_rights"][0]["remedy"].endswith(" --topic t6")
        assert flow["left_out"] == [{"reason": "topics.exclude has 'x.*' (the default)", "names": ["x1", "x2"]}]
        assert flow["problems"] == ["something is odd"]


@pytest.mark.parametrize(
    ("wait", "text"),
    [
        (Backlog(0, 0), "no backlog"),
        (Backlog(0, 0, blocked=5), "5 offsets blocked by open transactions"),
        (Backlog(1, 9, blocked=1), "1 record to copy, about 9 B; 1 offset blocked by open transactions"),
    ],
)
def test_what_waits_behind_an_open_transaction_is_not_nothing(read_flow: ReadFlow, wait: Backlog, text: str) -> None:
    plan = FlowPlan(flow=read_flow(), known=(KnownTopic("users", "A.users", 1, 1, wait),))
    assert view.as_text([plan]).splitlines()[0] == f"A->B: replicates 1 topic, 1 partition; {text}"
    assert json.loads(as_json([plan]))["flows"][0]["blocked"] == wait.blocked


def test_a_flow_that_replicates_nothing(read_flow: ReadFlow) -> None:
    flow = read_flow("A->B.enabled = false", "A->B.emit.heartbeats.enabled = true")
    assert view.as_text([FlowPlan(flow=flow)]).startswith("A->B: replicates nothing, emits heartbeats\n")


def test_progress_shows_the_step() -> None:
    out = io.StringIO()
    seen = threading.Event()
    with Progress("twinlog plan", out, delay=0.001, interval=0.001) as progress:
        progress.step("topics of us")
        for _ in range(2000):
            if "twinlog plan: topics of us (" in out.getvalue():
                seen.set()
                break
            time.sleep(0.005)
    assert seen.is_set(), out.getvalue()


def test_short_work_shows_no_progress() -> None:
    out = io.StringIO()
    with Progress("twinlog plan", out, delay=600) as progress:
        progress.step("topics of us")
    assert not out.getvalue()


def test_a_cluster_is_down(tmp_path: Path) -> None:
    for form in ([], ["--json"]):
        run = call("plan", write(tmp_path, us=NOBODY, eu=NOBODY), *form)
        assert (run.returncode, run.stdout) == (1, "")
        assert run.stderr == (
            "twinlog: cluster us cannot be reached: 127.0.0.1:1: Connection refused; "
            "check us.bootstrap.servers and that the brokers are running\n"
        )


def test_a_wrong_call(tmp_path: Path) -> None:
    file = write(tmp_path, us=NOBODY, eu=NOBODY)
    for arguments, said in (
        (["plan"], "Missing argument"),
        (["plan", "nowhere.properties"], "no such file or directory"),
        (["plan", file, "--flow", "a->b"], "--flow a->b: no such flow"),
    ):
        run = call(*arguments)
        assert run.returncode == 2
        assert said in run.stderr
