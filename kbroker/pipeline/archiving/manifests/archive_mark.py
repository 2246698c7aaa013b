"""Makes a directory an archive, once."""

from __future__ import annotations

import errno
from functools import cache
from importlib import metadata
from uuid import uuid4

from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.pipeline.archiving.manifests.archive_disk import ArchiveDisk
from kbroker.pipeline.archiving.manifests.archive_reading import (
    LOCK_NAME,
    MANIFESTS,
    MARK_NAME,
    STAGING,
    ArchiveMark,
    read_mark,
)
from kbroker.pipeline.archiving.manifests.manifest import seal
from kbroker.pipeline.errors import ExitCode, PipelineError


@cache
def own_version() -> str:
    """Return the version of kbroker, kept: looking it up takes longer than some batches."""
    return metadata.version("kbroker")


def check_target(path: str, disk: FileSystem) -> ArchiveMark | None:
    """Return an archive's mark, None if a new one may begin here; PipelineError if it may not."""
    if not disk.exists(path):
        return None
    if not disk.is_directory(path):
        raise PipelineError(f"{path} is a file: give a directory as archive", ExitCode.USAGE)
    mark = read_mark(path, disk)
    if mark is not None:
        return mark
    try:
        foreign = _foreign_names(path, disk)
    except StorageError as error:
        raise PipelineError(f"{path} cannot be used as archive: {error}") from error
    if foreign:
        raise PipelineError(
            f"{path} is not an archive and not empty (it has {foreign[0]}): give an empty or a new "
            f"directory",
            ExitCode.USAGE,
        )
    return None


def _foreign_names(path: str, disk: FileSystem) -> list[str]:
    """List the names that no run killed before the archive was made can have left."""
    ours = [STAGING, LOCK_NAME]
    names = disk.list(path)
    if MANIFESTS in names and not disk.list(f"{path}/{MANIFESTS}"):
        ours.append(MANIFESTS)
    return [name for name in names if name not in ours]


def claim_directory(path: str, disk: ArchiveDisk, now_ms: int) -> None:
    """Make a directory an archive, unless it is one. The archive's lock is held."""
    disk.make_directory(f"{path}/{STAGING}")
    temporary = f"{path}/{STAGING}/{MARK_NAME}"
    if check_target(path, disk) is not None:
        disk.unlink(temporary)  # of a run that was killed
        return
    disk.make_directory(f"{path}/{MANIFESTS}")
    mark = ArchiveMark(archive_id=str(uuid4()), kbroker_version=own_version(), created_ms=now_ms)
    disk.write_bytes(temporary, seal(mark), sync=True)
    try:
        disk.rename_new(temporary, f"{path}/{MARK_NAME}")
    except StorageError as error:
        if error.errno != errno.EEXIST:
            raise
        disk.unlink(temporary)  # another run has just made it one
    disk.sync_directory(path)
    disk.sync_directory(path.rpartition("/")[0] or "/")
