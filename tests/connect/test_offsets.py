"""Offsets as Connect's API has them: which entries are taken, and under which bytes they are kept."""

from typing import Any

import pytest

from twinlog.connect.errors import ConnectError
from twinlog.connect.offsets import Offset, asked, java_order, key_of, offsets_json, stored, value_of

SOURCE, CHECKPOINT, HEARTBEAT = "MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"
PLACE = {"cluster": "A", "partition": 0, "topic": "t"}


def test_members_stand_in_the_order_of_java() -> None:
    assert java_order(["topic", "partition", "cluster"]) == ["cluster", "partition", "topic"]
    assert java_order(["group", "topic", "partition"]) == ["partition", "topic", "group"]
    assert java_order(["targetClusterAlias", "sourceClusterAlias"]) == ["sourceClusterAlias", "targetClusterAlias"]


@pytest.mark.parametrize(
    ("partition", "key"),
    [
        ({"topic": "t", "cluster": "A", "partition": 0}, b'["c",{"cluster":"A","partition":0,"topic":"t"}]'),
        ({"topic": "A.t", "group": "g", "partition": 0}, b'["c",{"partition":0,"topic":"A.t","group":"g"}]'),
    ],
)
def test_any_order_ends_in_the_same_bytes(partition: dict[str, Any], key: bytes) -> None:
    assert key_of("c", partition) == key
    assert value_of({"offset": 41}) == b'{"offset":41}'
    assert value_of(None) is None


def test_the_last_word_of_each_key_counts() -> None:
    key, other = key_of("c", PLACE), key_of("c", {**PLACE, "partition": 1})
    found = stored(
        [
            (key, b'{"offset":1}'),
            (other, b'{"offset":5}'),
            (key_of("d", PLACE), b'{"offset":9}'),
            (b"nonsense", b"{}"),
            (None, b"{}"),
            (key, b'{"offset":2}'),
            (other, None),
        ],
        "c",
    )
    assert offsets_json(found) == {"offsets": [{"partition": PLACE, "offset": {"offset": 2}}]}


def test_a_partition_named_twice_has_the_later_offset() -> None:
    entries = [{"partition": PLACE, "offset": {"offset": 1}}, {"partition": PLACE, "offset": {"offset": 2}}]
    assert asked(SOURCE, entries) == [Offset(PLACE, {"offset": 2})]


def test_whatever_is_taken_back_is_taken() -> None:
    assert asked(SOURCE, [{"partition": {"any": 1}, "offset": None}]) == [Offset({"any": 1}, None)]


@pytest.mark.parametrize("entries", [None, []])
def test_nothing_is_no_request(entries: list[Any] | None) -> None:
    with pytest.raises(ConnectError) as refused:
        asked(SOURCE, entries)
    assert refused.value.status == 400


GROUP = {"group": "g", "topic": "A.t", "partition": 0}
WAY = {"sourceClusterAlias": "A", "targetClusterAlias": "B"}


@pytest.mark.parametrize(
    ("kind", "partition", "offset", "said"),
    [
        (SOURCE, None, {"offset": 1}, "may not be null"),
        (SOURCE, {"topic": "t", "partition": 0}, {"offset": 1}, "is missing the 'cluster' key"),
        (SOURCE, {**PLACE, "topic": 7}, {"offset": 1}, "for the 'topic' key, which must be a string"),
        (SOURCE, {"cluster": "A", "topic": "t"}, {"offset": 1}, "is missing the 'partition' key"),
        (SOURCE, {**PLACE, "partition": "0"}, {"offset": 1}, "for the 'partition' key, which must be an integer"),
        (SOURCE, {**PLACE, "partition": True}, {"offset": 1}, "for the 'partition' key, which must be an integer"),
        (SOURCE, {**PLACE, "partition": -1}, {"offset": 1}, "for the 'partition' key, which cannot be negative"),
        (SOURCE, PLACE, {"at": 1}, "is missing the 'offset' key"),
        (SOURCE, PLACE, {"offset": "1"}, "for the 'offset' key, which must be an integer"),
        (SOURCE, PLACE, {"offset": 1 << 63}, "for the 'offset' key, which must be an integer"),
        (SOURCE, PLACE, {"offset": -1}, "for the 'offset' key, which cannot be negative"),
        (CHECKPOINT, {**GROUP, "group": None}, {"offset": 0}, "for the 'group' key, which must be a string"),
        (CHECKPOINT, GROUP, {"offset": 1}, "the only accepted value is 0"),
        (HEARTBEAT, {"sourceClusterAlias": "A"}, {"offset": 0}, "is missing the 'targetClusterAlias' key"),
        (HEARTBEAT, WAY, {"offset": 1}, "the only accepted value is 0"),
    ],
)
def test_what_mm2_refuses_is_refused(kind: str, partition: Any, offset: Any, said: str) -> None:
    with pytest.raises(ConnectError, match=said) as refused:
        asked(kind, [{"partition": partition, "offset": offset}])
    assert refused.value.status == 500


def test_what_mm2_takes_is_taken() -> None:
    assert asked(CHECKPOINT, [{"partition": GROUP, "offset": {"offset": 0}}])
    assert asked(HEARTBEAT, [{"partition": WAY, "offset": {"offset": 0}}])
    assert asked(SOURCE, [{"partition": {**PLACE, "more": 1}, "offset": {"offset": 0}}])
