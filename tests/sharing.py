"""How processes share the tests, file by file: those that start Spark keep processors busy, most others wait."""

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

SLOW = ("spark", "fuzz", "broker", "java", "tools")


def slow_first(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: next((at for at, mark in enumerate(SLOW) if item.get_closest_marker(mark)), len(SLOW)))


class FromBothEnds(LoadFileScheduling):  # type: ignore[misc]
    """Of three processes one begins at the other end, so that at any time some work and some wait."""

    def _assign_work_unit(self, node: Any) -> None:
        if len(self.nodes) > 2 and node is self.nodes[-1]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
