"""A member of a consumer group, with mutual TLS: appends the records to a file, one per line, and commits.

    python group_member.py --bootstrap-servers HOST:PORT --secrets DIR --user source-user \
        --ca source-cluster-cluster-ca-cert --group billing --topics orders,payments --out read.txt

On SIGTERM it commits and exits. It does not depend on Twinlog: on another cluster it resumes at the group's offsets
there.
"""

import argparse
import signal
import threading
from pathlib import Path

from confluent_kafka import Consumer, KafkaException


def properties(given: argparse.Namespace) -> dict[str, str | bool]:
    user, ca = given.secrets / given.user, given.secrets / given.ca
    return {
        "bootstrap.servers": given.bootstrap_servers,
        "security.protocol": "ssl",
        "ssl.ca.location": str(ca / "ca.crt"),
        "ssl.certificate.location": str(user / "user.crt"),
        "ssl.key.location": str(user / "user.key"),
        "group.id": given.group,
        "auto.offset.reset": "earliest",  # only where the group has no offset
        "enable.auto.offset.store": False,  # only records that are written to the file are committed
    }


def read(consumer: Consumer, out: Path, stopped: threading.Event) -> None:
    with out.open("a") as file:
        while not stopped.is_set():
            record = consumer.poll(0.2)
            if record is None:
                continue
            if error := record.error():
                raise KafkaException(error)
            file.write(f"{record.topic()} {(record.value() or b'').decode()}\n")
            file.flush()
            consumer.store_offsets(record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--bootstrap-servers", "--user", "--ca", "--group", "--topics"):
        parser.add_argument(option, required=True)
    for option in ("--secrets", "--out"):
        parser.add_argument(option, required=True, type=Path)
    given = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    consumer = Consumer(properties(given))
    consumer.subscribe(given.topics.split(","))
    try:
        read(consumer, given.out, stopped)
    finally:
        consumer.close()  # commits


if __name__ == "__main__":
    main()
