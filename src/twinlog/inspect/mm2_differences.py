"""The differences from MirrorMaker 2, and which of them apply to a flow. Pure.

The table is used by `twinlog compare` and docs/coming-from-mm2.md (`python -m twinlog.inspect.mm2_differences` prints
the rows of the latter). MM2 is that of Kafka 4.3 unless a row has another version.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from twinlog.config.clients import CLIENT_KEYS
from twinlog.config.flows import FlowConfig
from twinlog.config.layers import letter
from twinlog.config.setting import rows
from twinlog.inspect.permissions import spelled
from twinlog.inspect.plan import FlowPlan
from twinlog.mm2.selection import TopicSelection, selection_of

_EXCLUDED_BY_3X: Final = (".internal", "-internal")  # endings, in `topics.exclude`; 4.0 has mm2.*\.internal (KIP-1074)
_SHOWN: Final = 5

Applies = Callable[[FlowPlan], str | None]  # None: not to this flow; otherwise details, or an empty string


@dataclass(frozen=True, slots=True)
class Difference:
    id: str
    subject: str
    mm2: str
    twinlog: str
    as_mm2: str  # the setting that restores MM2's behaviour; empty: there is none
    applies: Applies

    @property
    def row(self) -> str:
        """A table row of docs/coming-from-mm2.md."""
        return f"| {self.subject} | {self.mm2} | {self.twinlog} | {self.as_mm2 or '-'} |"


@dataclass(frozen=True, slots=True)
class Applied:
    difference: Difference
    detail: str


def applied(plan: FlowPlan) -> list[Applied]:
    found = ((each, each.applies(plan)) for each in DIFFERENCES)
    return [Applied(each, detail) for each, detail in found if detail is not None]


# When a difference applies


def _copies(plan: FlowPlan) -> str | None:
    return "" if plan.flow.replicates else None


def _translates(plan: FlowPlan) -> str | None:
    return "" if plan.flow.emits_checkpoints else None


def _copies_unless_set(role: str, key: str) -> Applies:
    """`role`: of a client; empty: a setting of the source connector."""

    def applies(plan: FlowPlan) -> str | None:
        source = plan.flow.source
        if source is None or not plan.flow.replicates:
            return None
        return None if key in (source.clients[role].values if role else source.values) else f"{key} is not set"

    return applies


def _zero_intervals(plan: FlowPlan) -> str | None:
    keys = {
        key
        for connector in plan.flow.connectors.values()
        for key, value in connector.values.items()
        if key.endswith(".interval.seconds") and value.text.strip() == "0"
    }
    return ", ".join(sorted(keys)) or None


def _syncs(plan: FlowPlan) -> str | None:
    source = plan.flow.source
    if source is None or not plan.flow.replicates or not source.settings.emit_offset_syncs_enabled:
        return None
    return "offset.lag.max has no effect" if "offset.lag.max" in source.values else ""


def _deleted_remote(plan: FlowPlan) -> str | None:
    source = plan.flow.source
    refills = source is not None and source.settings.twinlog_deleted_remote_topics == "refill"
    return "" if plan.flow.replicates and refills else None


def _looks_internal(plan: FlowPlan) -> str | None:
    source = plan.flow.source
    if source is None or "topics.exclude" in source.values:
        return None
    return _named([name for name in plan.topics if name.endswith(_EXCLUDED_BY_3X)], "topic")


def _left_out(plan: FlowPlan, rule: Callable[[TopicSelection, str], bool]) -> str | None:
    if not plan.flow.replicates:
        return None
    selection = selection_of(plan.flow)
    return _named([name for names in plan.left_out.values() for name in names if rule(selection, name)], "topic")


def _control(plan: FlowPlan) -> str | None:
    def is_control(selection: TopicSelection, name: str) -> bool:
        internal = selection.policy.is_internal_topic(name) or selection.cycle_through(name) is not None
        return (
            not internal
            and selection.filter.accepts(name)
            and bool(selection.control.holds(selection.remote_name(name)))
        )

    return _left_out(plan, is_control)


def _cycles(plan: FlowPlan) -> str | None:
    """Selected, but left out by the plan: another flow would copy it back under the same name."""
    return _left_out(plan, lambda selection, name: selection.selects(name) and selection.remote_name(name) == name)


def _own_alias(plan: FlowPlan) -> str | None:
    if not plan.flow.replicates:
        return None
    selection = selection_of(plan.flow)
    named = [name for name in plan.topics if selection.policy.topic_source(name) == selection.source]
    return _named([name for name in named if selection.remote_name(name) != name], "topic")


def _without_effect(plan: FlowPlan) -> str | None:
    return ", ".join(sorted(set(_set_without_effect(plan.flow)))) or None


def _set_without_effect(flow: FlowConfig) -> Iterator[str]:
    holders: list[Any] = [*flow.connectors.values(), flow.worker]
    for holder in holders:
        settings = holder.settings
        idle = {row.key.name for row in rows(type(settings)) if row.key.no_effect}
        yield from (value.origin.key or key for key, value in holder.values.items() if key in idle and _given(value))
    for connector in flow.connectors.values():
        for role, client in connector.clients.items():
            keys = CLIENT_KEYS[letter(role)]
            for key, value in client.values.items():
                if key in keys and keys[key].no_effect and _given(value):
                    yield value.origin.key or key


def _given(value: Any) -> bool:
    return bool(value.origin.kind == "file")


def _exactly_once(plan: FlowPlan) -> str | None:
    enabled = plan.flow.worker.settings.exactly_once_source_support.lower() == "enabled"
    return "" if enabled and plan.flow.replicates else None


def _rights(plan: FlowPlan) -> str | None:
    """Only those that MM2 does not need, too."""
    lacking = []
    for each in plan.missing:
        names = [one.name for one in each.resources if one.kind == "topic"]
        own = [name for name in names if name.startswith("mm2-twinlog.")]
        read = names if each.side == "target" and "READ" in each.operations else []
        if shown := list(dict.fromkeys([*own, *read])):
            operations = each.operations if own else ("READ",)
            lacking.append(f"{', '.join(map(spelled, operations))} on {_named(shown, 'topic')}")
    return "; ".join(lacking) or None


def _named(names: list[str], thing: str) -> str | None:
    if not names:
        return None
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{thing}{'s' * (len(names) > 1)} {', '.join(names[:_SHOWN])}{more}"


def _several_processes(plan: FlowPlan) -> str | None:
    return "" if plan.flow.replicates or plan.flow.emits_checkpoints else None


DIFFERENCES: Final = (
    Difference(
        "rights",
        "permissions on the target",
        "Create and Write on remote topics",
        "also Read on remote topics (to find the position to resume from), and Create, Write and Read on "
        "`mm2-twinlog.<source>.internal`; "
        "`twinlog doctor` prints the `kafka-acls` commands",
        "",
        _rights,
    ),
    Difference(
        "internal-topics",
        "internal topics on the target",
        "config, offset and status topics, checkpoints, heartbeats",
        "the same, and `mm2-twinlog.<source>.internal` (reports, some MB); its own positions are records in "
        "`mm2-offsets.<source>.internal`, which MM2 ignores",
        "",
        _copies,
    ),
    Difference(
        "looks-internal",
        "topics that end with `.internal` or `-internal`, without `topics.exclude` in the file",
        "not copied up to 3.9; from 4.0 on copied unless they start with `mm2`",
        "as 4.3: copied",
        r"`topics.exclude = .*[\-\.]internal, .*\.replica, __.*` is the rule of 3.x",
        _looks_internal,
    ),
    Difference(
        "deleted-remote-topic",
        "a remote topic that is deleted and re-created",
        "gets new records only, without a warning; checkpoints stay ahead of it, so that consumers "
        "that fail over skip records",
        "gets all records again; event `target lost`; checkpoints are replaced",
        "`twinlog.deleted.remote.topics = continue`",
        _deleted_remote,
    ),
    Difference(
        "aborted",
        "records of aborted transactions",
        "copied",
        "not copied",
        "`<source>.consumer.isolation.level = read_uncommitted`",
        _copies_unless_set("source.consumer", "isolation.level"),
    ),
    Difference(
        "compression",
        "compression",
        "decompressed, and recompressed with the producer's `compression.type` (default: none)",
        "unchanged",
        "`<target>.producer.compression.type`",
        _copies_unless_set("data.producer", "compression.type"),
    ),
    Difference(
        "refresh",
        "new topics and partitions",
        "every 600 s",
        "every 30 s",
        "`refresh.topics.interval.seconds = 600`",
        _copies_unless_set("", "refresh.topics.interval.seconds"),
    ),
    Difference(
        "zero-intervals",
        "intervals of 0",
        "continuous (heartbeats, checkpoints), or the connector fails (all others)",
        "continuous, with a pause of 0.1 s (1 s where a cluster's topics or groups are listed)",
        "",
        _zero_intervals,
    ),
    Difference(
        "tasks",
        "`tasks.max`",
        "1",
        "the number of cores, at most 4; with many flows fewer: about two per core for all of them",
        "`tasks.max = 1`",
        _copies_unless_set("", "tasks.max"),
    ),
    Difference(
        "offset-syncs",
        "offset syncs",
        "every `offset.lag.max` (100) records",
        "one per second and active partition, and whenever the offset difference changes; "
        "`offset.lag.max` has no effect",
        "",
        _syncs,
    ),
    Difference(
        "translation",
        "translated offsets",
        "the last sync before the offset, or the offset after it",
        "exact wherever records were copied without a gap; also back to the original cluster of a remote topic",
        "",
        _translates,
    ),
    Difference(
        "crash",
        "after a crash",
        "records since the last commit are duplicated",
        "no duplicates",
        "",
        _copies,
    ),
    Difference(
        "lost",
        "the source deletes records before they are copied",
        "continues after them, without a warning",
        "event and counter `lost`; `twinlog.lost.records = stop` stops the partition",
        "",
        _copies,
    ),
    Difference(
        "recreated",
        "a source topic that is deleted and re-created",
        "records skipped or mixed, without a warning",
        "detected by its topic id: the new topic's records follow; event; `twinlog.recreated.topics = stop` stops it",
        "",
        _copies,
    ),
    Difference(
        "refused-record",
        "a record that the target refuses",
        "the task fails, with all its partitions",
        "that partition stops with an error that names record and setting, or skips it (`errors.tolerance = all`)",
        "",
        _copies,
    ),
    Difference(
        "missing-right-or-leader",
        "a missing permission or leader",
        "a task fails, or waits without a message",
        "that partition is retried; its status has the error",
        "",
        _copies,
    ),
    Difference(
        "cycles",
        "replication cycles of flows with `IdentityReplicationPolicy`",
        "copied endlessly",
        "topics not copied, with a warning",
        "",
        _cycles,
    ),
    Difference(
        "own-alias",
        "a topic named after its own cluster (`us.orders` on `us`)",
        "up to 4.3 copied as `us.us.orders`, from 4.4 on not copied",
        "copied",
        "`twinlog.source.alias.topics = exclude` is the rule of 4.4",
        _own_alias,
    ),
    Difference(
        "control-topics",
        "a topic whose copy would be a control topic of the target (`connect-configs` with the identity policy)",
        "copied",
        "never copied; `twinlog why` shows the rule",
        "",
        _control,
    ),
    Difference(
        "no-effect",
        "settings of Kafka clients and Connect without an equivalent (`acks`, `linger.ms`, ...)",
        "in effect",
        "accepted, no effect; `twinlog config show` gives the reason",
        "",
        _without_effect,
    ),
    Difference(
        "exactly-once",
        "`exactly.once.source.support = enabled`",
        "transactions and fencing",
        "exactly once without transactions; waits for transactions that MM2 left open on the target",
        "",
        _exactly_once,
    ),
    Difference(
        "processes",
        "several processes for one flow",
        "share the work",
        "one process, whose work Spark distributes; a second `twinlog run` of a flow takes over from the first",
        "",
        _several_processes,
    ),
    Difference("lag", "lag", "no metric", "in records and seconds, per partition, topic and flow", "", _copies),
)

HEADER: Final = "| what | MM2 | Twinlog | as MM2 |\n|---|---|---|---|"


if __name__ == "__main__":
    print("\n".join([HEADER, *(each.row for each in DIFFERENCES)]))  # noqa: T201
