"""Looks closer at batches of a segment that may not count, and finds where sound ones go on.

Law: nothing is opened before there is a doubt, because most batches raise none. The answers are
those of the broker (`BatchAudit`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from kbroker.inspection.segment_audit import opened_audit
from kbroker.log.disk.file_system import File, FileSystem
from kbroker.log.disk.format import MAX_RELATIVE_OFFSET
from kbroker.log.segments.batch_audit import BatchAudit
from kbroker.pipeline.logdir.decode.damage import DamagedBatchError
from kbroker.pipeline.logdir.segment_task import SegmentTask
from kbroker.record.batch_order import Span, can_stand


class BatchJudge:
    """Judges the batches of one task. Every method may raise StorageError."""

    def __init__(self, file_system: FileSystem, task: SegmentTask) -> None:
        self._file_system = file_system
        self._task = task
        highest = task.segment_base_offset + MAX_RELATIVE_OFFSET
        self.end_offset = min(task.segment_end_offset, highest + 1)

    def counts(self, position: int, expected: int) -> bool:
        """True if the batch at `position` counts; `expected` is the least offset it may have."""
        with self._audit() as (audit, _):
            return audit.verify(position, expected, position + 1)[0] > position

    def reason(self, position: int, claimed: Span, expected: int) -> str:
        """Say why the batch at `position` does not count."""
        claim = f"it claims the offsets {claimed.first} to {claimed.last}"
        with self._audit() as (audit, _):
            if claimed.last < claimed.first:
                return claim
            if audit.sound(position) is None:
                return "its checksum does not match"
        if can_stand(claimed, expected, self.end_offset):
            return f"{claim}, and so does the batch after it"
        if claimed.first < expected:
            return f"{claim}, after {expected - 1}"
        return f"{claim}, and the next segment begins at {self.end_offset}"

    def with_way_on(self, damage: DamagedBatchError, expected: int) -> DamagedBatchError:
        """Add to the damage the position of the next batch that counts in the task's stretch."""
        end_position = damage.end_position
        if end_position is None:
            with self._audit() as (audit, file):
                if damage.position < file.size():
                    end_position = audit.next_sound(damage.position, expected, ())
                if end_position == file.size():
                    end_position = None
        return DamagedBatchError(
            damage.path, damage.position, damage.offset, damage.reason, end_position, expected
        )

    def _audit(self) -> AbstractContextManager[tuple[BatchAudit, File]]:
        return opened_audit(self._file_system, self._task.path, self.end_offset)
