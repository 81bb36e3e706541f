"""One consumer of a group: works off the records of both sides, at home or, while home is gone, on the other cluster.

    python consumer.py --source localhost:9093 --target localhost:9095 --home source --group billing

Start as many as you like; with --out each appends the records that it has worked off to a file, one value in a line.
"""

import argparse
import signal
import sys
import threading
import time
from pathlib import Path

from cluster_watch import Access, Patience
from failover_consumer import FailoverConsumer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True, metavar="HOST:PORT,...", help="addresses of the cluster source")
    parser.add_argument("--target", required=True, metavar="HOST:PORT,...", help="addresses of the cluster target")
    parser.add_argument("--home", choices=["source", "target"], required=True, help="where it reads while it can")
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", default="ProductA")
    parser.add_argument("--gone-after", type=float, default=10.0, metavar="SECONDS", help="without any sign of life")
    parser.add_argument("--well-after", type=float, default=30.0, metavar="SECONDS", help="of answers without a break")
    parser.add_argument("--out", type=Path, default=Path("/dev/stdout"))
    given = parser.parse_args()
    clusters = {"source": Access.plain(given.source), "target": Access.plain(given.target)}
    patience = Patience(given.gone_after, given.well_after)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with (
        given.out.open("ab", buffering=0) as out,
        FailoverConsumer(
            clusters, home=given.home, group=given.group, topic=given.topic, patience=patience, tell=tell
        ) as consumer,
    ):
        while not stopped.is_set():
            message = consumer.poll(0.2)
            if message is not None:
                out.write((message.value() or b"") + b"\n")  # your work stands here
                consumer.done(message)
    return 0


def tell(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
