"""The only way to make a step part of an archive: stage it, move its files to their places, then
write a manifest.

Law: until its manifest has its name, nothing of a step is part of the archive, and whatever it left
(staged files, files already moved) is removed by the next writer, see `archive_staging`. A step
with a manifest is done. Neither files nor manifests ever replace others, so that even if locks do
not reach (some network file systems) one of two writers ends with a sentence.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Self, TypeVar

from kbroker.client.wall_clock import unix_now_ms
from kbroker.log.disk.file_system import StorageError
from kbroker.pipeline.archiving.manifests.archive_disk import (
    ArchiveDisk,
    RealArchiveDisk,
    disk_sentences,
)
from kbroker.pipeline.archiving.manifests.archive_mark import (
    check_target,
    claim_directory,
    own_version,
)
from kbroker.pipeline.archiving.manifests.archive_reading import (
    MANIFESTS,
    SNAPSHOT_EVERY,
    manifest_path,
    read_archive,
    refresh,
    snapshot_path,
)
from kbroker.pipeline.archiving.manifests.archive_staging import ArchiveStaging
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.archiving.manifests.covered_ranges import gaps, overlap
from kbroker.pipeline.archiving.manifests.manifest import (
    EpochNote,
    FileEntry,
    GroupOffsets,
    HoleEntry,
    Manifest,
    ManifestError,
    ManifestKind,
    RangeEntry,
    check_names,
    encode_manifest,
    seal,
    unbalanced_partition,
)
from kbroker.pipeline.errors import PipelineError

_T = TypeVar("_T")

_SNAPSHOTS_KEPT = 2  # the one before the last is for readers that have just found it


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A finished file on the disk, synced, with its entry for a manifest."""

    staged_path: str
    entry: FileEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveStep:
    """The content of a new manifest; of settings and counts of partitions, what is new in them."""

    kind: ManifestKind
    batch: int
    ranges: tuple[RangeEntry, ...] = ()
    holes: tuple[HoleEntry, ...] = ()
    files: tuple[StagedFile, ...] = ()
    removed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    json_schemas: Mapping[str, str] | None = None
    topic_ids: Mapping[str, str] | None = None
    cluster_ids: Mapping[str, str] | None = None
    leader_epochs: tuple[EpochNote, ...] = ()
    topic_settings: Mapping[str, dict[str, str]] | None = None
    partition_counts: Mapping[str, int] | None = None
    group_offsets: GroupOffsets | None = None


class ArchiveWriter:
    """A job's access to an archive; a context manager. One per job, owned by its driver."""

    def __init__(
        self,
        path: str,
        job: str,
        disk: ArchiveDisk | None = None,
        now_ms: Callable[[], int] = unix_now_ms,
    ) -> None:
        self.job = job
        self.path = self._path = path = os.path.abspath(path)
        self._disk = disk or RealArchiveDisk()
        self._staging = ArchiveStaging(path, self._disk)
        self._now_ms = now_ms
        with disk_sentences(path):
            check_target(path, self._disk)
            self._disk.make_directory(path)
            with self._staging.locked():
                claim_directory(path, self._disk, self._now_ms())
            self._job_lock = self._staging.lock_of(job)
            if self._job_lock is None:
                raise PipelineError(
                    f"job {job} already runs on the archive {path}: wait for it, or stop it"
                )
            try:
                self.state: ArchiveState = read_archive(path, self._disk)
                with self._staging.locked():
                    refresh(self.state, self._disk)
                    self._staging.remove_leftovers(job, self._is_known)
            except BaseException:
                self._job_lock.release()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another run of the job have the archive."""
        if self._job_lock is not None:
            self._job_lock.release()
            self._job_lock = None

    def is_done(self, batch: int, ranges: Iterable[RangeEntry]) -> bool:
        """Return whether this batch was published before; PipelineError if the archive holds some
        of its offsets from elsewhere, or skipped some.
        """
        with disk_sentences(self._path):
            refresh(self.state, self._disk)
        if batch > self.state.jobs.get(self.job, -1):
            for entry in ranges:
                self._refuse_overlap(entry)
            return False
        for entry in ranges:
            known = self.state.ranges.get(entry.topic_partition, ())
            missing = gaps(known, (entry.start_offset, entry.end_offset))
            if missing:
                raise PipelineError(
                    f"batch {batch} is in the archive {self._path}, but not with the offsets "
                    f"{missing[0].start_offset} to {missing[0].end_offset - 1} of "
                    f"{entry.topic_partition}: the checkpoint is a copy from another time; "
                    "begin with a new --checkpoint, which continues where the archive ends"
                )
        return True

    def staging_directory(self, batch: int) -> str:
        """Return an empty directory for the files of a batch, under a new name: tasks of a killed
        run may live a little longer, and find theirs gone.
        """
        with disk_sentences(self._path):
            return self._staging.emptied(self.job, batch)

    def give_up(self, batch: int) -> None:
        """Remove what the tasks of an unpublished batch left: a full disk should not stay full. The
        next run finds what cannot be removed.
        """
        with suppress(StorageError):
            self._staging.remove(self._staging.of(self.job, batch))

    def publish(self, step: ArchiveStep) -> Manifest:
        """Make a step part of the archive. Afterwards it is on the disk."""
        with disk_sentences(self._path), self._staging.locked():
            refresh(self.state, self._disk)
            manifest = self._manifest(step)
            self._refuse(manifest)
            directory = self._staging.of(self.job, step.batch)
            self._disk.make_directory(directory)
            self._move_files(directory, step.files)
            self._write_manifest(directory, manifest)
            self.state.apply(manifest)
            self._write_snapshot(directory)
            self._staging.remove(directory)
        return manifest

    def delete_removed(self, older_than_ms: int) -> int:
        """Delete the files that readers left this long ago; return how many. A file stays that long
        for those who have read the manifests and not yet the file.
        """
        before_ms = self._now_ms() - older_than_ms
        paths = tuple(path for path, at_ms in self.state.waiting.items() if at_ms <= before_ms)
        if not paths:
            return 0
        with disk_sentences(self._path), self._staging.locked():
            refresh(self.state, self._disk)
            for path in paths:
                self._disk.unlink(f"{self._path}/{path}")
        self.publish(ArchiveStep(kind="clean", batch=self.next_batch(), deleted=paths))
        return len(paths)

    def next_batch(self) -> int:
        return self.state.number + 1

    def _is_known(self, path: str) -> bool:
        return path in self.state.files or path in self.state.waiting

    # Before a step

    def _manifest(self, step: ArchiveStep) -> Manifest:
        return Manifest(
            archive_id=self.state.archive_id,
            number=self.state.number + 1,
            kind=step.kind,
            kbroker_version=own_version(),
            written_ms=self._now_ms(),
            job=self.job,
            batch=step.batch,
            ranges=step.ranges,
            holes=step.holes,
            added=tuple(staged.entry for staged in step.files),
            removed=step.removed,
            deleted=step.deleted,
            json_schemas=dict(step.json_schemas or {}),
            topic_ids=dict(step.topic_ids or {}),
            cluster_ids=dict(step.cluster_ids or {}),
            leader_epochs=step.leader_epochs,
            topic_settings=_news(step.topic_settings, self.state.topic_settings),
            partition_counts=_news(step.partition_counts, self.state.partition_counts),
            group_offsets=dict(step.group_offsets or {}),
        )

    def _refuse(self, manifest: Manifest) -> None:
        try:
            check_names(manifest)  # before a file has its place, or the archive cannot be read
        except ManifestError as error:
            raise PipelineError(
                f"nothing was written to the archive {self._path}: its manifest {error}"
            ) from error
        self.state.refuse_other_topics(manifest.topic_ids)
        for entry in manifest.ranges:
            self._refuse_overlap(entry)
        for path in manifest.removed:
            if path not in self.state.files:
                raise PipelineError(
                    f"{path} was removed from the archive {self._path} by another run: run again"
                )
        if manifest.kind == "batch" and (wrong := unbalanced_partition(manifest)) is not None:
            raise PipelineError(
                f"batch {manifest.batch} was not archived: {wrong}; the source gave other records "
                "than its offsets promise"
            )

    def _refuse_overlap(self, entry: RangeEntry) -> None:
        known = self.state.ranges.get(entry.topic_partition, ())
        twice = overlap(known, (entry.start_offset, entry.end_offset))
        if twice is not None:
            raise PipelineError(
                f"offsets {twice.start_offset} to {twice.end_offset - 1} of "
                f"{entry.topic_partition} are in the archive {self._path} already: begin with a "
                "new --checkpoint, which continues where the archive ends; let one job archive a "
                "topic, and give a topic that was created again another archive"
            )

    # A step

    def _move_files(self, directory: str, files: tuple[StagedFile, ...]) -> None:
        if not files:
            return
        for staged in files:
            if self._disk.exists(f"{self._path}/{staged.entry.path}"):
                raise self._stray(staged)  # before it is noted: the next run removes noted files
        self._staging.note_targets(directory, [staged.entry.path for staged in files])
        folders = {staged.entry.path.rpartition("/")[0] for staged in files}
        for folder in sorted(folders):
            self._disk.make_directory(f"{self._path}/{folder}")
        for staged in files:
            self._move(staged)
        for folder in sorted(_with_parents(folders)):
            self._disk.sync_directory(f"{self._path}/{folder}".rstrip("/"))

    def _move(self, staged: StagedFile) -> None:
        try:
            self._disk.rename_new(staged.staged_path, f"{self._path}/{staged.entry.path}")
        except StorageError as error:
            if error.errno != errno.EEXIST:
                raise
            raise self._stray(staged) from error

    def _stray(self, staged: StagedFile) -> PipelineError:
        return PipelineError(
            f"{self._path}/{staged.entry.path} is there, and no manifest names it: if no other "
            "kbroker writes to this archive, remove it, and run again"
        )

    def _write_manifest(self, directory: str, manifest: Manifest) -> None:
        temporary = f"{directory}/manifest"
        self._disk.write_bytes(temporary, encode_manifest(manifest), sync=True)
        try:
            self._disk.rename_new(temporary, manifest_path(self._path, manifest.number))
        except StorageError as error:
            if error.errno != errno.EEXIST:
                raise
            raise PipelineError(
                f"another writer published manifest {manifest.number} of the archive {self._path} "
                "at the same time: nothing of this step is part of it; run again"
            ) from error
        self._disk.sync_directory(f"{self._path}/{MANIFESTS}")

    def _write_snapshot(self, directory: str) -> None:
        if (self.state.number + 1) % SNAPSHOT_EVERY:
            return
        temporary = f"{directory}/snapshot"
        try:
            self._disk.write_bytes(temporary, seal(self.state.snapshot()), sync=True)
            self._disk.rename(temporary, snapshot_path(self._path, self.state.number))
            old_number = self.state.number - _SNAPSHOTS_KEPT * SNAPSHOT_EVERY
            if old_number >= 0:
                self._disk.unlink(snapshot_path(self._path, old_number))
        except StorageError:
            pass  # it only saves time, and the step is published


def _news(told: Mapping[str, _T] | None, known: Mapping[str, _T]) -> dict[str, _T]:
    """Keep what no manifest says yet: a run of many batches would repeat it in each."""
    return {topic: each for topic, each in (told or {}).items() if known.get(topic) != each}


def _with_parents(folders: Iterable[str]) -> set[str]:
    """Return the folders and all above them up to the archive's directory, which is ""."""
    found = {""}
    for folder in folders:
        parts = folder.split("/")
        found |= {"/".join(parts[:count]) for count in range(1, len(parts) + 1)}
    return found
