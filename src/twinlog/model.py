"""The nouns, in MM2's words."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Flow:
    """Replication from one cluster to another, by their aliases; written `us->eu`."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"
