"""`twinlog why`: whether a topic is replicated or a group followed, by which rule, from which file and line."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from twinlog.cli.progress import Progress
from twinlog.config import Config, FlowConfig
from twinlog.config.values import Origin
from twinlog.inspect.clusters import NameLookup, lookup
from twinlog.inspect.why import Answer, group_offsets, of_group, of_topic, upstream_of
from twinlog.sync.internal_topics import InternalTopic, internal_topics
from twinlog.text import counted, some


@dataclass(frozen=True, slots=True)
class Why:
    """What one flow does with a name."""

    flow: FlowConfig
    topic: Answer
    group: Answer
    offsets: Answer | None  # whether they are committed on the target; None if the group is not followed
    upstream: str | None  # the source's topic, if the name is that of a remote topic
    upstream_answer: Answer | None
    internal_topics: tuple[InternalTopic, ...]  # the flow's internal topics of this name
    found: NameLookup | None  # None: the clusters were not queried


def why(config: Config, name: str, *, look: bool = False) -> list[Why]:
    with Progress("twinlog why") as progress:
        return [_why(flow, name, lookup(flow, name, progress.step) if look else None) for flow in config.flows]


def _why(flow: FlowConfig, name: str, found: NameLookup | None) -> Why:
    group = of_group(flow, name)
    upstream = upstream_of(flow, name)
    return Why(
        flow,
        of_topic(flow, name),
        group,
        group_offsets(flow) if group.yes else None,
        upstream,
        of_topic(flow, upstream) if upstream is not None else None,
        tuple(each for each in internal_topics(flow) if each.name == name),
        found,
    )


# JSON


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
        "beside_the_records": [flow.source if each.side == "source" else flow.target for each in why.internal_topics],
    }
    if (seen := why.found) is not None:
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


# Text


def as_text(name: str, found: Sequence[Why]) -> str:
    return "\n".join(line for each in found for line in _lines(name, each))


def _lines(name: str, why: Why) -> list[str]:
    flow, seen = why.flow.flow, why.found
    disabled = why.topic.key == why.group.key == "enabled"  # the whole flow, whatever the name
    lines = [
        f"nothing of {flow.source} is replicated: {why.topic.detail}"
        if disabled
        else f"topic {name} of {flow.source} is {why.topic}"
    ]
    if why.upstream is not None and why.upstream_answer is not None:
        made = "is the copy" if why.upstream_answer.yes else "would be the copy"
        lines.append(
            f"topic {name} of {flow.target} {made} of topic {why.upstream} of {flow.source}, "
            f"which is {why.upstream_answer}"
        )
    for each in why.internal_topics:
        alias = flow.source if each.side == "source" else flow.target
        lines.append(f"topic {name} of {alias} is an internal topic of this flow")
    if not disabled:
        lines.append(f"group {name} of {flow.source} is {why.group}")
    if why.offsets is not None:
        lines.append(f"group {name}: {why.offsets}")
    if seen is not None:
        lines += _seen(name, flow.source, flow.target, seen)
    return [f"{why.flow}: {line}" for line in lines]


def _seen(name: str, source: str, target: str, seen: NameLookup) -> list[str]:
    def has(alias: str, topic: str, partitions: int | None) -> str:
        if partitions is None:
            return f"{alias} has no topic {topic} (or it may not be described)"
        return f"{alias} has topic {topic}, with {counted(partitions, 'partition')}"

    lines = [has(source, name, seen.topic)]
    if seen.remote_name not in ("", name):
        lines.append(has(target, seen.remote_name, seen.remote))
    lines.append(has(target, name, seen.on_target))
    if seen.group_state is None:
        return [*lines, f"{source} has no group {name} (or it may not be described)"]
    state = f" ({seen.group_state})" if seen.group_state else ""
    positions = f"in {some(seen.group_topics)}" if seen.group_topics else "in no topic of this flow"
    return [*lines, f"{source} has group {name}{state}, with committed offsets {positions}"]
