"""Reads the target with librdkafka, which shares no code with Twinlog or the lab, and compares both logs by the lab."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
from confluent_kafka import TopicPartition as Name

from lab import compare_logs
from lab.cluster import Cluster
from lab.errors import LabError
from soak.arrivals import remote
from soak.traffic import HEADER, SILENT, Topic, TopicPartition, Traffic, key_of
from soak.verdict import Verdict, judge

_BATCH = 5000
_SECONDS = 30.0  # without a record or an end of partition


def judge_all(target: Cluster, traffic: Traffic) -> dict[TopicPartition, Verdict]:
    """By record numbers, as a consumer of committed records sees them."""
    topics = {topic.name: topic for topic in traffic.topics}
    found = numbers(target, [remote(tp) for tp in traffic.sent])

    def verdict(tp: TopicPartition) -> Verdict:
        topic = topics[tp[0]]
        key = (lambda number: key_of(topic, number)) if topic.compacted else None
        return judge(traffic.sent[tp], found[remote(tp)], key)

    return {tp: verdict(tp) for tp in sorted(traffic.sent)}


def numbers(
    cluster: Cluster, partitions: list[TopicPartition], start: Mapping[TopicPartition, int] | None = None
) -> dict[TopicPartition, list[int]]:
    """Those of each partition, from its beginning or the given offset to its end."""
    consumer = Consumer(
        {
            **cluster.librdkafka_properties(),
            "group.id": "soak",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "logger": SILENT,
        }
    )
    found: dict[TopicPartition, list[int]] = {tp: [] for tp in partitions}
    waiting = set(partitions)
    try:
        consumer.assign([Name(*tp, (start or {}).get(tp, OFFSET_BEGINNING)) for tp in partitions])
        while waiting:
            messages = consumer.consume(_BATCH, _SECONDS)
            if not messages:
                raise LabError(f"no end of {sorted(waiting)} within {_SECONDS:.0f} s")
            for message in messages:
                tp = (str(message.topic()), int(message.partition() or 0))
                if (error := message.error()) is None:
                    found[tp].append(_number(message))
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  (its public name)
                    waiting.discard(tp)
    finally:
        consumer.close()
    return found


def _number(message: Any) -> int:
    return next((int(value) for key, value in message.headers() or () if key == HEADER), -1)


def compare(source: Cluster, target: Cluster, topic: Topic) -> tuple[int, list[str]]:
    """The number of equal records and the differences: both logs byte for byte. Compacted: the newest of each key."""
    ours, theirs, name = source.client_properties(), target.client_properties(), f"us.{topic.name}"
    if not topic.compacted:
        compared = compare_logs.compare(ours, topic.name, theirs, name, codecs=True)
        return compared.records, [str(each) for each in compared.differences]
    equal, differences = 0, []
    for partition in range(topic.partitions):
        left, right = (
            {record.key: record for record in compare_logs.read(*each, partition)}
            for each in ((ours, topic.name), (theirs, name))
        )
        equal += sum(right.get(key) == record for key, record in left.items())
        differences += [
            f"partition {partition}, key {key!r}: {left.get(key)} on the left, {right.get(key)} on the right"
            for key in sorted({*left, *right}, key=str)
            if left.get(key) != right.get(key)
        ]
    return equal, differences
