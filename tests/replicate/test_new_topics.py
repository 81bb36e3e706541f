"""New topics are assigned to running tasks, without a new epoch."""

import time
from typing import Any

import pytest

from lab import batches
from lab.batches import Record
from lab.cluster import Cluster
from lab.raw_protocol import RawProtocol
from twinlog.journal.messages import COMMANDS, Command, journal_topic
from twinlog.kafka.topic_reader import TopicReader
from twinlog.replicate.task_spec import PartitionAssignment
from twinlog.spark.options import read_options
from twinlog.spark.planner import Planner
from twinlog.spark.reader import Discovery, EpochWatcher

pytestmark = pytest.mark.broker


def _write(cluster: Cluster, topic: str, partition: int = 0) -> None:
    with RawProtocol(cluster.client_properties()) as wire:
        wire.produce(
            topic, partition, batches.encode([Record(int(time.time() * 1000), b"k", b"%d" % n) for n in range(5)])
        )


def test_a_task_takes_partitions_while_it_runs(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(f"{topic}-old")
    flow = mirror(us, eu, f"{topic}-.*", heartbeats__replication__enabled="false")
    with flow.start() as running:
        running.until_running()
        us.create_topic(f"{topic}-new", 2)
        for partition in range(2):
            _write(us, f"{topic}-new", partition)
        planner = Planner(flow.config, "test")
        try:
            assignments = planner.with_positions(
                [assignment for assignment in planner.discover() if assignment.tp.topic == f"{topic}-new"]
            )
        finally:
            planner.close()
        running.relay.assign(assignments)
        running.relay.assign(assignments)  # a command may be read twice
        running.until(lambda: len(running.relay.partitions) == 3, "assigned")
        running.until(
            lambda: all(p.target.acked_position == p.source.high_watermark for p in running.relay.partitions[1:]),
            "copied",
        )
        flow.until_equal(f"{topic}-new")


def test_the_planner_assigns_new_partitions_and_ends_the_epoch_only_for_those_that_are_gone(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    for name in ("a", "b"):
        us.create_topic(f"{topic}-{name}")
    settings = {"refresh__topics__interval__seconds": "1", "heartbeats__replication__enabled": "false"}
    flow = mirror(us, eu, f"{topic}-.*", alias=f"new{topic[-1]}", **settings)
    options = read_options({"config": str(flow.file), "run": "watched", "tasks": "2"})
    planner = Planner(options.config, options.run, options.flows)
    planner.prepare()
    plan = planner.plan(2, once=False)
    assert len(plan.groups) == 2
    reader = TopicReader(planner.target, journal_topic(flow.alias), partitions=(COMMANDS,))

    def commands(verb: str) -> list[Command]:
        found.extend(filter(None, (Command.decode(record.value) for record in reader.read())))
        return [command for command in found if (command.run, command.verb) == ("watched", verb)]

    found: list[Command] = []
    watch = EpochWatcher(options, plan.groups, 1, Discovery(1.0, 1.0))
    try:
        us.create_topic(f"{topic}-c", 3)
        deadline = time.monotonic() + 60
        while sum(len(command.assigned) for command in commands("assign")) < 3 and time.monotonic() < deadline:
            time.sleep(0.2)
        assigned = [PartitionAssignment.decode(text).tp for command in commands("assign") for text in command.assigned]
        assert sorted(assigned) == [(f"{topic}-c", n) for n in range(3)]
        assert {command.task for command in commands("assign")} == {0, 1}
        assert not commands("end")
        with us.admin() as admin:
            admin.delete_topics([f"{topic}-a"])
        while not commands("end") and time.monotonic() < deadline:
            time.sleep(0.2)
        assert [command.epoch for command in commands("end")] == [1]
    finally:
        watch.close()
        planner.close()
