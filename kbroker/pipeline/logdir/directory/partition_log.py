"""One partition's log on disk as its readers may see it: segments, first offset, end.

Where a log ends:

- A running broker (its `.lock` is held) says how far the replicas agree: records below the high
  watermark in `replication-offset-checkpoint`, which follows within five seconds, are readable.
  A partition that the file does not name yet has nothing to read.
- A dead directory is read as its broker, started alone, would serve it: to the end of the log
  (`dead_log_end`).

A log starts with its first segment, or with the offset that DeleteRecords left in
`log-start-offset-checkpoint`. Law: nothing is written or locked, because a broker may be at work;
if it removes or replaces segments meanwhile, the directory is listed again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from errno import ENOENT
from uuid import UUID

from kbroker.inspection.data_directory import PartitionDirectory
from kbroker.inspection.partition_files import PartitionFiles, sort_files
from kbroker.log.disk.checkpoint import CheckpointError, read_partition_metadata
from kbroker.log.disk.file_system import FileSystem, RealFileSystem, StorageError
from kbroker.log.disk.format import LOG_SUFFIX, SWAP_SUFFIX, log_file
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.dead_log_end import clean_end, recovered_end
from kbroker.pipeline.logdir.directory.disk_refusal import refused_by_disk
from kbroker.pipeline.logdir.directory.lock_probe import is_locked
from kbroker.pipeline.logdir.directory.segment_lookup import SegmentLookup

_LISTINGS = 50  # of a directory in which files come and go
_PAUSE_S = 0.02


def _pause() -> None:
    time.sleep(_PAUSE_S)


@dataclass(frozen=True, slots=True)
class Disk:
    """The files, and what is known of who uses them."""

    file_system: FileSystem
    is_locked: Callable[[str], bool] = is_locked  # of a data directory: a broker runs on it
    pause: Callable[[], None] = _pause  # while a broker moves files


def real_disk() -> Disk:
    return Disk(RealFileSystem())


@dataclass(frozen=True, slots=True)
class FoundSegment:
    """A segment as it was found; what was closed then must look the same when it is read."""

    base_offset: int
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLog:
    """Readable are the offsets from `start_offset` to `end_offset`, exclusive."""

    directory: str
    topic_partition: TopicPartition
    topic_id: UUID | None  # None: not known, as of all logs from before Kafka 2.8
    segments: tuple[FoundSegment, ...]  # by base offset
    snapshot_offsets: tuple[int, ...]
    start_offset: int
    end_offset: int
    trusted_offset: int  # before it, indexes and snapshots were written by a broker that lived on
    is_live: bool


def find_log(disk: Disk, directory: PartitionDirectory, *, is_live: bool) -> PartitionLog | None:
    """The log in a partition directory; None if the directory went meanwhile."""
    for _ in range(_LISTINGS):
        try:
            listed = _listed(disk, directory.path, is_live=is_live)
            if listed is None:
                disk.pause()
                continue
            files, segments = listed
            return _bounded(disk, directory, files, segments, is_live=is_live)
        except StorageError as error:
            if error.errno != ENOENT:
                raise refused_by_disk(error) from error
            if not disk.file_system.exists(directory.path):
                return None
    raise PipelineError(
        f"{directory.path} keeps changing: its segments are replaced all the time; try again"
    )


def find_segments(file_system: FileSystem, directory: str) -> tuple[FoundSegment, ...]:
    """List the segments that lie there now, by base offset. Raises StorageError."""
    return _segments(file_system, directory, sort_files(file_system.list(directory)))


def _segments(
    file_system: FileSystem, directory: str, files: PartitionFiles
) -> tuple[FoundSegment, ...]:
    found = []
    for base_offset in files.base_offsets:
        path = log_file(directory, base_offset)
        size, modified_ms = file_system.size(path), file_system.modified_ms(path)
        found.append(FoundSegment(base_offset, size, modified_ms))
    return tuple(found)


def _listed(
    disk: Disk, directory: str, *, is_live: bool
) -> tuple[PartitionFiles, tuple[FoundSegment, ...]] | None:
    """List the files; None while a broker is replacing segments. Raises StorageError."""
    file_system = disk.file_system
    names = file_system.list(directory)
    if _are_sources_going(names):
        if is_live:
            return None
        raise PipelineError(
            f"{directory} holds a cleaned segment that was replacing others when its broker died: "
            "start the broker once, which finishes that"
        )
    files = sort_files(names)
    segments = _segments(file_system, directory, files)
    if is_live and file_system.list(directory) != names:
        return None
    return files, segments


def written_end(file_system: FileSystem, log: PartitionLog) -> int:
    """The end of the last file, agreed upon by the replicas or not. Raises StorageError."""
    if not log.is_live or not log.segments:
        return log.end_offset
    lookup = SegmentLookup(file_system, log.directory, log.segments[-1].base_offset)
    return max(lookup.end()[0], log.end_offset)


def reaching(file_system: FileSystem, log: PartitionLog, end_offset: int) -> PartitionLog:
    """The log with all that its files hold, if that reaches an offset up to which it was readable
    before: a broker that was restarted shows less for a while. Raises StorageError.
    """
    written = written_end(file_system, log)
    return replace(log, end_offset=written) if written >= end_offset else log


def _are_sources_going(names: list[str]) -> bool:
    """True if a cleaned segment is taking the place of others that are not whole any more: its
    first source goes first, and has its name.
    """
    swaps = (name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    return any(name.removesuffix(SWAP_SUFFIX) not in names for name in swaps)


def _bounded(
    disk: Disk,
    directory: PartitionDirectory,
    files: PartitionFiles,
    segments: tuple[FoundSegment, ...],
    *,
    is_live: bool,
) -> PartitionLog:
    file_system, view = disk.file_system, directory.view
    bases = [segment.base_offset for segment in segments]
    start_offset = max(view.log_start_offset or 0, bases[0] if bases else 0)
    if is_live:
        end_offset = view.high_watermark or 0
        trusted_offset = end_offset
    elif not segments:
        end_offset = trusted_offset = start_offset
    elif view.was_clean:
        end_offset = trusted_offset = clean_end(file_system, directory, bases)
    else:
        end_offset = recovered_end(file_system, directory, bases)
        trusted_offset = view.recovery_point or 0
    if start_offset > end_offset and not is_live and any(s.size_bytes for s in segments):
        start_offset = bases[0]  # no record goes because a number says so
    return PartitionLog(
        directory=directory.path,
        topic_partition=directory.topic_partition,
        topic_id=_topic_id(file_system, directory.path),
        segments=segments,
        snapshot_offsets=tuple(files.snapshot_offsets),
        start_offset=start_offset,
        end_offset=max(end_offset, start_offset),
        trusted_offset=trusted_offset,
        is_live=is_live,
    )


def _topic_id(file_system: FileSystem, directory: str) -> UUID | None:
    try:
        return read_partition_metadata(file_system, directory)
    except CheckpointError:
        return None  # an audit reports it; the records are no worse for it
