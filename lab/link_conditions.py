"""The conditions of an emulated link: round trip, jitter, rate, loss, or a cut.

Uses the standard library only: the emulator's process imports it too.
"""

from dataclasses import dataclass

from lab.errors import LabError


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """All of them apply to each direction; a round trip is made of two equal delays.

    Packets are never reordered: a path through the internet rarely does, and TCP takes it for loss.
    """

    round_trip: float = 0.0  # seconds
    jitter: float = 0.0  # seconds: each packet takes up to so much longer
    rate: float | None = None  # bytes per second of all connections together, headers included; None: unlimited
    loss: float = 0.0  # the probability that a packet is lost
    cut: bool = False  # nothing passes, and what is on its way is lost; connections stay open

    def __post_init__(self) -> None:
        if self.round_trip < 0 or self.jitter < 0:
            raise LabError("a link's round trip and jitter are 0 seconds or more")
        if self.rate is not None and self.rate <= 0:
            raise LabError("a link's rate is positive, or None for no limit")
        if not 0 <= self.loss < 1:
            raise LabError("a link's loss is a probability: 0.001 is 0.1 %")

    @property
    def delay(self) -> float:
        """One way, in seconds."""
        return self.round_trip / 2

    def __str__(self) -> str:
        parts = [f"{self.round_trip * 1000:g} ms round trip"]
        if self.jitter:
            parts.append(f"up to {self.jitter * 1000:g} ms of jitter")
        if self.rate is not None:
            parts.append(f"{self.rate / 1e6:g} MB/s")
        if self.loss:
            parts.append(f"{self.loss * 100:g} % loss")
        if self.cut:
            parts.append("cut")
        return ", ".join(parts)
