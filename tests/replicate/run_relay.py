"""Runs a task in a process that can be killed: `python run_relay.py mm2.properties`."""

import sys
import time
import uuid

from twinlog.config import load
from twinlog.errors import KafkaError
from twinlog.replicate.relay import Relay
from twinlog.replicate.task_spec import TaskSpec
from twinlog.spark.planner import Planner


def main(file: str) -> None:
    config = next(flow for flow in load([file]).flows if flow.replicates)
    planner = Planner(config, uuid.uuid4().hex)
    while True:
        try:
            planner.prepare()
            plan = planner.plan(1, once=False)
            break
        except KafkaError as error:  # as in the product: retried until the cluster is reachable
            print(error, flush=True)  # noqa: T201
            time.sleep(0.2)
    assignments = tuple(assignment for group in plan.groups for assignment in group)
    job = TaskSpec(
        config.flow, config, assignments, plan.producers, planner.run,
        journal_offset=plan.journal_offset, offsets_partitions=plan.offsets_partitions,
            own_offsets_partitions=plan.own_offsets_partitions,
    )  # fmt: skip
    print("relaying", flush=True)  # noqa: T201
    Relay(job).run()


main(sys.argv[1])
