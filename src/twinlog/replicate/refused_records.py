"""Handles records that the target refuses: finds them, then stops the partition or skips them (errors.tolerance)."""

from typing import Final

from twinlog.kafka import error_codes
from twinlog.kafka.produce import Outcome
from twinlog.replicate.partition import OutboundBatch, Partition
from twinlog.replicate.partition_lifecycle import PartitionLifecycle
from twinlog.replicate.progress import ProgressTracker
from twinlog.replicate.task_spec import TaskSpec

_SETTINGS: Final = {  # of the remote topic, which cause the error
    error_codes.INVALID_TIMESTAMP: "message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    error_codes.MESSAGE_TOO_LARGE: "max.message.bytes",
    error_codes.RECORD_LIST_TOO_LARGE: "segment.bytes",
    error_codes.INVALID_RECORD: "cleanup.policy",  # a compacted topic refuses records without a key
}


class RefusedRecords:
    def __init__(self, spec: TaskSpec, progress: ProgressTracker, lifecycle: PartitionLifecycle) -> None:
        self._spec = spec
        self._progress = progress
        self._lifecycle = lifecycle

    def handle(self, partition: Partition, batch: OutboundBatch, outcome: Outcome, reason: str) -> None:
        """Sends smaller batches until the refused record is known; then stops the partition, or skips the record."""
        code, limits = outcome.error, partition.target.limits
        if batch.count > 1 and code in error_codes.TOO_LARGE:
            limits.max_batch_bytes = max(len(batch.view) // 2, 1)
            self._lifecycle.recover(partition, "")
            return
        refused = [
            batch.offsets[index] if batch.offsets else batch.first + index
            for index, _ in outcome.bad_records
            if 0 <= index < batch.count
        ]
        if batch.count > 1 and (not refused or (not self._spec.skips_refused and refused[0] > batch.first)):
            limits.single_records_until = batch.last  # so that the records before the refused one are copied
            self._lifecycle.recover(partition, "")
            return
        refused = refused or [batch.first]
        more = f" (and {len(refused) - 1} more after it)" if len(refused) > 1 else ""
        text = f"record at offset {refused[0]} of {partition.tp}{more} refused by {reason}"
        setting = _SETTINGS.get(code)
        remedy = f"change {setting} of topic {partition.remote.topic} on {self._spec.flow.target}" if setting else ""
        if not self._spec.skips_refused:
            remedy += f"{', or ' if remedy else ''}set errors.tolerance = all to skip such records"
            self._lifecycle.stop(partition, f"{text}; {remedy}", refused[0])
            return
        pending = (offset for offset in limits.skip_offsets if offset >= partition.target.acked_position)
        limits.skip_offsets = frozenset((*pending, *refused))
        partition.resume.new_epoch = True  # the same sequence numbers now belong to other records
        partition.report.counters.skipped += len(refused)
        text += f"; skipped (errors.tolerance = all){f'; to copy such records, {remedy}' if remedy else ''}"
        self._progress.event(partition, "skipped", len(refused), text, (refused[0], refused[-1]))
        self._lifecycle.recover(partition, "")
