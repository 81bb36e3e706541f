"""`twinlog plan`: what the flows would do to their clusters, as text; problems come first."""

from collections.abc import Iterable, Mapping, Sequence

from twinlog.cli.progress import Progress
from twinlog.config import Config, FlowConfig
from twinlog.inspect.clusters import plan_flows
from twinlog.inspect.permissions import Missing, spelled
from twinlog.inspect.plan import FlowPlan, alias_of, bootstrap_of
from twinlog.inspect.snapshot import Backlog
from twinlog.text import amount, counted, size, some, table

_NAMES = 5  # shown of a list


def plan(config: Config, flows: Iterable[FlowConfig]) -> list[FlowPlan]:
    """Inspects the clusters of these flows of the configuration."""
    with Progress("twinlog plan") as progress:
        return plan_flows(flows, config.flows, progress.step)


def as_text(plans: Iterable[FlowPlan]) -> str:
    return "\n\n".join([*map(_flow_text, plans), "Nothing was changed."])


def _flow_text(plan: FlowPlan) -> str:
    flow, target = plan.flow, plan.flow.flow.target
    title = f"{flow}: {_headline(plan)}"
    parts = [title + "\n" + "=" * len(title)]
    sections: dict[str, list[str]] = {
        "problems": [f"  {text}" for text in plan.problems],
        "missing permissions": [line for each in plan.missing for line in _missing_lines(flow, each)],
        f"topics to be created on {target}": _created_lines(plan),
        f"topics to get more partitions on {target}": table(
            (each.remote, f"{each.remote_partitions} -> {each.partitions}") for each in plan.known if each.grows
        ),
        f"topic configs to be changed on {target}": table(
            (each.remote, each.name, f"{_config(each.now)} -> {_config(each.then)}") for each in plan.configs
        ),
        f"ACLs to be granted on {target}": table(
            (each.permission, each.principal, each.operation, each.name, f"from {each.host}") for each in plan.granted
        ),
        f"topics that exist on {target}": table(
            (each.topic, each.remote, counted(each.partitions, "partition"), _backlog(each.backlog))
            for each in plan.known
        ),
        "internal topics to be created": table(
            (each.name, f"on {alias_of(flow, each.side)}", _many(each.partitions, each.replication_factor))
            for each in plan.internal_topics
        ),
        "consumer groups whose offsets are translated": _group_lines(plan),
        f"group offsets to be committed on {target}": table(
            (each.group, f"{each.topic}-{each.partition}", f"{'none' if each.now is None else each.now} -> {each.then}")
            for each in plan.group_offsets
        ),
        f"topics of {flow.flow.source} that are not replicated": _reasons(plan.left_out, "topic"),
    }
    parts += [_section(name, lines) for name, lines in sections.items() if lines]
    return "\n\n".join(parts)


def _headline(plan: FlowPlan) -> str:
    flow = plan.flow
    heartbeats = "emits heartbeats" if flow.emits_heartbeats else "emits no heartbeats"
    if not flow.replicates:
        return f"replicates nothing, {heartbeats}"
    partitions = sum(each.partitions for each in plan.created) + sum(each.partitions for each in plan.known)
    return (
        f"replicates {counted(len(plan.topics), 'topic')}, {counted(partitions, 'partition')}; {_backlog(plan.backlog)}"
    )


def _section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([title, *lines])


def _created_lines(plan: FlowPlan) -> list[str]:
    return table(
        (
            each.topic,
            each.remote,
            _many(each.partitions, each.replication_factor),
            _backlog(each.backlog),
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
    on = f"{kind} {what}" if what else f"the {kind}"
    lines = [f"  {alias_of(flow, lack.side)}: {operations} on {on} ({', '.join(lack.purposes)})"]
    rest = " ... (--json lists all)" if len(lack.resources) > _NAMES else ""
    return [*lines, f"    {lack.remedy(bootstrap_of(flow, lack.side), _NAMES)}{rest}"]


def _backlog(backlog: Backlog) -> str:
    # Offsets, not records: transaction markers are included.
    blocked = f"{counted(backlog.blocked, 'offset')} blocked by open transactions" if backlog.blocked else ""
    if not backlog.records:
        return blocked or "no backlog"
    about = f"about {size(backlog.size)}" if backlog.size is not None else "size unknown"
    text = f"{counted(backlog.records, 'record')} to copy, {about}"
    return f"{text}; {blocked}" if blocked else text


def _many(partitions: int, factor: int) -> str:
    parts = "the broker's default number of partitions" if partitions < 0 else counted(partitions, "partition")
    replicas = (
        "the broker's default number of replicas" if factor < 0 else f"{amount(factor)} replica{'s' * (factor != 1)}"
    )
    return f"{parts}, {replicas}"


def _config(value: str | None) -> str:
    return "not set" if value is None else value or '""'
