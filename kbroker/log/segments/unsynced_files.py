"""Files of a log that may not be on the disk yet, besides the records after its recovery point:
closed segments, names in directories, leader epochs, the topic id.

Law: in steady state a flush costs one sync, that of the data file that grew. What recovery rebuilds
from the records after the recovery point (indexes of the last segment, producer snapshots) is not
synced; what it will not look at again (a closed segment with its indexes) is synced before the
recovery point passes it. A name is on the disk once its directory was synced after it was made
(KAFKA-3968). Everything counts as unsynced when a log is opened: the process before may have been
killed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kbroker.log.disk.format import LEADER_EPOCH_CHECKPOINT_FILE, PARTITION_METADATA_FILE
from kbroker.log.segments.log_segment import LogSegment


class FlushMarks(NamedTuple):
    """The state that a flush brings to the disk: counts of changes, and closed segments."""

    names: int
    place: int
    epochs: int
    closed: tuple[LogSegment, ...]


_FOUND_PLACE = 1  # of a log that was opened and neither made nor moved since
_NOTHING = FlushMarks(0, 0, -1, ())  # is on the disk; shared by all logs nobody has flushed


class UnsyncedFiles:
    """The files and directories of one log that a flush has to sync. Owned by its log."""

    __slots__ = ("_closed", "_leaving", "_names", "_place", "_removed", "_synced", "snapshot")

    def __init__(self) -> None:
        self._closed: tuple[LogSegment, ...] = ()
        self._names = 1
        self._place = _FOUND_PLACE
        self._leaving = 0
        self._removed = 0  # the state of the names when segments were taken out last
        self._synced = _NOTHING
        self.snapshot: str | None = None  # path of the newest one; saves time after a crash

    @property
    def has_removed(self) -> bool:
        """Segments that were taken out may be there again after a loss of power."""
        return self._leaving > 0 or self._removed > self._synced.names

    @property
    def has_new_names(self) -> bool:
        """Files that were made, renamed or removed may not be so after a loss of power."""
        return self._names != self._synced.names

    @property
    def is_due(self) -> bool:
        """Files of closed segments, or the names of removed ones, wait for a sync."""
        return bool(self._closed) or self.has_removed

    @property
    def first_closed_offset(self) -> int | None:
        """Base offset of the oldest closed segment whose files wait for a sync."""
        return self._closed[0].base_offset if self._closed else None

    @property
    def has_new_place(self) -> bool:
        """The partition's directory or topic id is new, and may be gone after a loss of power."""
        return self._place > max(_FOUND_PLACE, self._synced.place)

    def names_changed(self) -> None:
        """A file was made, renamed or replaced in the partition's directory."""
        self._names += 1

    def snapshot_written(self, path: str) -> None:
        """A snapshot of the producers was made; it is newer than the others."""
        self.snapshot = path
        self.names_changed()

    def segments_removed(self) -> None:
        """Segments were taken out of the partition's directory."""
        self._names += 1
        self._removed = self._names

    def segments_leave(self) -> None:
        """Another thread begins to take segments out."""
        self._leaving += 1

    def segments_left(self) -> None:
        """The other thread has taken them out."""
        self._leaving -= 1
        self.segments_removed()

    def place_changed(self) -> None:
        """The topic id was written, or the partition's directory made or renamed."""
        self._place += 1

    def closed(self, segments: Iterable[LogSegment]) -> None:
        """Segments take no more appends; their files have their final content."""
        self._closed = (*self._closed, *segments)

    def gone(self, segment: LogSegment) -> None:
        """A segment was taken out: nobody will look for its files."""
        if segment in self._closed:
            self._closed = tuple(s for s in self._closed if s is not segment)

    def gather(
        self, directory: str, segments: Iterable[LogSegment], epochs: int
    ) -> tuple[list[str], list[str], FlushMarks]:
        """(files, directories) to sync for the records of `segments`, those that there are, and
        what that achieves. `epochs` counts the changes of the leader epochs.
        """
        synced, closed = self._synced, self._closed
        files = [s.records.path for s in segments if s not in closed]
        for segment in closed:
            files += [part.path for part in segment.parts]
        if closed and self.snapshot is not None:
            files.append(self.snapshot)
        directories = []
        if epochs != synced.epochs:
            files.append(f"{directory}/{LEADER_EPOCH_CHECKPOINT_FILE}")
        if epochs != synced.epochs or self.has_new_names:
            directories.append(directory)
        if self._place != synced.place:
            files.append(f"{directory}/{PARTITION_METADATA_FILE}")
            directories.append(directory.rpartition("/")[0] or "/")
        return files, directories, FlushMarks(self._names, self._place, epochs, closed)

    def synced(self, marks: FlushMarks) -> None:
        """All that `gather` named has been synced; a later flush may have ended earlier."""
        before = self._synced
        self._synced = FlushMarks(
            max(before.names, marks.names),
            max(before.place, marks.place),
            max(before.epochs, marks.epochs),
            (),
        )
        if marks.closed:
            self._closed = tuple(s for s in self._closed if s not in marks.closed)
