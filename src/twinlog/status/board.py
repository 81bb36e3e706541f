"""All flows of a process, as everyone who shows them sees them."""

from collections.abc import Iterable

from twinlog.status.flow import FlowStatus


class Board:
    """`flows` is replaced, never changed in place: it may be read from any thread."""

    def __init__(self, flows: Iterable[FlowStatus] = ()) -> None:
        self.flows: list[FlowStatus] = list(flows)

    def show(self, flows: Iterable[FlowStatus]) -> None:
        self.flows = list(flows)

    def flow(self, name: str) -> FlowStatus | None:
        return next((each for each in self.flows if each.name == name), None)
