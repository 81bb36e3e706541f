from twinlog.model import TopicPartition
from twinlog.pipeline.changes import changes


def places(**topics: int) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for topic, count in topics.items() for partition in range(count)]


def test_nothing_is_told_of_what_stays() -> None:
    assert changes(places(a=2, b=1), reversed(places(a=2, b=1)), 7) == []


def test_each_kind_of_change_is_told_once() -> None:
    told = changes(places(gone=1, grows=2, shrinks=3, stays=1), places(grows=4, shrinks=1, stays=1, new=3), 7)
    assert [(each["kind"], each["amount"], each["text"]) for each in told] == [
        ("new topic", 1, "topic new (3 partitions) is copied from now on"),
        ("topic gone", 1, "topic gone is no longer there, or no longer to be copied"),
        ("new partitions", 1, "topic grows (4 instead of 2) has more partitions"),
        ("partitions gone", 1, "topic shrinks (1 instead of 3) has fewer partitions"),
    ]
    assert {each["time"] for each in told} == {7}


def test_of_many_only_a_few_are_named() -> None:
    (told,) = changes([], places(**{f"t{number}": 1 for number in range(1000, 2200)}), 7)
    assert told["amount"] == 1200
    assert told["text"] == (
        "1,200 topics are copied from now on: t1000 (1 partition), t1001 (1 partition), t1002 (1 partition), "
        "t1003 (1 partition), t1004 (1 partition) and 1,195 more"
    )
