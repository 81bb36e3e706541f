"""Batches for a slow broker of the target take limited memory, and leave enough for the others."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import NewTopic

from lab import batches
from lab.batches import Record
from lab.cluster import Cluster
from lab.proxy import Proxy
from lab.raw_protocol import RawProtocol
from lab.waiting import until
from twinlog.config import load
from twinlog.kafka.connection import Buffer, Pool
from twinlog.replicate.partition import OutboundBatch, PendingBytes
from twinlog.replicate.relay import Relay
from twinlog.replicate.task_spec import TaskSpec

_MIB = 1 << 20


class TestPendingBytes:
    def test_one_slow_broker_gets_half_and_two_get_a_third_each(self) -> None:
        pending = PendingBytes(60)
        while not pending.is_saturated(1):
            pending.add(1, 1)
        assert pending.total == 31
        pending = PendingBytes(60)
        while not (pending.is_saturated(1) and pending.is_saturated(2)):
            for node in (1, 2):
                if not pending.is_saturated(node):
                    pending.add(node, 1)
        assert 20 <= pending.total / 2 <= 22
        assert not pending.is_saturated(3)

    def test_a_broker_frees_up_at_half_of_its_limit(self) -> None:
        pending = PendingBytes(60)
        pending.add(1, 31)
        assert pending.is_saturated(1)
        pending.remove(1, 5)
        assert not pending.frees_up(1)
        assert pending.is_saturated(1), "until then"
        pending.remove(1, 10)
        assert pending.frees_up(1)
        assert not pending.is_saturated(1)

    def test_a_broker_without_pending_bytes_is_never_saturated(self) -> None:
        pending = PendingBytes(60)
        pending.add(1, 100)
        assert not pending.is_saturated(2)
        pending.add(2, 1)
        assert pending.is_saturated(2)
        pending.remove(2, 1)
        assert pending.frees_up(2)


def test_a_saturated_broker_is_freed_by_the_timers(tmp_path: Path) -> None:
    """As when a recovery discards its pending batches, so that no acknowledgement follows."""
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = us, eu\nus.bootstrap.servers = 127.0.0.1:1\neu.bootstrap.servers = 127.0.0.1:1\n"
        "us->eu.enabled = true\n"
    )
    config = next(flow for flow in load([file]).flows if flow.replicates)
    relay = Relay(TaskSpec(config.flow, config, (), (), epoch_seconds=0))
    relay.pending.add(1, relay.pending.limit)
    assert relay.pending.is_saturated(1)
    relay.pending.remove(1, relay.pending.limit)
    assert relay.run() == "time"
    assert not relay.pending.saturated


def test_a_pool_counts_the_bytes_in_use() -> None:
    pool = Pool(max_idle=_MIB)
    large, small = pool.take(300_000), pool.copy(memoryview(b"x" * 100))
    assert pool.in_use == 524_288 + 100
    large.hold()
    large.release()
    small.release()
    assert pool.in_use == 524_288
    large.release()
    assert pool.in_use == 0


def test_a_small_batch_releases_a_large_response() -> None:
    pool = Pool(max_idle=_MIB)
    response = pool.take(_MIB)
    response.view[:3] = b"abc"
    small, large = (OutboundBatch(response.view[:size], response, 0, 0, 1, 0, 0) for size in (3, _MIB // 2 + 1))
    response.hold()
    small.detach()
    assert (bytes(small.view), small.buffer) == (b"abc", None)
    large.detach()
    assert large.buffer is response, "it uses most of the buffer"
    large.release()
    assert pool.in_use == 0
    assert isinstance(response, Buffer)


@pytest.mark.broker
def test_a_broker_that_hangs_does_not_block_the_others(us: Cluster, trio: Cluster, mirror: Any, topic: str) -> None:
    """Each fetch response has a large batch for a working broker, and a small one for a broker that hangs."""
    with trio.admin() as admin:
        for name, node in (("hangs", 1), ("works", 2)):
            us.create_topic(f"{topic}-{name}", 8 if name == "hangs" else 1)
            placed = {each: [node] for each in range(8 if name == "hangs" else 1)}
            configs = {"min.insync.replicas": "1"}
            admin.create_topics([NewTopic(f"us.{topic}-{name}", -1, -1, placed, configs)])
    now = int(time.time() * 1000)
    small = batches.encode([Record(now, b"k", b"v" * 2000)], "lz4")
    large = batches.encode([Record(now, b"k", bytes([n % 256]) * 300_000) for n in range(3)])
    with Proxy(trio) as far, RawProtocol(us.client_properties()) as wire:
        flow = mirror(us, trio, f"{topic}-.*", trio__bootstrap__servers=far.bootstrap)
        with flow.start() as running:
            running.until_running()
            works = running[f"{topic}-works"]
            sizes = running.relay.spec.sizes
            far.links[1].stall()
            most = 0
            for turn in range(40):
                for partition in range(8):
                    wire.produce(f"{topic}-hangs", partition, small)
                wire.produce(f"{topic}-works", 0, large)
                running.until(lambda turn=turn: works.target.acked_position == 3 * (turn + 1), "the others continue")
                most = max(most, running.relay.fetcher.pool.in_use)
            assert most < sizes.max_retained + 32 * _MIB
            assert running.relay.pending.total < sizes.max_pending
            far.links[1].resume()
            until(
                lambda: all(p.target.acked_position == p.source.high_watermark for p in running.relay.partitions),
                "all records",
            )
        flow.until_equal(f"{topic}-hangs", f"{topic}-works")


@pytest.mark.broker
def test_pending_batches_are_copied_out_of_their_responses(us: Cluster, eu: Cluster, mirror: Any, topic: str) -> None:
    us.create_topic(topic)
    now = int(time.time() * 1000)
    with Proxy(eu) as far, RawProtocol(us.client_properties()) as wire:
        flow = mirror(us, eu, topic, eu__bootstrap__servers=far.bootstrap)
        with flow.start() as running:
            running.until_running()
            wire.produce(topic, 0, batches.encode([Record(now, b"k", b"first")]))
            running.until(lambda: running[topic].target.acked_position == 1, "known")
            running.relay.fetcher._sizes = replace(running.relay.fetcher._sizes, max_retained=200_000)
            far.stall()
            for number in range(60):
                wire.produce(topic, 0, batches.encode([Record(now, b"k", b"%d" % number * 900)], "lz4"))
                time.sleep(0.01)
            running.until(lambda: running[topic].source.position == 61, "fetched")
            assert running.relay.fetcher.pool.in_use < 400_000
            far.resume()
            running.until(lambda: running[topic].target.acked_position == 61, "copied")
        flow.until_equal(topic)
