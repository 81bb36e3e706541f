"""Records that would go round for ever are found before they are sent."""

from twinlog.model import Flow
from twinlog.topology.loops import Way, refusal, round_trip

IDS = {"us": "A", "eu": "B", "asia": "C", "us-again": "A"}


def _ways(*flows: str, topics: str = "orders") -> list[Way]:
    return [Way(Flow(*flow.split("->")), topics.__eq__) for flow in flows]


def test_there_and_back() -> None:
    trip = round_trip("orders", _ways("us->eu", "eu->us"), IDS)
    assert trip == [Flow("us", "eu"), Flow("eu", "us")]
    assert "topic orders keeps its name on us->eu, eu->us" in refusal("orders", trip, IDS)
    assert not round_trip("clicks", _ways("us->eu", "eu->us"), IDS)


def test_only_those_that_a_topic_takes_count() -> None:
    assert not round_trip("orders", [*_ways("us->eu"), *_ways("eu->us", topics="clicks")], IDS)


def test_round_three_clusters_and_beside_a_dead_end() -> None:
    ways = _ways("us->asia", "us->eu", "eu->asia", "asia->us")
    assert round_trip("orders", ways, IDS) == [Flow("us", "asia"), Flow("asia", "us")]
    assert round_trip("orders", _ways("us->eu", "eu->asia", "asia->us"), IDS)[-1] == Flow("asia", "us")
    assert not round_trip("orders", _ways("us->eu", "us->asia", "eu->asia"), IDS)


def test_a_loop_that_one_only_enters() -> None:
    assert round_trip("orders", _ways("asia->us", "us->eu", "eu->us"), IDS) == [Flow("us", "eu"), Flow("eu", "us")]


def test_two_names_of_one_cluster() -> None:
    trip = round_trip("orders", _ways("us->us-again"), IDS)
    assert trip == [Flow("us", "us-again")]
    assert "us and us-again are one cluster (id A)" in refusal("orders", trip, IDS)
    assert round_trip("orders", _ways("us->eu", "eu->us-again"), IDS)
    assert not round_trip("orders", _ways("us->eu", "eu->us-again"), {})
