"""The segment file that was planned, held open while it is read.

Law: the file that was opened is the one that is read, whichever file has its name later: retention
and the cleaner replace files at any time.
"""

from __future__ import annotations

from errno import ENOENT

from kbroker.log.disk.file_system import File, FileSystem, StorageError
from kbroker.pipeline.logdir.directory.disk_refusal import refused_by_disk
from kbroker.pipeline.logdir.planning.splits import PlannedTask


class HeldSegment:
    """An open segment for one reader after the other: it stands in for the file system of those
    that only open the segment, and for the file that they get.
    """

    def __init__(self, file: File) -> None:
        self.path = file.path
        self.pread = file.pread
        self.size = file.size
        self.release = file.close

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> HeldSegment:
        """Return the segment itself for another reader."""
        assert path == self.path, path
        assert read_only, path
        assert not create, path
        return self

    def close(self) -> None:
        """Leave the file open for the next reader."""


def held_segment(file_system: FileSystem, planned: PlannedTask) -> HeldSegment | None:
    """The segment as it was planned; None if it is gone or another one. Raises PipelineError.

    It is opened first and looked at then: the file that has the name at the look had it at the
    opening.
    """
    path = planned.task.path
    try:
        file = file_system.open(path, read_only=True)
        try:
            if planned.is_current(file_system):
                return HeldSegment(file)
        except StorageError:
            file.close()
            raise
        file.close()
    except StorageError as error:
        if error.errno != ENOENT:
            raise refused_by_disk(error) from error
    return None
