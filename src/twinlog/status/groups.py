"""Consumer groups of a flow, as everyone who shows them sees them."""

from twinlog.upkeep.group_look import GroupStatus

__all__ = ["GroupStatus"]
