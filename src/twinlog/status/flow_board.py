"""The flows of a process, for everything that shows their status."""

from collections.abc import Iterable

from twinlog.status.flow import FlowStatus


class FlowBoard:
    """`flows` is replaced, never changed in place, so any thread may read it."""

    def __init__(self, flows: Iterable[FlowStatus] = ()) -> None:
        self.flows: list[FlowStatus] = list(flows)

    def show(self, flows: Iterable[FlowStatus]) -> None:
        self.flows = list(flows)

    def flow(self, name: str) -> FlowStatus | None:
        return next((each for each in self.flows if each.name == name), None)
