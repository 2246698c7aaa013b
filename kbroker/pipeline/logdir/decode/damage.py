"""What is raised where the bytes of a segment are no sound batch."""

from __future__ import annotations


class DamagedBatchError(Exception):
    """The batch at `position` of a segment file cannot be read, and why.

    All rows before it have been given. `end_position` is where the next batch should begin: a
    reader may go on there. None: nothing tells where, the rest of the stretch is lost.
    """

    def __init__(
        self,
        path: str,
        position: int,
        offset: int | None,
        reason: str,
        end_position: int | None = None,
    ) -> None:
        super().__init__(path, position, offset, reason, end_position)  # so that it can be pickled
        self.path = path
        self.position = position  # bytes
        self.offset = offset  # the base offset that the batch claims, if it can be read
        self.reason = reason
        self.end_position = end_position

    def __str__(self) -> str:
        offset = "" if self.offset is None else f", offset {self.offset}"
        return f"{self.path}: the batch at position {self.position}{offset}: {self.reason}"
