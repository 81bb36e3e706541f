"""A plan as JSON: for `twinlog plan --json` and the web UI."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from twinlog.inspect.permissions import spelled
from twinlog.inspect.plan import FlowPlan, alias_of, bootstrap_of
from twinlog.inspect.snapshot import Backlog


def as_json(plans: Iterable[FlowPlan]) -> str:
    return json.dumps({"flows": [_flow_json(each) for each in plans]}, indent=2, ensure_ascii=False)


def _flow_json(plan: FlowPlan) -> dict[str, Any]:
    flow = plan.flow
    return {
        "flow": str(flow),
        "source": flow.flow.source,
        "target": flow.flow.target,
        "replicates": flow.replicates,
        **_backlog_json(plan.backlog),
        "created": [
            {
                "topic": each.topic,
                "remote": each.remote,
                "partitions": each.partitions,
                "replication_factor": each.replication_factor,
                "configs": dict(each.configs),
                **_backlog_json(each.backlog),
            }
            for each in plan.created
        ],
        "there": [
            {
                "topic": each.topic,
                "remote": each.remote,
                "partitions": each.partitions,
                "remote_partitions": each.remote_partitions,
                "grows": each.grows,
                **_backlog_json(each.backlog),
            }
            for each in plan.known
        ],
        "configs": [asdict(each) for each in plan.configs],
        "acls": [asdict(each) for each in plan.granted],
        "beside_the_records": [
            {
                "cluster": alias_of(flow, each.side),
                "topic": each.name,
                "partitions": each.partitions,
                "replication_factor": each.replication_factor,
            }
            for each in plan.internal_topics
        ],
        "groups": plan.groups,
        "group_offsets": [asdict(each) for each in plan.group_offsets],
        "groups_left_out": _reasons_json(plan.groups_left_out),
        "left_out": _reasons_json(plan.left_out),
        "missing_rights": [
            {
                "cluster": alias_of(flow, each.side),
                "operations": [spelled(operation) for operation in each.operations],
                "resources": [asdict(resource) for resource in each.resources],
                "purposes": each.purposes,
                "remedy": each.remedy(bootstrap_of(flow, each.side)),
            }
            for each in plan.missing
        ],
        "problems": plan.problems,
    }


def _backlog_json(backlog: Backlog) -> dict[str, int | None]:
    return {"records": backlog.records, "bytes_about": backlog.size, "blocked": backlog.blocked}


def _reasons_json(reasons: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    return [{"reason": reason, "names": names} for reason, names in reasons.items()]
