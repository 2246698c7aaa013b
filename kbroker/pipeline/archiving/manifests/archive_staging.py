"""The folder in which the steps of an archive are made ready, and the locks of its writers.

    staging/<job>.lock              held while the job runs: one run of a job at a time
    staging/<job>-<batch>/          removed when the step is published
    staging/<job>-<batch>/<run>/    what the tasks of this run write
    staging/<job>-<batch>/targets   the places files are about to be moved to
    kbroker-archive.lock            held while a step is published: one after the other

Law: no file has a place in the archive before `targets` on the disk names it. So the next run
finds whatever a killed run has left.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from kbroker.log.disk.file_system import FileLock, StorageError
from kbroker.pipeline.archiving.manifests.archive_disk import ArchiveDisk
from kbroker.pipeline.archiving.manifests.archive_reading import LOCK_NAME, STAGING
from kbroker.pipeline.archiving.manifests.manifest import is_file_path
from kbroker.pipeline.errors import PipelineError

_TARGETS = "targets"
_BATCH_DIRECTORY = re.compile(r"(.+)-(\d+)")
_LOCK_PAUSE_S = 0.05
_LOCK_ATTEMPTS = 1_200  # a minute
_REMOVAL_ATTEMPTS = 100


class ArchiveStaging:
    """The folder of one archive. All methods raise StorageError if the disk refuses."""

    def __init__(self, path: str, disk: ArchiveDisk) -> None:
        self._path = path
        self._disk = disk

    def of(self, job: str, batch: int) -> str:
        """Return the directory of a step; it may not exist."""
        return self._named(f"{job}-{batch}")

    def emptied(self, job: str, batch: int) -> str:
        """Return a new directory for the files of a batch, without what earlier runs left of it."""
        above = self.of(job, batch)
        directory = f"{above}/{uuid4().hex}"
        self.remove(above)
        self._disk.make_directory(directory)
        return directory

    def note_targets(self, directory: str, paths: Iterable[str]) -> None:
        """Write down which files of the archive a step is about to make."""
        targets = "".join(f"{path}\n" for path in paths)
        self._disk.write_bytes(f"{directory}/{_TARGETS}", targets.encode(), sync=True)
        self._disk.sync_directory(directory)
        self._disk.sync_directory(self._named(""))

    def lock_of(self, job: str) -> FileLock | None:
        """Return the lock of a job; None if a run of it holds it."""
        return self._disk.lock(self._named(f"{job}.lock"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock for publishing. PipelineError if another run holds it for a minute."""
        lock = self._disk.lock(f"{self._path}/{LOCK_NAME}")
        for _ in range(_LOCK_ATTEMPTS):
            if lock is not None:
                break
            time.sleep(_LOCK_PAUSE_S)
            lock = self._disk.lock(f"{self._path}/{LOCK_NAME}")
        if lock is None:
            raise PipelineError(
                f"another run has been publishing to the archive {self._path} for a minute: "
                "see what it does, and run again"
            )
        try:
            yield
        finally:
            lock.release()

    def remove_leftovers(self, own_job: str, is_known: Callable[[str], bool]) -> None:
        """Remove what earlier runs of this job left, and ended jobs; no files of the archive."""
        for name in self._disk.list(self._named("")):
            matched = _BATCH_DIRECTORY.fullmatch(name)
            if matched is None or not self._disk.is_directory(self._named(name)):
                continue
            lock = None if matched[1] == own_job else self.lock_of(matched[1])
            if matched[1] != own_job and lock is None:
                continue  # its job runs
            try:
                self._remove_batch(self._named(name), is_known)
            finally:
                if lock is not None:
                    lock.release()

    def remove(self, directory: str) -> None:
        """Remove a directory, even while tasks of a killed run still make files in it."""
        for _ in range(_REMOVAL_ATTEMPTS):
            try:
                self._disk.remove_tree(directory)
                return
            except StorageError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                    raise
            time.sleep(_LOCK_PAUSE_S)
        self._disk.remove_tree(directory)

    def _remove_batch(self, directory: str, is_known: Callable[[str], bool]) -> None:
        targets = f"{directory}/{_TARGETS}"
        content = self._disk.read_bytes(targets) if self._disk.exists(targets) else b""
        for path in content.decode(errors="replace").splitlines():
            if not is_file_path(path):
                break  # a list that is not whole: no file has been moved
            if is_known(path):
                continue
            if self._disk.unlink(f"{self._path}/{path}"):
                self._disk.sync_directory(f"{self._path}/{path}".rpartition("/")[0])
        self.remove(directory)

    def _named(self, name: str) -> str:
        return f"{self._path}/{STAGING}/{name}".rstrip("/")
