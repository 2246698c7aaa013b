"""The error for bytes of a segment that are not a batch that counts, and how to go on after
them.
"""

from __future__ import annotations

from dataclasses import replace

from kbroker.pipeline.logdir.segment_task import SegmentTask


class DamagedBatchError(Exception):
    """The batch at `position` of a segment file cannot be read, and why.

    All rows before it have been given. A reader may go on at `end_position`, the next batch that
    counts, with offsets from `expected_offset` on. None: the rest of the stretch is lost.
    """

    def __init__(
        self,
        path: str,
        position: int,
        offset: int | None,
        reason: str,
        end_position: int | None = None,
        expected_offset: int = 0,
    ) -> None:
        # All of it, so that it can be pickled.
        super().__init__(path, position, offset, reason, end_position, expected_offset)
        self.path = path
        self.position = position  # bytes
        self.offset = offset  # the base offset that the batch claims, if it can be read
        self.reason = reason
        self.end_position = end_position
        self.expected_offset = expected_offset

    def __str__(self) -> str:
        offset = "" if self.offset is None else f", offset {self.offset}"
        return f"{self.path}: the batch at position {self.position}{offset}: {self.reason}"

    def rest_of(self, task: SegmentTask) -> SegmentTask:
        """Return what is left of the task after the damage."""
        position = task.end_position if self.end_position is None else self.end_position
        return replace(task, start_position=position, expected_offset=self.expected_offset)
