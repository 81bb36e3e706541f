"""Refused records stop their own partition, or are skipped and counted, depending on errors.tolerance."""

import random
import time
from collections.abc import Sequence
from typing import Any

import pytest

from lab import batches
from lab.batches import Record
from lab.cluster import Cluster
from lab.compare_logs import read
from lab.raw_protocol import RawProtocol
from twinlog.replicate.partition import State

pytestmark = pytest.mark.broker

_OLD = {"message.timestamp.before.max.ms": "3600000"}
_SMALL = {"max.message.bytes": "100000"}


def _write(cluster: Cluster, topic: str, *made: Sequence[Record], codec: str = "none") -> None:
    with RawProtocol(cluster.client_properties()) as wire:
        for records in made:
            wire.produce(topic, 0, batches.encode(records, codec))


def _records(numbers: range, size: int = 10, age: int = 0) -> list[Record]:
    now = int(time.time() * 1000) - age
    return [Record(now, b"%d" % each, random.Random(each).randbytes(size)) for each in numbers]


def _keys(cluster: Cluster, topic: str) -> list[int]:
    return [int(record.key or b"-1") for record in read(cluster.client_properties(), topic)]


def test_a_batch_that_is_too_large_for_the_target_is_split(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    plain, packed = f"{topic}-plain", f"{topic}-packed"
    flow = mirror(us, eu, f"{topic}-.*")
    for name, codec in ((plain, "none"), (packed, "zstd")):
        us.create_topic(name)
        eu.create_topic(flow.remote(name), configs=_SMALL)
        _write(us, name, _records(range(5)), _records(range(5, 900), size=1000), _records(range(900, 910)), codec=codec)
    copied = flow.copy()
    flow.until_equal(plain, packed, seconds=0, codecs=True)
    assert not any(p.report.counters.skipped for p in copied.relay.partitions)


def test_a_refused_record_stops_its_partition_and_names_the_setting(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    large, old, keyless, good = (f"{topic}-{name}" for name in ("large", "old", "keyless", "good"))
    flow = mirror(us, eu, f"{topic}-.*")
    for name, configs in ((large, _SMALL), (old, _OLD), (keyless, {"cleanup.policy": "compact"}), (good, {})):
        us.create_topic(name, configs={"retention.ms": "-1"})
        eu.create_topic(flow.remote(name), configs={"retention.ms": "-1", **configs})
    _write(us, large, _records(range(5)), [*_records(range(5, 8)), *_records(range(8, 9), size=200_000)])
    _write(us, large, _records(range(9, 12)))
    ancient = _records(range(5, 7), age=1 << 40)
    _write(us, old, _records(range(5)), [*ancient, *_records(range(7, 10))], _records(range(10, 12)))
    _write(us, keyless, _records(range(5)), [*_records(range(5, 7)), Record(0, None, b"no key")])
    _write(us, good, _records(range(12)))

    with flow.start() as running:
        stopped = [running[name] for name in (large, old, keyless)]
        running.until(lambda: all(p.state is State.STOPPED for p in stopped), "stopped")
        flow.until_equal(good)
        for partition, offset in zip(stopped, (8, 5, 7), strict=True):
            assert f"offset {offset} of {partition.tp}" in partition.report.error
        assert f"max.message.bytes of topic {flow.remote(large)} on eu" in running[large].report.error
        assert "message.timestamp.before.max.ms" in running[old].report.error
        assert "cleanup.policy" in running[keyless].report.error
        assert all("errors.tolerance" in p.report.error for p in stopped)
        assert running[good].state is State.RUNNING
        assert running[good].report.counters.recoveries == 0
    # The records before the refused one were copied.
    assert _keys(eu, flow.remote(large)) == [*range(8)]

    tolerant = mirror(us, eu, f"{topic}-.*", errors__tolerance="all")
    with tolerant.start() as running:
        running.until(
            lambda: (
                running[large].target.acked_position == running[old].target.acked_position == 12
                and running[keyless].target.acked_position == 8
            ),
            "copied",
        )
        counts = [running[name].report.counters.skipped for name in (large, old, keyless, good)]
        assert counts == [1, 2, 1, 0]
    assert _keys(eu, flow.remote(large)) == [*range(8), *range(9, 12)]
    assert _keys(eu, flow.remote(old)) == [*range(5), *range(7, 12)]
    assert _keys(eu, flow.remote(keyless)) == [*range(7)]
    skipped = [event for event in flow.events(old) if event["kind"] == "skipped"]
    assert [event["amount"] for event in skipped] == [2]

    # Later records are copied.
    _write(us, large, _records(range(12, 14)))
    tolerant.copy()
    assert _keys(eu, flow.remote(large)) == [*range(8), *range(9, 14)]


def test_skipped_records_are_not_counted_as_copied_after_a_crash(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    """Recovery counts records, and must not count skipped ones."""
    flow = mirror(us, eu, topic, errors__tolerance="all")
    us.create_topic(topic, configs={"retention.ms": "-1"})
    eu.create_topic(flow.remote(topic), configs=_OLD)
    good: list[int] = []
    relay = flow.process().start()
    relay.wait_until_relaying()
    for number in range(60):
        records = _records(range(number * 5, number * 5 + 5))
        good += [number * 5 + each for each in range(5) if number % 4 or each != 2]
        if not number % 4:
            records[2] = records[2]._replace(timestamp=1)
        _write(us, topic, records)
        time.sleep(0.05)
        if number % 12 == 11:
            relay.kill()
            relay = flow.process().start()
            relay.wait_until_relaying()
    relay.kill()
    flow.copy()
    assert _keys(eu, flow.remote(topic)) == good
