"""`twinlog why`: whether a topic is replicated and a group followed, by which rule, from which line of which file."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from twinlog.config import Config, FlowConfig
from twinlog.config.values import Origin
from twinlog.surface.numbers import counted
from twinlog.surface.progress import Progress
from twinlog.surface.tables import some
from twinlog.topology.sight import OwnTopic
from twinlog.topology.why import Answer, group_offsets, of_group, of_topic, upstream_of
from twinlog.upkeep.look import Traces, own_topics, trace


@dataclass(frozen=True, slots=True)
class Why:
    """All that a flow says of a name."""

    flow: FlowConfig
    topic: Answer
    group: Answer
    offsets: Answer | None  # whether they are committed on the target; None where the group is not followed
    upstream: str | None  # the source's topic, where the name is that of a remote topic
    upstream_answer: Answer | None
    own: tuple[OwnTopic, ...]  # where it is one of the flow's topics beside the records
    traces: Traces | None  # None: the clusters were not looked at


def why(config: Config, name: str, *, look: bool = False) -> list[Why]:
    with Progress("twinlog why") as progress:
        return [_why(flow, name, trace(flow, name, progress.step) if look else None) for flow in config.flows]


def _why(flow: FlowConfig, name: str, traces: Traces | None) -> Why:
    group = of_group(flow, name)
    upstream = upstream_of(flow, name)
    return Why(
        flow,
        of_topic(flow, name),
        group,
        group_offsets(flow) if group.yes else None,
        upstream,
        of_topic(flow, upstream) if upstream is not None else None,
        tuple(own for own in own_topics(flow) if own.name == name),
        traces,
    )


# For scripts


def as_json(name: str, found: Sequence[Why]) -> str:
    return json.dumps({"name": name, "flows": [_json(each) for each in found]}, indent=2, ensure_ascii=False)


def _json(why: Why) -> dict[str, Any]:
    flow = why.flow.flow
    copy = None
    if why.upstream is not None and why.upstream_answer is not None:
        copy = {"topic": why.upstream, "cluster": flow.source, **_answer_json(why.upstream_answer, "replicated")}
    content = {
        "flow": str(why.flow),
        "source": flow.source,
        "target": flow.target,
        "topic": _answer_json(why.topic, "replicated"),
        "group": {
            **_answer_json(why.group, "followed"),
            "committed_on_target": _answer_json(why.offsets, "committed") if why.offsets else None,
        },
        "copy_of": copy,
        "beside_the_records": [flow.source if own.side == "source" else flow.target for own in why.own],
    }
    if (seen := why.traces) is not None:
        content["seen"] = {
            "topic_partitions": seen.topic,
            "remote": seen.remote_name,
            "remote_partitions": seen.remote,
            "on_target_partitions": seen.on_target,
            "group_state": seen.group_state,
            "group_topics": seen.group_topics,
        }
    return content


def _answer_json(answer: Answer, word: str) -> dict[str, Any]:
    content: dict[str, Any] = {word: answer.yes, "remote": answer.remote} if answer.remote else {word: answer.yes}
    content["reason"] = answer.reason
    if answer.key:
        content |= {"setting": answer.key, "from": _origin(answer.origin)}
    return content


def _origin(origin: Origin) -> dict[str, Any]:
    full = {"kind": origin.kind, "file": origin.file, "line": origin.line, "key": origin.key, "note": origin.note}
    return {name: part for name, part in full.items() if part}


# For people


def as_text(name: str, found: Sequence[Why]) -> str:
    return "\n".join(line for each in found for line in _lines(name, each))


def _lines(name: str, why: Why) -> list[str]:
    flow, seen = why.flow.flow, why.traces
    off = why.topic.key == why.group.key == "enabled"  # neither is about this name
    lines = [
        f"nothing of {flow.source} is {str(why.topic).removeprefix('not ')}"
        if off
        else f"topic {name} of {flow.source} is {why.topic}"
    ]
    if why.upstream is not None and why.upstream_answer is not None:
        made = "is the copy" if why.upstream_answer.yes else "would be the copy"
        lines.append(
            f"topic {name} of {flow.target} {made} of topic {why.upstream} of {flow.source}, "
            f"which is {why.upstream_answer}"
        )
    for own in why.own:
        alias = flow.source if own.side == "source" else flow.target
        lines.append(f"topic {name} of {alias} is one that this flow keeps beside the records")
    if not off:
        lines.append(f"group {name} of {flow.source} is {why.group}")
    if why.offsets is not None:
        lines.append(f"group {name}: {why.offsets}")
    if seen is not None:
        lines += _seen(name, flow.source, flow.target, seen)
    return [f"{why.flow}: {line}" for line in lines]


def _seen(name: str, source: str, target: str, seen: Traces) -> list[str]:
    def has(alias: str, topic: str, partitions: int | None) -> str:
        if partitions is None:
            return f"{alias} has no topic {topic} (that we may see)"
        return f"{alias} has topic {topic}, with {counted(partitions, 'partition')}"

    lines = [has(source, name, seen.topic)]
    if seen.remote_name not in ("", name):
        lines.append(has(target, seen.remote_name, seen.remote))
    lines.append(has(target, name, seen.on_target))
    if seen.group_state is None:
        return [*lines, f"{source} has no group {name} (that we may see)"]
    state = f" ({seen.group_state})" if seen.group_state else ""
    positions = f"in {some(seen.group_topics)}" if seen.group_topics else "in no topic of this flow"
    return [*lines, f"{source} has group {name}{state}, with a position {positions}"]
