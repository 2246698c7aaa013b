"""Segments that were taken out of a log, and when their files go.

Law: the files of a segment stay, renamed to `.deleted`, for file.delete.delay.ms, so that answers
under way can still be sent from them.
"""

from __future__ import annotations

from kbroker.log.log_segment import LogSegment


class DeletedSegments:
    """The segments of one log that wait for removal. Owned by that log."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        # A tuple: that of most logs is empty, and shared by all of them.
        self._waiting: tuple[tuple[LogSegment, int | None], ...] = ()

    def add(self, segment: LogSegment, remove_at_ms: int | None) -> None:
        """Rename the segment's files now, for removal at that time; None: a delay from the next
        `take_due` on.
        """
        segment.mark_deleted()
        self.add_unnamed(segment, remove_at_ms)

    def add_unnamed(self, segment: LogSegment, remove_at_ms: int | None) -> None:
        """As `add`, for one whose files are renamed by the caller."""
        self._waiting = (*self._waiting, (segment, remove_at_ms))

    def take_due(self, now_ms: int, delay_ms: int) -> list[str]:
        """The files whose time has come, for the caller to remove; nobody reads them any more."""
        if not self._waiting:
            return []
        waiting = [
            (segment, now_ms + delay_ms if at is None else at) for segment, at in self._waiting
        ]
        self._waiting = tuple((segment, at) for segment, at in waiting if at > now_ms)
        due = [segment for segment, at in waiting if at <= now_ms]
        for segment in due:
            segment.records.withdraw()
        return [part.path for segment in due for part in segment.parts]

    def close(self) -> None:
        """Give all descriptors back."""
        for segment, _ in self._waiting:
            segment.records.close()

    def move(self, old_directory: str, new_directory: str) -> None:
        """Follow a rename of the partition's directory; descriptors must have been given back."""
        for segment, _ in self._waiting:
            segment.move(old_directory, new_directory)
