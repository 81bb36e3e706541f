"""A fault: it begins, lasts for the planned seconds, and ends. `end` is called even if `begin` failed half-way."""

from abc import ABC, abstractmethod

from lab.cluster import Cluster
from lab.errors import LabError
from soak.plan import PlannedFault
from soak.stage import Stage


class UnexpectedError(LabError):
    """Twinlog did not do what it should; other errors mean that the fault is not possible at the moment."""


class Fault(ABC):
    def __init__(self, stage: Stage, planned: PlannedFault) -> None:
        self.stage, self.planned = stage, planned

    @abstractmethod
    def begin(self) -> str:
        """What exactly was done: which broker, partition or process."""

    def end(self) -> None:  # noqa: B027  (some faults are over when they have begun)
        """Returns when the cause is gone; Twinlog may still be recovering."""

    @property
    def cluster(self) -> Cluster:
        return self.stage.clusters[self.planned.kind.side]
