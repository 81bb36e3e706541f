"""Prints records with their headers. See kafka_client.py for the connection settings.

KAFKA_BROKERS=localhost:9092 python consumer.py --topic source.products --count 100
"""

import argparse
import os
import sys
import time

from confluent_kafka import Consumer, KafkaException, Message
from kafka_client import client_properties


def shown(record: Message) -> str:
    given = record.headers()
    headers = ", ".join(f"{name}={text(value)}" for name, value in given) if isinstance(given, list) else ""
    return f"{record.topic()}-{record.partition()}@{record.offset()} {text(record.value())} [{headers}]"


def text(value: str | bytes | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or "-"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", default="example")
    parser.add_argument("--count", type=int, default=100, help="records to read")
    parser.add_argument("--seconds", type=float, default=60, help="give up if no record arrives for so long")
    given = parser.parse_args()
    consumer = Consumer({**client_properties(os.environ), "group.id": given.group, "auto.offset.reset": "earliest"})
    consumer.subscribe([given.topic])
    count, deadline = 0, time.monotonic() + given.seconds
    try:
        while count < given.count:
            record = consumer.poll(0.5)
            if record is None:
                if time.monotonic() > deadline:
                    print(f"no record for {given.seconds:g} s, after {count} records", file=sys.stderr)
                    return 1
                continue
            if error := record.error():
                raise KafkaException(error)
            print(shown(record), flush=True)
            count, deadline = count + 1, time.monotonic() + given.seconds
    finally:
        consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
