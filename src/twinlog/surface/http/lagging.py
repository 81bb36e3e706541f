"""Why a topic lags, in words, from what its partitions and its flow report. Pure."""

from collections.abc import Iterable, Sequence

from twinlog.status.flow import FlowStatus
from twinlog.status.health import MAX_LAG_SECONDS, Level, span
from twinlog.status.partition import PartitionStatus
from twinlog.status.topic import TopicStatus
from twinlog.surface.numbers import amount, counted

_FLOW_WORDS = {
    "starting": "The flow is starting: nothing is copied before its tasks run.",
    "retrying": "The flow has failed and is being started again.",
    "paused": "The flow is paused: nothing is copied until it is resumed.",
    "stopped": "The flow is stopped: nothing is copied until it is started.",
    "finished": "The flow has finished: it was asked to copy up to a certain point.",
    "silent": "The flow reports nothing: its process has ended, or cannot reach the target cluster.",
}
_STATE_WORDS = {
    "recovering": "where to go on is being searched for, and nothing is copied until that is found",
    "waiting": "waiting for a task to take up the work",
    "stopped": "stopped, and not copied",
}


def level(topic: TopicStatus) -> Level:
    """Of one topic, by the measure that flows are held to."""
    if topic.error or topic.state == "stopped":
        return "broken"
    late = topic.lag_seconds is None or topic.lag_seconds > MAX_LAG_SECONDS
    return "lagging" if late or topic.state == "recovering" else "healthy"


def reasons(flow: FlowStatus, partitions: Sequence[PartitionStatus]) -> list[str]:
    """The most telling first. Empty: nothing lags, and nothing is wrong."""
    found: list[str] = []
    if flow.state in _FLOW_WORDS:
        found.append(_FLOW_WORDS[flow.state] + (f" It said: {flow.error}" if flow.error else ""))
    errors: dict[str, list[int]] = {}
    for each in partitions:
        if each.error:
            errors.setdefault(each.error, []).append(each.partition)
    found += [f"{_which(which)}: {error}" for error, which in sorted(errors.items(), key=lambda item: -len(item[1]))]
    silent = [each for each in partitions if not each.error]
    for state, words in _STATE_WORDS.items():
        if which := [each.partition for each in silent if each.state == state]:
            found.append(f"{_which(which)}: {words}.")
    return found + _pace(partitions)


def _pace(partitions: Sequence[PartitionStatus]) -> list[str]:
    lag = sum(each.lag for each in partitions)
    if not lag:
        return []
    found = []
    rate = sum(each.records_per_s for each in partitions)
    waiting = f"{counted(lag, 'record')} wait{'s' if lag == 1 else ''}"
    if rate >= 1:
        found.append(
            f"{waiting}; {amount(round(rate))} are copied each second, so this is about {span(lag / rate)} of work."
        )
    elif any(each.state == "running" for each in partitions):
        found.append(f"{waiting}, and none were copied in the last seconds although tasks run.")
    else:
        found.append(f"{waiting}.")
    worst = max(partitions, key=lambda each: each.lag)
    if len(partitions) > 2 and worst.lag * 2 > lag:
        found.append(f"Partition {worst.partition} alone has {100 * worst.lag // lag} % of the lag.")
    rebuilt = [each.partition for each in partitions if each.lane == "rebuild" and each.lag]
    if rebuilt:
        which = _which(rebuilt)
        found.append(f"{which}: in the rebuild lane, where each record is read and written anew, which costs more.")
    return found


def _which(numbers: Iterable[int]) -> str:
    """`Partition 3`, `Partitions 1, 2, 3`, `Partitions 1, 2, 3, 4, 5 and 20 more`."""
    ordered = sorted(numbers)
    shown = ", ".join(map(str, ordered[:5]))
    more = f" and {amount(len(ordered) - 5)} more" if len(ordered) > 5 else ""
    return f"Partition{'s' if len(ordered) > 1 else ''} {shown}{more}"
