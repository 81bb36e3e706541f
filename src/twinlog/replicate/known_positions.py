"""Adds the stored positions to partition assignments."""

from dataclasses import replace

from twinlog.replicate.position_reader import PositionReader
from twinlog.replicate.task_spec import PartitionAssignment


class AssignmentPositions(PositionReader):
    def known(self, assignment: PartitionAssignment) -> PartitionAssignment:
        tp = assignment.tp
        return replace(
            assignment,
            stored_position=self.stored_positions.get(tp),
            sync=self.syncs.get(tp),
            mm2_position=self.mm2_positions.get(tp),
        )
