"""A task in a process of its own, so that it can be killed: `python run_relay.py mm2.properties`."""

import sys
import time
import uuid

from twinlog.config import load
from twinlog.errors import KafkaError
from twinlog.pipeline.job import Job
from twinlog.pipeline.planner import Planner
from twinlog.pipeline.relay import Relay


def main(file: str) -> None:
    config = next(flow for flow in load([file]).flows if flow.replicates)
    planner = Planner(config, uuid.uuid4().hex)
    while True:
        try:
            planner.prepare()
            plan = planner.plan(1, once=False)
            break
        except KafkaError as error:  # as in the product: a cluster that is away comes back
            print(error, flush=True)  # noqa: T201
            time.sleep(0.2)
    claims = tuple(claim for group in plan.groups for claim in group)
    job = Job(
        config.flow, config, claims, plan.producers, planner.run,
        journal_offset=plan.journal_offset, offsets_partitions=plan.offsets_partitions,
    )  # fmt: skip
    print("relaying", flush=True)  # noqa: T201
    Relay(job).run()


main(sys.argv[1])
