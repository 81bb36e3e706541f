"""Produces numbered records to one cluster, and buffers them while it is down.

    python producer.py --bootstrap-servers localhost:9093 --name source

On SIGTERM it waits until all records are acknowledged. With --out it appends each acknowledged record to a file.
"""

import argparse
import itertools
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from confluent_kafka import Producer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-servers", required=True, metavar="HOST:PORT,...")
    parser.add_argument("--topic", default="ProductA")
    parser.add_argument("--name", required=True, help="prefix of every record")
    parser.add_argument("--rate", type=float, default=50.0, help="records per second (default: 50)")
    parser.add_argument("--out", type=Path, default=Path("/dev/stdout"), help="file for the acknowledged records")
    given = parser.parse_args()
    stopped = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: stopped.set())
    producer = Producer(
        {
            "bootstrap.servers": given.bootstrap_servers,
            "enable.idempotence": True,  # retries neither duplicate nor reorder records
            "message.timeout.ms": 3_600_000,  # a cluster may be down for an hour
            "reconnect.backoff.max.ms": 2000,
        }
    )
    failed: list[str] = []
    with given.out.open("ab", buffering=0) as out:

        def delivered(error: Any, message: Any) -> None:
            if error:
                failed.append(error.str())
            else:
                out.write(message.value() + b"\n")

        for number in itertools.count():
            if stopped.wait(1 / given.rate) or failed:
                break
            value = f"{given.name} {number}".encode()
            while True:
                try:
                    producer.produce(given.topic, value, str(number % 100).encode(), on_delivery=delivered)
                except BufferError:  # wait for free space
                    producer.poll(0.5)
                else:
                    break
            producer.poll(0)
        producer.flush()
    if failed:
        print(f"producer: {given.topic}: {failed[0]}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
