"""At a steady trickle: how late records arrive, what a flow costs that has nothing to do, and what partitions cost."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from twinlog.errors import LabError
from twinlog.lab.bench_contenders import Contender, Running, running
from twinlog.lab.bench_trickle import Trickle
from twinlog.lab.cluster import Cluster
from twinlog.lab.lab import Lab
from twinlog.lab.progress import Progress
from twinlog.lab.usage import Meter
from twinlog.lab.wire import Wire

RATE = 200  # records a second
PARTITIONS = 6
PER_TOPIC = 50  # partitions of a topic, where there are many
PATIENCE = 240.0  # until the first record of each partition has arrived


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of each part; what comes before `warm_up` has passed is not counted."""

    warm_up: float
    latency: float
    settle: float
    idle: float


@dataclass(frozen=True, slots=True)
class Steady:
    contender: str
    records: int
    missing: int  # sent, but not seen in the end
    p50_ms: float
    p99_ms: float
    p999_ms: float
    most_ms: float
    cpu_percent: float | None  # of a core, at this rate
    idle_cpu_percent: float | None
    peak_pss_megabytes: float | None


@dataclass(frozen=True, slots=True)
class Many:
    contender: str
    partitions: int
    records_per_second: float  # that arrived
    missing: int
    p50_ms: float
    p99_ms: float
    cpu_percent: float | None
    idle_cpu_percent: float | None
    peak_pss_megabytes: float | None
    seconds_to_all_partitions: float  # from the start until a record of each has arrived


def steady(lab: Lab, us: Cluster, eu: Cluster, contender: Contender, times: Times) -> Steady:
    topic, alias = "bench-steady", f"{contender.key}-steady"
    _fresh(us, [topic], PARTITIONS)
    with running(lab, contender, us, eu, alias=alias, topics=topic) as program, Meter(program.pid) as meter:
        _await(eu, [f"{alias}.{topic}"], PARTITIONS, program, contender.name)
        with Trickle(us, eu, [topic], PARTITIONS, RATE, f"{alias}.") as trickle:
            _first(trickle, PARTITIONS, program, contender.name)
            _pass(f"{contender.name}: warming up", times.warm_up, program)
            since = time.monotonic_ns()
            meter.begin()
            _pass(f"{contender.name}: latency at {RATE} records/s", times.latency, program)
            busy = _percent(meter)
            until = time.monotonic_ns()
            missing = trickle.hush()
            late = trickle.late(since, until)
        idle = _idle(contender, times, program, meter)
        peak = meter.peak
    if not late:
        raise LabError(f"{contender.name}: no record arrived{program.quote()}")
    return Steady(
        contender.key,
        len(late),
        missing,
        percentile(late, 0.5),
        percentile(late, 0.99),
        percentile(late, 0.999),
        late[-1],
        busy,
        idle,
        peak / 1e6 if peak else None,
    )


def many(lab: Lab, us: Cluster, eu: Cluster, contender: Contender, partitions: int, times: Times) -> Many:
    """A record every four seconds for each partition, so that all of them have something to do."""
    each = min(PER_TOPIC, partitions)
    topics = [f"bench-many-{partitions}-{number}" for number in range(partitions // each)]
    alias = f"{contender.key}-many-{partitions}"
    count = each * len(topics)
    with Progress(f"making {len(topics)} topics of {each} partitions"):
        _fresh(us, topics, each)
    started = time.monotonic()
    wanted = f"bench-many-{partitions}-.*"
    with running(lab, contender, us, eu, alias=alias, topics=wanted) as program, Meter(program.pid) as meter:
        _await(eu, [f"{alias}.{topic}" for topic in topics], each, program, contender.name)
        with Trickle(us, eu, topics, each, count / 4, f"{alias}.") as trickle:
            _first(trickle, count, program, contender.name)
            to_all = time.monotonic() - started
            _pass(f"{contender.name}: {count} partitions, warming up", times.warm_up, program)
            before, since = trickle.arrived, time.monotonic_ns()
            meter.begin()
            _pass(f"{contender.name}: {count} partitions at {count / 4:.0f} records/s", times.idle, program)
            busy = _percent(meter)
            after, until = trickle.arrived, time.monotonic_ns()
            missing = trickle.hush()
            late = trickle.late(since, until)
        idle = _idle(contender, times, program, meter)
        peak = meter.peak
    for cluster, names in ((us, topics), (eu, [f"{alias}.{topic}" for topic in topics])):
        with cluster.admin() as admin:
            admin.delete_topics(names)
    return Many(
        contender.key,
        count,
        (after - before) / ((until - since) / 1e9),
        missing,
        percentile(late, 0.5) if late else 0.0,
        percentile(late, 0.99) if late else 0.0,
        busy,
        idle,
        peak / 1e6 if peak else None,
        to_all,
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Of sorted values, the one that `share` of them do not pass."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def _idle(contender: Contender, times: Times, program: Running, meter: Meter) -> float | None:
    _pass(f"{contender.name}: nothing to do, settling", times.settle, program)
    meter.begin()
    _pass(f"{contender.name}: nothing to do", times.idle, program)
    return _percent(meter)


def _percent(meter: Meter) -> float | None:
    seconds, cpu = meter.spent()
    return None if cpu is None else 100 * cpu / seconds


def _pass(title: str, seconds: float, program: Running) -> None:
    began = time.monotonic()
    with Progress(title) as progress:
        while (elapsed := time.monotonic() - began) < seconds:
            progress.update(0, f"{elapsed:.0f} of {seconds:.0f} s")
            time.sleep(min(0.25, seconds - elapsed))
            program.check()


def _fresh(us: Cluster, topics: Iterable[str], partitions: int) -> None:
    """New and empty: nobody shall have to catch up first."""
    wanted = list(topics)
    with us.admin() as admin:
        there = set(admin.list_topics())
        if old := [topic for topic in wanted if topic in there]:
            admin.delete_topics(old)
    for topic in wanted:
        us.create_topic(topic, partitions=partitions)


def _await(eu: Cluster, remote: Sequence[str], partitions: int, program: Running, name: str) -> None:
    """Until the remote topics are there, whole."""
    started = time.monotonic()
    waiting = list(remote)
    with Wire(eu.client_properties()) as wire, Progress(f"{name}: starting") as progress:
        while waiting:
            _check(program, started)
            waiting = [topic for topic in waiting if len(wire.partitions(topic)) < partitions]
            progress.update(0, f"{len(remote) - len(waiting)} of {len(remote)} remote topics")


def _first(trickle: Trickle, partitions: int, program: Running, name: str) -> None:
    started = time.monotonic()
    with Progress(f"{name}: the first record of each partition", partitions) as progress:
        while (there := trickle.begun) < partitions:
            progress.update(there)
            _check(program, started)


def _check(program: Running, started: float) -> None:
    time.sleep(0.1)
    program.check()
    if time.monotonic() - started > PATIENCE:
        raise LabError(f"not under way after {PATIENCE:.0f} s{program.quote()}")
