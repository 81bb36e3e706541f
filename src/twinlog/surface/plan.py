"""`twinlog plan`: what the flows would do to their clusters, as text and as JSON. What is wrong comes first."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from twinlog.config import Config, FlowConfig
from twinlog.surface.numbers import amount, counted, size
from twinlog.surface.progress import Progress
from twinlog.surface.tables import some, table
from twinlog.topology.plan import FlowPlan, make, without_loops
from twinlog.topology.rights import Missing, spelled
from twinlog.topology.selection import Side
from twinlog.topology.sight import Wait
from twinlog.upkeep.look import look

_NAMES = 5  # of many alike


def plan(config: Config, flows: Iterable[FlowConfig]) -> list[FlowPlan]:
    """Looks at the clusters of these flows of the configuration."""
    plans: list[FlowPlan] = []
    ids: dict[str, str] = {}
    with Progress("twinlog plan") as progress:
        for flow in flows:
            sight = look(flow, progress.step)
            plans.append(make(flow, sight))
            ids |= {cluster.alias: cluster.id for cluster in (sight.source, sight.target) if cluster.id}
    return [without_loops(each, config.flows, ids) for each in plans]


# For scripts


def as_json(plans: Iterable[FlowPlan]) -> str:
    return json.dumps({"flows": [_flow_json(each) for each in plans]}, indent=2, ensure_ascii=False)


def _flow_json(plan: FlowPlan) -> dict[str, Any]:
    flow = plan.flow
    return {
        "flow": str(flow),
        "source": flow.flow.source,
        "target": flow.flow.target,
        "replicates": flow.replicates,
        **_wait_json(plan.wait),
        "created": [
            {
                "topic": each.topic,
                "remote": each.remote,
                "partitions": each.partitions,
                "replication_factor": each.replication_factor,
                "configs": dict(each.configs),
                **_wait_json(each.wait),
            }
            for each in plan.created
        ],
        "there": [
            {
                "topic": each.topic,
                "remote": each.remote,
                "partitions": each.partitions,
                "remote_partitions": each.there,
                "grows": each.grows,
                **_wait_json(each.wait),
            }
            for each in plan.known
        ],
        "configs": [asdict(each) for each in plan.configs],
        "acls": [asdict(each) for each in plan.granted],
        "beside_the_records": [
            {
                "cluster": _alias(flow, each.side),
                "topic": each.name,
                "partitions": each.partitions,
                "replication_factor": each.replication_factor,
            }
            for each in plan.own
        ],
        "groups": plan.groups,
        "groups_left_out": _reasons_json(plan.groups_left_out),
        "left_out": _reasons_json(plan.left_out),
        "missing_rights": [
            {
                "cluster": _alias(flow, each.side),
                "operations": [spelled(operation) for operation in each.operations],
                "resources": [asdict(resource) for resource in each.resources],
                "purposes": each.purposes,
                "remedy": each.remedy(_bootstrap(flow, each.side)),
            }
            for each in plan.missing
        ],
        "problems": plan.problems,
    }


def _wait_json(wait: Wait) -> dict[str, int | None]:
    return {"records": wait.records, "bytes_about": wait.size}


def _reasons_json(reasons: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    return [{"reason": reason, "names": names} for reason, names in reasons.items()]


# For people


def as_text(plans: Iterable[FlowPlan]) -> str:
    return "\n\n".join([*map(_flow_text, plans), "Nothing was changed."])


def _flow_text(plan: FlowPlan) -> str:
    flow, target = plan.flow, plan.flow.flow.target
    title = f"{flow}: {_headline(plan)}"
    parts = [title + "\n" + "=" * len(title)]
    sections: dict[str, list[str]] = {
        "to be looked at": [f"  {text}" for text in plan.problems],
        "permissions that are missing": [line for each in plan.missing for line in _missing_lines(flow, each)],
        f"topics that would be created on {target}": _created_lines(plan),
        f"topics that would get more partitions on {target}": table(
            (each.remote, f"{each.there} -> {each.partitions}") for each in plan.known if each.grows
        ),
        f"topic configs that would change on {target}": table(
            (each.remote, each.name, f"{_config(each.now)} -> {_config(each.then)}") for each in plan.configs
        ),
        f"ACLs that would be granted on {target}": table(
            (each.permission, each.principal, each.operation, each.name, f"from {each.host}") for each in plan.granted
        ),
        f"topics that are on {target} already": table(
            (each.topic, each.remote, counted(each.partitions, "partition"), _wait(each.wait)) for each in plan.known
        ),
        "topics beside the records that would be created": table(
            (each.name, f"on {_alias(flow, each.side)}", _many(each.partitions, each.replication_factor))
            for each in plan.own
        ),
        "consumer groups whose offsets would be translated": _group_lines(plan),
        f"topics of {flow.flow.source} that are left out": _reasons(plan.left_out, "topic"),
    }
    parts += [_section(name, lines) for name, lines in sections.items() if lines]
    return "\n\n".join(parts)


def _headline(plan: FlowPlan) -> str:
    flow = plan.flow
    beats = "emits heartbeats" if flow.emits_heartbeats else "emits no heartbeats"
    if not flow.replicates:
        return f"replicates nothing, {beats}"
    partitions = sum(each.partitions for each in plan.created) + sum(each.partitions for each in plan.known)
    return f"replicates {counted(len(plan.topics), 'topic')}, {counted(partitions, 'partition')}; {_wait(plan.wait)}"


def _section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([title, *lines])


def _created_lines(plan: FlowPlan) -> list[str]:
    return table(
        (
            each.topic,
            each.remote,
            _many(each.partitions, each.replication_factor),
            _wait(each.wait),
            " ".join(f"{key}={value}" for key, value in sorted(each.configs.items())),
        )
        for each in plan.created
    )


def _group_lines(plan: FlowPlan) -> list[str]:
    lines = [f"  {counted(len(plan.groups), 'group')}: {some(plan.groups, _NAMES)}"] if plan.groups else []
    return lines + [f"  not translated: {line.strip()}" for line in _reasons(plan.groups_left_out, "group")]


def _reasons(reasons: Mapping[str, Sequence[str]], thing: str) -> list[str]:
    return table((counted(len(names), thing), f"{reason}: {some(names, _NAMES)}") for reason, names in reasons.items())


def _missing_lines(flow: FlowConfig, lack: Missing) -> list[str]:
    operations = ", ".join(spelled(operation) for operation in lack.operations)
    what = some([each.name for each in lack.resources], _NAMES) if lack.resources[0].name else ""
    kind = lack.resources[0].kind
    on = f"{kind} {what}" if what else f"the {kind} itself"
    lines = [f"  {_alias(flow, lack.side)}: {operations} on {on} ({', '.join(lack.purposes)})"]
    rest = " ... (all of them with --json)" if len(lack.resources) > _NAMES else ""
    return [*lines, f"    {lack.remedy(_bootstrap(flow, lack.side), _NAMES)}{rest}"]


def _wait(wait: Wait) -> str:
    if not wait.records:
        return "nothing waits"
    about = f"about {size(wait.size)}" if wait.size is not None else "of unknown size"
    return f"{counted(wait.records, 'record')} wait{'s' if wait.records == 1 else ''}, {about}"


def _many(partitions: int, factor: int) -> str:
    parts = "the broker's number of partitions" if partitions < 0 else counted(partitions, "partition")
    replicas = "the broker's number of replicas" if factor < 0 else f"{amount(factor)} replica{'s' * (factor != 1)}"
    return f"{parts}, {replicas}"


def _config(value: str | None) -> str:
    return "not set" if value is None else value or '""'


def _alias(flow: FlowConfig, side: Side) -> str:
    return flow.flow.source if side == "source" else flow.flow.target


def _bootstrap(flow: FlowConfig, side: Side) -> str:
    for connector in flow.connectors.values():
        if (value := connector.clients[f"{side}.admin"].values.get("bootstrap.servers")) is not None:
            return str(value.shown)
    return "..."
