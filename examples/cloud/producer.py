"""Produces products, or orders, as JSON with headers. See kafka_client.py for the connection settings.

KAFKA_BROKERS=localhost:9092 python producer.py --topic products --count 100 --rate 50
"""

import argparse
import itertools
import json
import os
import sys
import time
import uuid
from collections.abc import Iterator
from typing import NamedTuple

from confluent_kafka import KafkaException, Producer
from kafka_client import client_properties

Header = tuple[str, str | bytes | None]


class Message(NamedTuple):
    key: bytes
    value: bytes
    headers: list[Header]


def messages(topic: str) -> Iterator[Message]:
    """Headers as found in practice: a trace, a content type, a duplicate name, and one without a value."""
    for number in itertools.count():
        body = {"id": number, "kind": topic, "sku": f"P{number % 40:02}", "quantity": 1 + number % 7}
        trace = uuid.uuid5(uuid.NAMESPACE_OID, f"{topic}-{number}").hex
        headers: list[Header] = [
            ("content-type", b"application/json"),
            ("traceparent", f"00-{trace}-{trace[:16]}-01".encode()),
            ("hop", b"shop"),
            ("hop", b"warehouse"),
            ("test", None),
        ]
        yield Message(f"P{number % 40:02}".encode(), json.dumps(body).encode(), headers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--rate", type=float, default=50, help="records per second")
    given = parser.parse_args()
    failed: list[str] = []
    producer = Producer({**client_properties(os.environ), "acks": "all", "enable.idempotence": True})
    try:
        for message in itertools.islice(messages(given.topic), given.count):
            producer.produce(
                given.topic,
                message.value,
                message.key,
                headers=message.headers,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
            producer.poll(0)
            time.sleep(1 / given.rate)
    except KafkaException as error:
        failed.append(str(error))
    left = producer.flush(60)
    if failed or left:
        print(f"{len(failed) + left} records not acknowledged: {(failed or ['timed out'])[0]}", file=sys.stderr)
        return 1
    print(f"produced {given.count} records to {given.topic}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
