from twinlog.model import TopicPartition
from twinlog.spark.topic_changes import changes


def tps(**topics: int) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for topic, count in topics.items() for partition in range(count)]


def test_unchanged_topics_are_not_reported() -> None:
    assert changes(tps(a=2, b=1), reversed(tps(a=2, b=1)), 7) == []


def test_each_kind_of_change_is_reported_once() -> None:
    events = changes(tps(gone=1, grows=2, shrinks=3, stays=1), tps(grows=4, shrinks=1, stays=1, new=3), 7)
    assert [(each["kind"], each["amount"], each["text"]) for each in events] == [
        ("new topic", 1, "topic new (3 partitions): now replicated"),
        ("topic gone", 1, "topic gone: deleted, or no longer selected"),
        ("new partitions", 1, "topic grows (4 partitions, was 2): partitions added"),
        ("partitions gone", 1, "topic shrinks (1 partition, was 3): partitions removed"),
    ]
    assert {each["time"] for each in events} == {7}


def test_of_many_only_a_few_are_named() -> None:
    (event,) = changes([], tps(**{f"t{number}": 1 for number in range(1000, 2200)}), 7)
    assert event["amount"] == 1200
    assert event["text"] == (
        "1,200 topics now replicated: t1000 (1 partition), t1001 (1 partition), t1002 (1 partition), "
        "t1003 (1 partition), t1004 (1 partition) and 1,195 more"
    )
