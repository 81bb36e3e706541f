"""Why a topic lags, in words, from what its partitions and its flow report. Pure."""

import time
from collections.abc import Iterable, Sequence
from typing import Final

from twinlog.status.flow import FlowStatus
from twinlog.status.health import LASTS, MAX_LAG_SECONDS, Level, span
from twinlog.status.partition import PartitionStatus
from twinlog.status.topic import TopicStatus
from twinlog.surface.numbers import amount, counted

_SHOWN: Final = 3  # open transactions that are told of one by one
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


def level(each: TopicStatus | PartitionStatus) -> Level:
    """Of one topic or partition, by the measure that flows are held to."""
    if each.error or each.state == "stopped":
        return "broken"
    seconds = each.lag_seconds
    late = seconds is None or seconds > MAX_LAG_SECONDS
    return "lagging" if late or each.state == "recovering" else "healthy"


def waits(partitions: Iterable[PartitionStatus], now: float) -> str:
    """In short, for a row of a topic: which of its partitions stand at open transactions. Mostly empty."""
    found = [each for each in partitions if _held(each, now)]
    if not found:
        return ""
    if len(found) > 1:
        return f"{amount(len(found))} partitions wait for open transactions"
    return f"partition {found[0].partition} {partition_waits(found[0], now)}"


def partition_waits(each: PartitionStatus, now: float) -> str:
    return f"waits for an open transaction at offset {each.stable}" if _held(each, now) else ""


def reasons(flow: FlowStatus, partitions: Sequence[PartitionStatus]) -> list[str]:
    """The most telling first. Empty: nothing lags, and nothing is wrong."""
    now = time.time()
    found: list[str] = []
    if flow.state in _FLOW_WORDS:
        found.append(_FLOW_WORDS[flow.state] + (f" It said: {flow.error}" if flow.error else ""))
    found += _errors(partitions)
    found += _transactions(flow.source, partitions, now)
    silent = [each for each in partitions if not each.error]
    for state, words in _STATE_WORDS.items():
        if which := [each.partition for each in silent if each.state == state]:
            found.append(f"{_which(which)}: {words}.")
    # What is stopped or waits has been told of: its records are not a matter of speed.
    going = [each for each in partitions if each.state != "stopped" and not _waits(each)]
    if len(going) == len(partitions):
        return found + _pace(going)
    late = [each for each in going if level(each) != "healthy"]
    return found + [f"Apart from that: {words}" for words in _pace(late)[:1]]


def _errors(partitions: Sequence[PartitionStatus]) -> list[str]:
    """Those of stopped partitions first: they do not heal by themselves."""
    errors: dict[tuple[bool, str], list[int]] = {}
    for each in partitions:
        if each.error:
            errors.setdefault((each.state == "stopped", each.error), []).append(each.partition)
    ordered = sorted(errors.items(), key=lambda item: (not item[0][0], -len(item[1])))
    return [
        f"{_which(which)}{f' {_be(which)} stopped' if stopped else ''}: {error}" for (stopped, error), which in ordered
    ]


def _transactions(source: str, partitions: Sequence[PartitionStatus], now: float) -> list[str]:
    """Nothing behind an open transaction may be copied before it ends, and only its producer or somebody there can."""
    held = sorted((each for each in partitions if _held(each, now)), key=lambda each: -each.lag)
    found = []
    for each in held[:_SHOWN]:
        place = f"--topic {each.topic} --partition {each.partition}"
        found.append(
            f"Partition {each.partition} waits at offset {each.stable} for a transaction that is open on {source}: "
            f"{_waiting(each.lag)} behind it. Let its producer end it, or find and abort it there: "
            f"kafka-transactions.sh --bootstrap-server ... find-hanging {place}, then "
            f"kafka-transactions.sh --bootstrap-server ... abort {place} --start-offset {each.stable}"
        )
    if more := [each.partition for each in held[_SHOWN:]]:
        wait = "wait for transactions" if len(more) > 1 else "waits for a transaction"
        found.append(f"{_which(more)}: {wait} that {_be(more)} open on {source}, too.")
    if brief := [each for each in partitions if _waits(each) and not _held(each, now)]:
        found.append(
            f"{_which(each.partition for each in brief)}: a producer's transaction is open on {source}, as is usual "
            f"for a moment; {_waiting(sum(each.lag for each in brief))} for its end."
        )
    return found


def _waits(each: PartitionStatus) -> bool:
    """An error is the better reason: it is told instead."""
    return bool(each.waits) and not each.error and each.state != "stopped"


def _held(each: PartitionStatus, now: float) -> bool:
    """For longer than a producer at work mostly takes: every transaction is open for a moment."""
    if not _waits(each):
        return False
    seconds = each.lag_seconds_at(now)
    return seconds is None or seconds > LASTS


def _pace(partitions: Sequence[PartitionStatus]) -> list[str]:
    late = [each for each in partitions if each.lag]
    if not late:
        return []
    found = []
    lag = sum(each.lag for each in late)
    rate = sum(each.records_per_s for each in late)  # what others copy does not help these
    if rate >= 1:
        found.append(
            f"{_waiting(lag)}; {amount(round(rate))} are copied each second, so this is about {span(lag / rate)} "
            "of work."
        )
    elif rate > 0:
        found.append(f"{_waiting(lag)}; less than one is copied each second.")
    elif any(each.state == "running" for each in late):
        found.append(f"{_waiting(lag)}, and none were copied in the last seconds although tasks run.")
    else:
        found.append(f"{_waiting(lag)}.")
    worst = max(late, key=lambda each: each.lag)
    if len(partitions) > 2 and worst.lag * 2 > lag:
        found.append(f"Partition {worst.partition} alone has {100 * worst.lag // lag} % of the lag.")
    if rebuilt := [each.partition for each in late if each.lane == "rebuild"]:
        which = _which(rebuilt)
        found.append(f"{which}: in the rebuild lane, where each record is read and written anew, which costs more.")
    return found


def _waiting(lag: int) -> str:
    return f"{counted(lag, 'record')} wait{'s' if lag == 1 else ''}"


def _be(numbers: Sequence[int]) -> str:
    return "are" if len(numbers) > 1 else "is"


def _which(numbers: Iterable[int]) -> str:
    """`Partition 3`, `Partitions 1, 2, 3`, `Partitions 1, 2, 3, 4, 5 and 20 more`."""
    ordered = sorted(numbers)
    shown = ", ".join(map(str, ordered[:5]))
    more = f" and {amount(len(ordered) - 5)} more" if len(ordered) > 5 else ""
    return f"Partition{'s' if len(ordered) > 1 else ''} {shown}{more}"
