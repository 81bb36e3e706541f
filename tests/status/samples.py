"""Flows, topics and partitions in any number, made from task reports."""

import time
from typing import Any

from twinlog.journal.messages import Report, SupervisorReport
from twinlog.status.flow import FlowStatus
from twinlog.status.flow_board import FlowBoard
from twinlog.sync.group_status import GroupStatus

_SECONDS = 8  # of reports before now
_PAIRS = (("us", "eu"), ("eu", "us"), ("us", "ap"), ("ap", "eu"))


def made_report(
    run: str, second: float, topics: int, partitions: int, *, step: int, lag: int = 0, task: int = 0, epoch: int = 1,
    only: int | None = None,
) -> Report:  # fmt: skip
    """The `step`-th report: a record of 100 bytes per step in every partition, or in the first `only` of them."""
    content: dict[str, dict[str, Any]] = {}
    for topic in range(topics):
        for partition in range(partitions):
            if only is not None and len(content) >= only:
                break
            name = f"topic-{topic:05}"
            content[f"{name}-{partition}"] = {
                "topic": name,
                "partition": partition,
                "remote": f"us.{name}",
                "state": "running",
                "lane": "rebuild" if topic % 10 == 9 else "fast",
                "position": 1000 + step,
                "end": 1000 + step + lag,
                "start": 0,
                "target": 1000 + step,
                "records": step,
                "bytes": 100 * step,
                "batches": step,
                "rebuilt": step if topic % 10 == 9 else 0,
                "latency_ms": 4.0 + partition,
                "latency": [1, 4.0 + partition, 4.0 + partition, 4.0 + partition],
                "age": [1, 2.0, 2.0, 2.0],
                "age_ms": 2.0,
            }
    content[""] = {"latency_p50_ms": 4.0, "latency_p99_ms": 9.0}
    return Report(run, epoch, task, 0, int(second * 1000), content, [], host="worker-1:4711")


def made_flow(
    topics: int = 3, partitions: int = 2, *, source: str = "us", target: str = "eu", label: str = "", lag: int = 0,
    stopped: str = "", lost: int = 0,
) -> FlowStatus:  # fmt: skip
    """A flow that runs, with a few seconds behind it. `stopped`: the error of the first partition, which is stopped."""
    now = time.time()
    name = f"{source}->{target}" + (f" ({label})" if label else "")
    flow = FlowStatus(f"run-of-{name}", name, source, target)
    for step in range(_SECONDS + 1):
        flow.add(made_report(flow.run, now - _SECONDS + step, topics, partitions, step=step, lag=lag))
    first = {"topic": "topic-00000", "partition": 0, "remote": "us.topic-00000", "position": 1008, "end": 1008 + lag}
    counted = {"records": _SECONDS, "bytes": 100 * _SECONDS, "batches": _SECONDS, "target": 1008, "start": 0}
    if stopped or lost:
        event = {
            "time": int(now * 1000), "kind": "lost", "amount": lost, "partition": "topic-00000-0", "first": 10,
            "last": 9 + lost, "text": f"{lost} offsets of topic-00000-0 were gone from {source} before they were copied",
        }  # fmt: skip
        content = {**first, **counted, "state": "stopped" if stopped else "running", "error": stopped, "lost": lost}
        flow.add(Report(flow.run, 1, 0, 0, int(now * 1000), {"topic-00000-0": content}, [event] if lost else []))
    at = int(now * 1000)
    content = {"tasks": 1, "starts": 1, "heartbeat_ms": at - 500, "checkpoint_ms": at - 2000}
    flow.supervisor_report(SupervisorReport(name, flow.run, at - 60_000, at, "running", **content))  # type: ignore[arg-type]
    tp = (f"{source}.topic-00000", 0, "topic-00000")
    flow.set_groups(GroupStatus(f"app-{number}", *tp, 900, 1008, 900, at - 2000, 890, 1008, 3.5) for number in range(3))
    return flow


def made_board(flows: int = 1, topics: int = 3, partitions: int = 2, **manner: Any) -> FlowBoard:
    """Up to four flows, each with so many topics of so many partitions; 10,000 of them take a second or two."""
    return FlowBoard(
        made_flow(topics, partitions, source=source, target=target, **manner) for source, target in _PAIRS[:flows]
    )
