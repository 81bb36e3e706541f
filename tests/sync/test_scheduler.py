"""Periodic jobs: MM2's intervals, including 0 and negative ones."""

import threading
from collections.abc import Callable

import pytest
from py4j.protocol import Py4JJavaError

from lab.kafka_classes import KafkaJvm
from twinlog.config import FlowConfig, InvalidConfigError
from twinlog.sync.checkpoints import CheckpointSync
from twinlog.sync.configs_and_acls import ConfigAndAclSync
from twinlog.sync.flow_sync import FlowSync
from twinlog.sync.heartbeats import HeartbeatSync
from twinlog.sync.scheduler import ONCE, PeriodicJob, Scheduler, interval

ReadFlow = Callable[..., FlowConfig]
MIRROR = "org.apache.kafka.connect.mirror."


@pytest.mark.parametrize(
    ("seconds", "enabled", "every"),
    [(-1, True, None), (-7, True, None), (5, False, None), (0, True, 0.1), (5, True, 5.0)],
)
def test_intervals(seconds: int, enabled: bool, every: float | None) -> None:
    assert interval(seconds, enabled=enabled) == every


def _jobs(flow: FlowConfig) -> dict[str, float]:
    """The jobs with their intervals."""
    classes = {"topics": ConfigAndAclSync, "checkpoints": CheckpointSync, "heartbeats": HeartbeatSync}
    found: dict[str, float] = {}
    for subject in FlowSync(flow).subjects:
        sync = classes[subject](flow) if subject == "heartbeats" else classes[subject](flow, lambda *_: None)
        found |= {job.name: job.every for job in sync.jobs()}
        sync.close()
    return found


def test_all_intervals_by_default(read_flow: ReadFlow) -> None:
    flow = read_flow("sync.group.offsets.enabled = true")
    assert _jobs(flow) == {
        "topic ACLs": 600, "topic configs": 600, "consumer groups": 600, "checkpoints": 60, "group offsets": 60,
        "consumer group status": 10, "heartbeats": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("key", "gone"),
    [
        ("sync.topic.acls.interval.seconds", {"topic ACLs"}),
        ("sync.topic.configs.interval.seconds", {"topic configs"}),
        ("sync.group.offsets.interval.seconds", {"group offsets"}),
        ("emit.heartbeats.interval.seconds", {"heartbeats"}),
        # As MM2, which gives the checkpoint connector no task then.
        ("emit.checkpoints.interval.seconds", {"checkpoints", "group offsets", "consumer groups", "consumer group status"}),
    ],
)  # fmt: skip
def test_a_negative_interval_is_never(read_flow: ReadFlow, key: str, gone: set[str]) -> None:
    sync = "sync.group.offsets.enabled = true"
    assert set(_jobs(read_flow(sync))) - set(_jobs(read_flow(sync, f"{key} = -1"))) == gone


def test_groups_are_listed_once_without_refresh(read_flow: ReadFlow) -> None:
    assert _jobs(read_flow("refresh.groups.interval.seconds = -1"))["consumer groups"] == ONCE
    assert _jobs(read_flow("refresh.groups.enabled = false"))["consumer groups"] == ONCE


def test_zero_is_continuous_with_a_minimum_interval(read_flow: ReadFlow) -> None:
    keys = ("emit.heartbeats", "emit.checkpoints", "sync.group.offsets", "sync.topic.configs", "refresh.groups")
    found = _jobs(read_flow("sync.group.offsets.enabled = true", *(f"{key}.interval.seconds = 0" for key in keys)))
    assert [found[name] for name in ("heartbeats", "checkpoints", "group offsets")] == [0.1, 0.1, 0.1]
    assert [found[name] for name in ("topic configs", "consumer groups")] == [1.0, 1.0]


@pytest.mark.parametrize("key", ["refresh.topics.interval.seconds", "emit.heartbeats.interval.seconds"])
def test_an_interval_that_overflows_milliseconds_is_rejected(read_flow: ReadFlow, key: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"{key} = '9223372036854776': expected at most 9223372036854775"):
        read_flow(f"{key} = 9223372036854776")
    read_flow(f"{key} = 9223372036854775")


@pytest.mark.parametrize("value", ["0", "-1"])
def test_the_flush_interval_must_be_positive(read_flow: ReadFlow, value: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"B.offset.flush.interval.ms = '{value}': expected at least 1"):
        read_flow(f"B.offset.flush.interval.ms = {value}")


@pytest.mark.java
def test_mm2_does_not_schedule_negative_intervals_and_fails_beyond_the_longest(kafka_jvm: KafkaJvm) -> None:
    duration = kafka_jvm.jvm.java.time.Duration
    assert duration.ofSeconds(9223372036854775).toMillis() == 9223372036854775000
    with pytest.raises(Py4JJavaError):
        duration.ofSeconds(9223372036854776).toMillis()
    properties = {
        "name": "h", "connector.class": f"{MIRROR}MirrorHeartbeatConnector", "source.cluster.alias": "A",
        "source.cluster.bootstrap.servers": "a:1", "target.cluster.bootstrap.servers": "b:1",
    }  # fmt: skip
    mirror = kafka_jvm.jvm.org.apache.kafka.connect.mirror
    for seconds, tasks in (("-1", 0), ("0", 1), ("1", 1)):
        config = mirror.MirrorHeartbeatConfig(
            kafka_jvm.map({**properties, "emit.heartbeats.interval.seconds": seconds})
        )
        java = kafka_jvm._class(f"{MIRROR}MirrorHeartbeatConnector")
        (new,) = [each for each in java.getDeclaredConstructors() if len(each.getParameterTypes()) == 1]
        new.setAccessible(True)
        arguments = kafka_jvm._gateway.new_array(kafka_jvm.jvm.java.lang.Object, 1)
        arguments[0] = config
        assert len(new.newInstance(arguments).taskConfigs(1)) == tasks


def test_a_job_that_is_due_in_a_million_years() -> None:
    """The wait does not overflow, and can be stopped."""
    done = threading.Event()
    scheduler = Scheduler("test", [PeriodicJob("never", 1e18, done.set, first=1e18)], lambda *_: None, lambda: None)
    scheduler.start()
    assert not done.wait(0.2)
    scheduler.stop()
    assert not scheduler._thread.is_alive()
