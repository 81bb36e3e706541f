"""Latency and CPU usage at a steady low rate, of an idle flow, and with many partitions."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.low_rate import LowRateLoad
from bench.replicators import Replicator, Route, Running, running
from lab.cluster import Cluster
from lab.errors import LabError
from lab.lab import Lab
from lab.progress import Progress
from lab.raw_protocol import RawProtocol
from lab.resource_usage import Meter

RATE = 200  # records per second
PARTITIONS = 6
PER_TOPIC = 10  # partitions per topic in the case `many`
_CREATED_TOGETHER = 100  # topics
START_SECONDS = 600.0  # until the first record of each partition has arrived


@dataclass(frozen=True, slots=True)
class Times:
    """Duration of each phase, in seconds; `warm_up` and `settle` are not measured."""

    warm_up: float
    latency: float
    settle: float
    idle: float


@dataclass(frozen=True, slots=True)
class Steady:
    replicator: str
    records: int
    missing: int  # produced, but not on the target in the end
    p50_ms: float
    p99_ms: float
    p999_ms: float
    most_ms: float
    cpu_percent: float | None  # of a core, at this rate
    idle_cpu_percent: float | None
    peak_pss_megabytes: float | None


@dataclass(frozen=True, slots=True)
class Many:
    replicator: str
    partitions: int
    records_per_second: float  # on the target
    missing: int
    p50_ms: float
    p99_ms: float
    cpu_percent: float | None
    idle_cpu_percent: float | None
    peak_pss_megabytes: float | None
    seconds_to_all_partitions: float  # from the start until each partition has received a record


def steady(lab: Lab, us: Cluster, eu: Cluster, replicator: Replicator, times: Times) -> Steady:
    topic, alias = "bench-steady", f"{replicator.key}-steady"
    _create_topics(us, [topic], PARTITIONS)
    route = Route(us.client_properties(), eu.client_properties())
    with running(lab, replicator, route, alias=alias, topics=topic) as program, Meter(program.pid) as meter:
        _wait_for_remote_topics(eu, [f"{alias}.{topic}"], PARTITIONS, program, replicator.name)
        with LowRateLoad(us, eu, [topic], PARTITIONS, RATE, f"{alias}.") as load:
            _wait_for_all_partitions(load, PARTITIONS, program, replicator.name)
            _wait(f"{replicator.name}: warming up", times.warm_up, program)
            since = time.monotonic_ns()
            meter.begin()
            _wait(f"{replicator.name}: latency at {RATE} records/s", times.latency, program)
            busy = _percent(meter)
            until = time.monotonic_ns()
            missing = load.stop()
            latencies = load.latencies(since, until)
        idle = _idle(replicator, times, program, meter)
        peak = meter.peak
    if not latencies:
        raise LabError(f"{replicator.name}: no record arrived{program.log_excerpt()}")
    return Steady(
        replicator.key,
        len(latencies),
        missing,
        percentile(latencies, 0.5),
        percentile(latencies, 0.99),
        percentile(latencies, 0.999),
        latencies[-1],
        busy,
        idle,
        peak / 1e6 if peak else None,
    )


def many(lab: Lab, us: Cluster, eu: Cluster, replicator: Replicator, partitions: int, times: Times) -> Many:
    """One record per partition every four seconds, so that all of them are active."""
    each = min(PER_TOPIC, partitions)
    topics = [f"bench-many-{partitions}-{number}" for number in range(partitions // each)]
    alias = f"{replicator.key}-many-{partitions}"
    count = each * len(topics)
    with Progress(f"creating {len(topics)} topics of {each} partitions"):
        _create_topics(us, topics, each)
    started = time.monotonic()
    pattern = f"bench-many-{partitions}-.*"
    route = Route(us.client_properties(), eu.client_properties())
    with running(lab, replicator, route, alias=alias, topics=pattern) as program, Meter(program.pid) as meter:
        _wait_for_remote_topics(eu, [f"{alias}.{topic}" for topic in topics], each, program, replicator.name)
        with LowRateLoad(us, eu, topics, each, count / 4, f"{alias}.") as load:
            _wait_for_all_partitions(load, count, program, replicator.name)
            to_all = time.monotonic() - started
            _wait(f"{replicator.name}: {count} partitions, warming up", times.warm_up, program)
            before, since = load.arrived, time.monotonic_ns()
            meter.begin()
            _wait(f"{replicator.name}: {count} partitions at {count / 4:.0f} records/s", times.idle, program)
            busy = _percent(meter)
            after, until = load.arrived, time.monotonic_ns()
            missing = load.stop()
            latencies = load.latencies(since, until)
        idle = _idle(replicator, times, program, meter)
        peak = meter.peak
    for cluster, names in ((us, topics), (eu, [f"{alias}.{topic}" for topic in topics])):
        with cluster.admin() as admin:
            admin.delete_topics(names)
    return Many(
        replicator.key,
        count,
        (after - before) / ((until - since) / 1e9),
        missing,
        percentile(latencies, 0.5) if latencies else 0.0,
        percentile(latencies, 0.99) if latencies else 0.0,
        busy,
        idle,
        peak / 1e6 if peak else None,
        to_all,
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Of sorted values, the one at this share."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def _idle(replicator: Replicator, times: Times, program: Running, meter: Meter) -> float | None:
    _wait(f"{replicator.name}: idle, settling", times.settle, program)
    meter.begin()
    _wait(f"{replicator.name}: idle", times.idle, program)
    return _percent(meter)


def _percent(meter: Meter) -> float | None:
    seconds, cpu = meter.spent()
    return None if cpu is None else 100 * cpu / seconds


def _wait(title: str, seconds: float, program: Running) -> None:
    began = time.monotonic()
    with Progress(title) as progress:
        while (elapsed := time.monotonic() - began) < seconds:
            progress.update(0, f"{elapsed:.0f} of {seconds:.0f} s")
            time.sleep(min(0.25, seconds - elapsed))
            program.check()


def _create_topics(us: Cluster, topics: Iterable[str], partitions: int) -> None:
    """Deletes existing topics of these names first, so that the replicator has no backlog."""
    names = list(topics)
    with us.admin() as admin:
        existing = set(admin.list_topics())
        if old := [topic for topic in names if topic in existing]:
            admin.delete_topics(old)
        for at in range(0, len(names), _CREATED_TOGETHER):
            spec = {"num_partitions": partitions, "replication_factor": 1, "configs": {}}
            admin.create_topics(dict.fromkeys(names[at : at + _CREATED_TOGETHER], spec))
    us.wait_for_topic(names[-1])


def _wait_for_remote_topics(eu: Cluster, remote: Sequence[str], partitions: int, program: Running, name: str) -> None:
    """Returns when the remote topics exist with all partitions."""
    started = time.monotonic()
    missing = list(remote)
    with RawProtocol(eu.client_properties()) as raw, Progress(f"{name}: starting") as progress:
        while missing:
            _check(program, started)
            missing = [topic for topic in missing if len(raw.partitions(topic)) < partitions]
            progress.update(0, f"{len(remote) - len(missing)} of {len(remote)} remote topics")


def _wait_for_all_partitions(load: LowRateLoad, partitions: int, program: Running, name: str) -> None:
    started = time.monotonic()
    with Progress(f"{name}: first record of each partition", partitions) as progress:
        while (active := load.active_partitions) < partitions:
            progress.update(active)
            _check(program, started)


def _check(program: Running, started: float) -> None:
    time.sleep(0.1)
    program.check()
    if time.monotonic() - started > START_SECONDS:
        raise LabError(f"replication has not started after {START_SECONDS:.0f} s{program.log_excerpt()}")
