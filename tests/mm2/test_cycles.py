"""Replication cycles are found before records are copied."""

from twinlog.mm2.cycles import CyclePath, refusal, round_trip
from twinlog.model import Flow

IDS = {"us": "A", "eu": "B", "asia": "C", "us-again": "A"}


def _paths(*flows: str, topics: str = "orders") -> list[CyclePath]:
    return [CyclePath(Flow(*flow.split("->")), topics.__eq__) for flow in flows]


def test_there_and_back() -> None:
    trip = round_trip("orders", _paths("us->eu", "eu->us"), IDS)
    assert trip == [Flow("us", "eu"), Flow("eu", "us")]
    assert "topic orders: replication cycle: it keeps its name on us->eu, eu->us" in refusal("orders", trip, IDS)
    assert not round_trip("clicks", _paths("us->eu", "eu->us"), IDS)


def test_only_those_that_a_topic_takes_count() -> None:
    assert not round_trip("orders", [*_paths("us->eu"), *_paths("eu->us", topics="clicks")], IDS)


def test_round_three_clusters_and_beside_a_dead_end() -> None:
    paths = _paths("us->asia", "us->eu", "eu->asia", "asia->us")
    assert round_trip("orders", paths, IDS) == [Flow("us", "asia"), Flow("asia", "us")]
    assert round_trip("orders", _paths("us->eu", "eu->asia", "asia->us"), IDS)[-1] == Flow("asia", "us")
    assert not round_trip("orders", _paths("us->eu", "us->asia", "eu->asia"), IDS)


def test_a_loop_that_one_only_enters() -> None:
    assert round_trip("orders", _paths("asia->us", "us->eu", "eu->us"), IDS) == [Flow("us", "eu"), Flow("eu", "us")]


def test_two_aliases_of_one_cluster() -> None:
    trip = round_trip("orders", _paths("us->us-again"), IDS)
    assert trip == [Flow("us", "us-again")]
    assert "us and us-again are the same cluster (id A)" in refusal("orders", trip, IDS)
    assert round_trip("orders", _paths("us->eu", "eu->us-again"), IDS)
    assert not round_trip("orders", _paths("us->eu", "eu->us-again"), {})
