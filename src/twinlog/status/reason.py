"""Reasons for the health of a flow or a topic: a code, partitions and arguments, rendered as text late."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from twinlog.model import TopicPartition
from twinlog.text import amount, counted

Level = Literal["healthy", "lagging", "broken"]

LEVELS: Final[tuple[Level, ...]] = ("healthy", "lagging", "broken")
SHOWN: Final = 3  # partitions reported one by one; the others are counted
_NUMBERS_SHOWN: Final = 5
_QUOTAS: Final = {
    "source": "consumer_byte_rate or request_percentage", "target": "producer_byte_rate or request_percentage",
}  # fmt: skip
FLOW_STATES: Final = {
    "starting": "The flow is starting: nothing is copied before its tasks run.",
    "retrying": "The flow has failed and is being restarted.",
    "paused": "The flow is paused: nothing is copied until it is resumed.",
    "stopped": "The flow is stopped: nothing is copied until it is started.",
    "finished": "The flow has finished: everything it was started for (--once) is copied.",
    "silent": "The flow does not report: its process has ended, or cannot reach the target cluster.",
}
PARTITION_STATES: Final = {
    "recovering": "determining the position to resume from; nothing is copied until it is known",
    "waiting": "waiting for a task",
    "stopped": "stopped, not copied",
}


class ReasonCode(StrEnum):
    # Of a whole flow
    OBSERVATION_FAILED = "observation-failed"
    NOT_RUNNING = "not-running"
    SILENT = "silent"
    STOPPED = "stopped"
    RETRYING = "retrying"
    PAUSED = "paused"
    STARTING = "starting"
    SLOW_START = "slow-start"
    TASKS_SILENT = "tasks-silent"
    NO_TASK_REPORT = "no-task-report"
    NO_TOPICS = "no-topics"
    HEARTBEAT_OLD = "heartbeat-old"
    INSTANCE_CONFLICT = "instance-conflict"
    # Of partitions, as part of a flow's health
    PARTITION_STOPPED = "partition-stopped"
    MORE_STOPPED = "more-stopped"
    PARTITIONS_FAILING = "partitions-failing"
    OPEN_TRANSACTION = "open-transaction"
    MORE_OPEN_TRANSACTIONS = "more-open-transactions"
    BEHIND = "behind"
    THROTTLED = "throttled"
    LOST = "lost"
    SKIPPED = "skipped"
    FOREIGN = "foreign"
    DUPLICATES = "duplicates"
    # Of one topic
    FLOW_STATE = "flow-state"
    TOPIC_ERROR = "topic-error"
    TOPIC_OPEN_TRANSACTION = "topic-open-transaction"
    TOPIC_MORE_OPEN_TRANSACTIONS = "topic-more-open-transactions"
    TOPIC_BRIEF_TRANSACTION = "topic-brief-transaction"
    TOPIC_THROTTLED = "topic-throttled"
    TOPIC_STATE = "topic-state"
    TOPIC_BACKLOG = "topic-backlog"
    TOPIC_SKEW = "topic-skew"
    TOPIC_REBUILD = "topic-rebuild"


@dataclass(frozen=True, slots=True)
class Reason:
    """`partitions` is empty where the whole flow is concerned. `str()` gives the text for people."""

    code: ReasonCode
    level: Level
    partitions: tuple[TopicPartition, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        text = _TEXTS[self.code]
        return text if isinstance(text, str) else text(self)


def span(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`, `2.1 days`."""
    seconds = max(seconds, 0.0)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.1f} days"


def throttled_text(side: str, cluster: str) -> str:
    return f"throttled by a quota on the {side} ({cluster})"


def records_wait(lag: int) -> str:
    return f"{counted(lag, 'record')} wait{'s' if lag == 1 else ''}"


# A flow


def _silent(reason: Reason) -> str:
    args = reason.args
    return (
        f"no report since {_ago(args['reported_ms'], args['now'])}: the process has ended, or cannot reach "
        f"{args['target'] or 'the target'}{_error(args, '; last error: ')}"
    )


def _stopped(reason: Reason) -> str:
    args = reason.args
    return f"stopped {_ago(args['reported_ms'], args['now'])}{_error(args)}; start it with twinlog run"


def _slow_start(reason: Reason) -> str:
    return f"its tasks have not started {span(reason.args['seconds'])} after the flow{_error(reason.args)}"


def _error(args: Mapping[str, Any], separator: str = ": ") -> str:
    return f"{separator}{args['error']}" if args["error"] else ""


def _ago(milliseconds: int, now: float) -> str:
    text = f"{span(now - milliseconds / 1000)} ago"
    if not 0 <= milliseconds / 1000 <= now:  # the reporting clock is ahead, or the record is forged
        return text
    return f"{text} ({time.strftime('%H:%M:%S', time.localtime(milliseconds / 1000))})"


def _heartbeat_old(reason: Reason) -> str:
    age, target = span(reason.args["seconds"]), reason.args["target"]
    return f"the newest heartbeat is {age} old: check that {target} accepts writes"


def _since_start(text: str) -> Callable[[Reason], str]:
    return lambda reason: f"{text.format(reason.args['count'])} since this run started"


# Partitions of a flow


def _partitions_failing(reason: Reason) -> str:
    subject, error, seconds = _subject(reason.partitions), reason.args["error"], reason.args["seconds"]
    if seconds is None:
        return f"{subject}: {error}"
    have = "has" if len(reason.partitions) == 1 else "have"
    return f"{subject} {have} been failing for {span(seconds)}: {error}"


def _open_transaction(reason: Reason) -> str:
    args, (tp,) = reason.args, reason.partitions
    return (
        f"{tp} is blocked by an open transaction at offset {args['offset']} on {args['source']}: "
        f"{counted(args['lag'], 'record')} behind, {_how_long(args['seconds'])}; let its producer end it, or abort it: "
        f"kafka-transactions.sh --bootstrap-server ... abort --topic {tp.topic} --partition {tp.partition} "
        f"--start-offset {args['offset']}"
    )


def _behind(reason: Reason) -> str:
    args, count = reason.args, len(reason.partitions)
    text = (
        f"{_subject(reason.partitions)} {'is' if count == 1 else 'are'} behind by {args['lag']:,} records, "
        f"{_how_long(args['seconds'])}"
    )
    if count > 1:
        text += f", worst {args['worst']}"
    return text + _outlook(args)


def _outlook(args: Mapping[str, Any]) -> str:
    """Why it is behind, as far as known, and for how long."""
    rate = args["rate"]
    if rate is None:
        return ""
    if args["throttled"]:  # more tasks would only share the same quota
        return f": copying {rate:,.0f} records/s, {throttled_text(*args['throttled'])}"
    if rate <= 0:
        return ": nothing is being copied"
    if args["growing"]:
        return f": copying {rate:,.0f} records/s, but more arrive; give it more tasks (tasks.max) or cores"
    return f": copying {rate:,.0f} records/s, about {span(args['lag'] / rate)} left"


def _throttled(reason: Reason) -> str:
    side, cluster = reason.args["side"], reason.args["cluster"]
    return f"{throttled_text(side, cluster)}: {_some(reason.partitions)}; {_raise_quota(side)}"


def _raise_quota(side: str) -> str:
    return f"raise {_QUOTAS[side]} there for the client ids or the user of this flow"


def _subject(partitions: Sequence[TopicPartition]) -> str:
    return str(partitions[0]) if len(partitions) == 1 else f"{len(partitions):,} partitions"


def _some(partitions: Iterable[TopicPartition]) -> str:
    names = sorted(map(str, partitions))
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else "")


def _how_long(seconds: float | None) -> str:
    return "for an unknown time" if seconds is None else span(seconds)


# Partitions of a topic


def _topic_error(reason: Reason) -> str:
    numbers = _numbers(reason)
    stopped = f" {_be(numbers)} stopped" if reason.args["stopped"] else ""
    return f"{_which(numbers)}{stopped}: {reason.args['error']}"


def _topic_open_transaction(reason: Reason) -> str:
    args, (tp,) = reason.args, reason.partitions
    options = f"--topic {tp.topic} --partition {tp.partition}"
    return (
        f"Partition {tp.partition} is blocked at offset {args['offset']} by an open transaction on {args['source']}: "
        f"{records_wait(args['lag'])} behind it. Let its producer end it, or find and abort it: "
        f"kafka-transactions.sh --bootstrap-server ... find-hanging {options}, then "
        f"kafka-transactions.sh --bootstrap-server ... abort {options} --start-offset {args['offset']}"
    )


def _topic_more_open_transactions(reason: Reason) -> str:
    numbers = _numbers(reason)
    which = "open transactions" if len(numbers) > 1 else "an open transaction"
    return f"{_which(numbers)} {_be(numbers)} also blocked by {which} on {reason.args['source']}."


def _topic_brief_transaction(reason: Reason) -> str:
    return (
        f"{_which(_numbers(reason))}: a transaction has been open on {reason.args['source']} for a few seconds, which "
        f"is normal; {records_wait(reason.args['lag'])} for its end."
    )


def _topic_throttled(reason: Reason) -> str:
    side, cluster = reason.args["side"], reason.args["cluster"]
    return f"{_which(_numbers(reason))}: {throttled_text(side, cluster)}; {_raise_quota(side)}."


def _topic_backlog(reason: Reason) -> str:
    lag, rate = reason.args["lag"], reason.args["rate"]
    if rate >= 1:
        text = f"{records_wait(lag)}; {amount(round(rate))} are copied each second: about {span(lag / rate)} left."
    elif rate > 0:
        text = f"{records_wait(lag)}; less than one is copied each second."
    elif reason.args["running"]:
        text = f"{records_wait(lag)}; none were copied in the last few seconds although tasks run."
    else:
        text = f"{records_wait(lag)}."
    return f"Apart from that: {text}" if reason.args["others_blocked"] else text


def _topic_skew(reason: Reason) -> str:
    return f"Partition {reason.partitions[0].partition} alone has {reason.args['percent']} % of the lag."


def _topic_rebuild(reason: Reason) -> str:
    return f"{_which(_numbers(reason))}: in the rebuild lane, where each record is re-encoded, which is slower."


def _numbers(reason: Reason) -> list[int]:
    return sorted(tp.partition for tp in reason.partitions)


def _be(numbers: Sequence[int]) -> str:
    return "are" if len(numbers) > 1 else "is"


def _which(numbers: Sequence[int]) -> str:
    """`Partition 3`, `Partitions 1, 2, 3`, `Partitions 1, 2, 3, 4, 5 and 20 more`."""
    shown = ", ".join(map(str, numbers[:_NUMBERS_SHOWN]))
    more = f" and {amount(len(numbers) - _NUMBERS_SHOWN)} more" if len(numbers) > _NUMBERS_SHOWN else ""
    return f"Partition{'s' if len(numbers) > 1 else ''} {shown}{more}"


_TEXTS: Final[Mapping[ReasonCode, str | Callable[[Reason], str]]] = {
    ReasonCode.OBSERVATION_FAILED: lambda reason: str(reason.args["error"]),
    ReasonCode.NOT_RUNNING: "not running (no report in the last hour): start it with twinlog run",
    ReasonCode.SILENT: _silent,
    ReasonCode.STOPPED: _stopped,
    ReasonCode.RETRYING: lambda reason: f"failing, retrying{_error(reason.args)}",
    ReasonCode.PAUSED: "paused: resume its connector to continue",
    ReasonCode.STARTING: "starting",
    ReasonCode.SLOW_START: _slow_start,
    ReasonCode.TASKS_SILENT: lambda reason: (
        f"no task has reported for {span(reason.args['seconds'])}: check that Spark has enough cores for the tasks"
    ),
    ReasonCode.NO_TASK_REPORT: lambda reason: (
        f"no task has reported in {span(reason.args['seconds'])}: check that a topic is selected and that Spark has "
        "enough cores"
    ),
    ReasonCode.NO_TOPICS: "nothing to copy: no topic of the source is selected (see twinlog why)",
    ReasonCode.HEARTBEAT_OLD: _heartbeat_old,
    ReasonCode.INSTANCE_CONFLICT: lambda reason: str(reason.args["event"]),
    ReasonCode.PARTITION_STOPPED: lambda reason: f"{reason.partitions[0]} is stopped: {reason.args['error']}",
    ReasonCode.MORE_STOPPED: lambda reason: f"{len(reason.partitions):,} more partitions are stopped",
    ReasonCode.PARTITIONS_FAILING: _partitions_failing,
    ReasonCode.OPEN_TRANSACTION: _open_transaction,
    ReasonCode.MORE_OPEN_TRANSACTIONS: lambda reason: (
        f"{len(reason.partitions):,} more partitions are blocked by open transactions"
    ),
    ReasonCode.BEHIND: _behind,
    ReasonCode.THROTTLED: _throttled,
    ReasonCode.LOST: _since_start("{:,} records were deleted from the source before they were copied"),
    ReasonCode.SKIPPED: _since_start("{:,} records were refused by the target and skipped"),
    ReasonCode.FOREIGN: _since_start("{:,} records in remote topics were written by another producer"),
    ReasonCode.DUPLICATES: _since_start("up to {:,} duplicates possible on the target"),
    ReasonCode.FLOW_STATE: lambda reason: (
        FLOW_STATES[reason.args["state"]] + (f" Its error: {reason.args['error']}" if reason.args["error"] else "")
    ),
    ReasonCode.TOPIC_ERROR: _topic_error,
    ReasonCode.TOPIC_OPEN_TRANSACTION: _topic_open_transaction,
    ReasonCode.TOPIC_MORE_OPEN_TRANSACTIONS: _topic_more_open_transactions,
    ReasonCode.TOPIC_BRIEF_TRANSACTION: _topic_brief_transaction,
    ReasonCode.TOPIC_THROTTLED: _topic_throttled,
    ReasonCode.TOPIC_STATE: lambda reason: f"{_which(_numbers(reason))}: {PARTITION_STATES[reason.args['state']]}.",
    ReasonCode.TOPIC_BACKLOG: _topic_backlog,
    ReasonCode.TOPIC_SKEW: _topic_skew,
    ReasonCode.TOPIC_REBUILD: _topic_rebuild,
}
