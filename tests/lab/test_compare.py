"""Two logs are equal only if every record is, and in the same order."""

import itertools
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from twinlog.errors import LabError
from twinlog.lab.cluster import Cluster
from twinlog.lab.compare import compare
from twinlog.lab.ends import Ends
from twinlog.lab.traffic import HEADER, access_log

Record = tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]], int]
Change = Callable[[list[Record]], list[Record]]
RECORDS: list[Record] = [
    (b"k", b"v", [("h", b"1"), ("h", b"1"), ("n", None)], 1_700_000_000_000),
    (None, b"v", [], 1_700_000_000_001),
    (b"k", None, [], 1_700_000_000_000),
    (b"", b"", [], 1_700_000_000_002),
]


def publish(cluster: Cluster, topic: str, records: list[Record]) -> None:
    cluster.create_topic(topic, partitions=2)
    producer = Producer(cluster.librdkafka_properties())
    for key, value, headers, timestamp in records:
        producer.produce(topic, value, key, partition=1, headers=headers, timestamp=timestamp)
    producer.flush()


@pytest.mark.broker
def test_equal_logs_are_equal(us: Cluster, eu: Cluster, topic: str) -> None:
    publish(us, topic, RECORDS)
    publish(eu, f"us.{topic}", RECORDS)
    outcome = compare(us.client_properties(), topic, eu.client_properties(), f"us.{topic}")
    assert (outcome.records, outcome.differences) == (4, ())
    with Ends(eu) as ends:
        assert (ends.total(f"us.{topic}"), ends.total("not-there")) == (4, 0)


@pytest.mark.broker
@pytest.mark.parametrize(
    ("change", "position"),
    [
        pytest.param(lambda r: [*r[:2], (b"k", b"", [], r[2][3]), r[3]], 2, id="null is not empty"),
        pytest.param(lambda r: [(*r[0][:2], r[0][2][:2], r[0][3]), *r[1:]], 0, id="a header is missing"),
        pytest.param(lambda r: [(*r[0][:3], r[0][3] + 1), *r[1:]], 0, id="another timestamp"),
        pytest.param(lambda r: [r[1], r[0], *r[2:]], 0, id="another order"),
        pytest.param(lambda r: r[:3], 3, id="one is missing"),
        pytest.param(lambda r: [*r, r[3]], 4, id="one is there twice"),
    ],
)  # fmt: skip
def test_any_difference_is_found(us: Cluster, eu: Cluster, topic: str, change: Change, position: int) -> None:
    publish(us, topic, RECORDS)
    publish(eu, topic, change(RECORDS))
    (difference,) = compare(us.client_properties(), topic, eu.client_properties(), topic).differences
    assert (difference.partition, difference.position) == (1, position)
    assert str(difference).startswith(f"partition 1, record {position}: ")


@pytest.mark.broker
def test_topics_that_are_not_there_are_not_equal(us: Cluster, eu: Cluster) -> None:
    with pytest.raises(LabError, match="neither nowhere nor here is there"):
        compare(us.client_properties(), "nowhere", eu.client_properties(), "here")


def test_access_logs_are_made_up_but_the_same_for_the_same_seed() -> None:
    first = list(itertools.islice(access_log(seed=5, start=1e9), 50))
    assert first == list(itertools.islice(access_log(seed=5, start=1e9), 50))
    assert first != list(itertools.islice(access_log(seed=6, start=1e9), 50))
    assert {line.count(",") for _, line in first} == {HEADER.count(",")}
    assert all(line.startswith(f"{visitor},2001-09-09,01:46:") for visitor, line in first)
