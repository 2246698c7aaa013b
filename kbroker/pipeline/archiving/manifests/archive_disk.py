"""A disk for archives: a log's file system, with a rename that never replaces a file."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from kbroker.errors import Trouble
from kbroker.log.disk.file_system import FileSystem, RealFileSystem, StorageError
from kbroker.pipeline.errors import PipelineError

_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


class ArchiveDisk(FileSystem, Protocol):
    """A disk that archives are written to."""

    def rename_new(self, source: str, target: str) -> None:
        """Rename atomically; raises StorageError with EEXIST if `target` is there already."""
        ...


class RealArchiveDisk(RealFileSystem):
    """The operating system's files."""

    def rename_new(self, source: str, target: str) -> None:
        """Rename by a second name: a plain rename would replace another writer's file."""
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise StorageError(target, "create", error.errno or 0) from error
            # A file system without hard links: the archive's lock alone keeps others out.
            if os.path.exists(target):
                raise StorageError(target, "create", errno.EEXIST) from error
            self.rename(source, target)
            return
        self.unlink(source)


@contextmanager
def disk_sentences(path: str) -> Iterator[None]:
    """Turn trouble of the disk into the sentence that ends a job."""
    try:
        yield
    except StorageError as error:
        raise PipelineError(disk_sentence(path, error), trouble=Trouble.ARCHIVE) from error


def disk_sentence(path: str, error: StorageError) -> str:
    """Return a sentence about a failure of the disk that holds the archive in `path`."""
    advice = "make room" if error.is_out_of_space else "fix that"
    return (
        f"the archive {path} cannot be written: {error}; this step added nothing to it: "
        f"{advice}, and run again"
    )
