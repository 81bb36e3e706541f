"""A consumer that processes the records of both clusters: on its home cluster, or on the other one while home is down.

    python consumer.py --source localhost:9093 --target localhost:9095 --home source --group billing

A group may have any number of them. With --out it appends the processed records to a file, one value per line.
"""

import argparse
import signal
import sys
import threading
import time
from pathlib import Path

from cluster_watch import Access, Timeouts
from failover_consumer import FailoverConsumer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--source", required=True, metavar="HOST:PORT,...", help="bootstrap servers of the cluster source"
    )
    parser.add_argument(
        "--target", required=True, metavar="HOST:PORT,...", help="bootstrap servers of the cluster target"
    )
    parser.add_argument("--home", choices=["source", "target"], required=True, help="the cluster to prefer")
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", default="ProductA")
    parser.add_argument("--gone-after", type=float, default=10.0, metavar="SECONDS", help="without any response")
    parser.add_argument(
        "--well-after", type=float, default=30.0, metavar="SECONDS", help="of responses without failure"
    )
    parser.add_argument("--out", type=Path, default=Path("/dev/stdout"), help="file for the processed records")
    given = parser.parse_args()
    clusters = {"source": Access.plain(given.source), "target": Access.plain(given.target)}
    timeouts = Timeouts(given.gone_after, given.well_after)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with (
        given.out.open("ab", buffering=0) as out,
        FailoverConsumer(
            clusters, home=given.home, group=given.group, topic=given.topic, timeouts=timeouts, log=log
        ) as consumer,
    ):
        while not stopped.is_set():
            message = consumer.poll(0.2)
            if message is not None:
                out.write((message.value() or b"") + b"\n")  # replace this by your processing
                consumer.done(message)
    return 0


def log(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
