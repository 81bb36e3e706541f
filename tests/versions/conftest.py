"""One cluster of each Kafka release, started when a test first needs it; and the pairs of them that are tested."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from lab import corner_case_topics
from lab.batches import Header
from lab.cluster import Cluster
from lab.jars import NEWEST
from lab.lab import Lab
from lab.listeners import SUPER_USER
from tests.replicate.conftest import mirror  # noqa: F401  # a fixture

# README.md has the same table.
OLDER = ("2.8", "3.3", "3.6", "3.9", "4.0")
MIXED = (("2.8", "3.6"), ("3.6", "2.8"))
PAIRS = [*((line, NEWEST) for line in OLDER), *((NEWEST, line) for line in OLDER), *MIXED]

# An authorizer that allows everything to clients without a login: ACLs can be synced, and no test needs any.
_SETTINGS = {"super.users": f"User:{SUPER_USER};User:ANONYMOUS"}


@dataclass
class Releases:
    lab: Lab
    _clusters: dict[str, Cluster] = field(default_factory=dict)
    _corner_cases: dict[str, dict[str, str]] = field(default_factory=dict)

    def cluster(self, line: str) -> Cluster:
        if line not in self._clusters:
            name = f"kafka{line.replace('.', '')}"
            self._clusters[line] = self.lab.cluster(name, line=line, authorizer=True, settings=_SETTINGS)
        return self._clusters[line]

    def corner_cases(self, line: str) -> dict[str, str]:
        """Topics with every kind of record that this release stores; their names begin with `corner-`."""
        if line not in self._corner_cases:
            cluster = self.cluster(line)
            made = corner_case_topics.create_all(cluster, "corner-")
            assert any(Header.of(each).gaps for each in corner_case_topics.raw_batches(cluster, made["compacted"]))
            self._corner_cases[line] = made
        return self._corner_cases[line]

    def close(self) -> None:
        for cluster in self._clusters.values():
            self.lab.discard(cluster)


@pytest.fixture(scope="module")
def releases(lab: Lab) -> Iterator[Releases]:
    started = Releases(lab)
    yield started
    started.close()
