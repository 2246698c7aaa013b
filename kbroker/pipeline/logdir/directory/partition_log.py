"""One partition's log on disk as its readers may see it: segments, first offset, end.

Where a log ends:

- A running broker (its `.lock` is held) says how far the replicas agree: readable is what lies
  below the high watermark in `replication-offset-checkpoint`, which follows within five seconds.
  A partition that the file does not name yet has nothing to read.
- A dead directory is read as its broker, started alone, would serve it: to the end of the log.
  After a clean stop the log ends with its last batch. After any other, batches from the recovery
  point on count as far as a recovery would leave them (`record.batch_order`); what follows the
  first that does not count is gone. The high watermark file is no bound
  then: it is as old as its last writing, and a broker without followers had promised more. What
  other replicas never got may be among these records.

A log starts with its first segment, or with the offset that DeleteRecords left in
`log-start-offset-checkpoint`. Law: nothing is written and nothing locked; whoever removes or
replaces segments meanwhile makes the directory be listed again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from errno import ENOENT
from uuid import UUID

from kbroker.inspection.log_directory_view import PartitionView
from kbroker.inspection.log_paths import PartitionDirectory
from kbroker.inspection.partition_files import PartitionFiles, sort_files
from kbroker.inspection.segment_scan import SegmentScan
from kbroker.log.directories.checkpoint import CheckpointError, read_partition_metadata
from kbroker.log.file_system import FileSystem, RealFileSystem, StorageError
from kbroker.log.format import (
    LOG_SUFFIX,
    MAX_OFFSET,
    MAX_RELATIVE_OFFSET,
    SWAP_SUFFIX,
    log_file,
)
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.disk_refusal import refused_by_disk
from kbroker.pipeline.logdir.directory.lock_probe import is_locked
from kbroker.pipeline.logdir.directory.segment_lookup import SegmentLookup
from kbroker.record.batch_order import is_older, misses_records_before, recoverable

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
    """The disk of this machine."""
    return Disk(RealFileSystem())


@dataclass(frozen=True, slots=True)
class SegmentFile:
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
    segments: tuple[SegmentFile, ...]  # by base offset
    snapshot_offsets: tuple[int, ...]
    start_offset: int
    end_offset: int
    trusted_offset: int  # before it, indexes and snapshots were written by a broker that lived on
    is_live: bool


def find_log(
    disk: Disk, directory: PartitionDirectory, view: PartitionView, *, is_live: bool
) -> PartitionLog | None:
    """The log in a partition directory; None where the directory went meanwhile."""
    for _ in range(_LISTINGS):
        try:
            listed = _listed(disk, directory.path, is_live=is_live)
            if listed is None:
                disk.pause()
                continue
            files, segments = listed
            return _bounded(disk, directory, view, files, segments, is_live=is_live)
        except StorageError as error:
            if error.errno != ENOENT:
                raise refused_by_disk(error) from error
            if not disk.file_system.exists(directory.path):
                return None
    raise PipelineError(
        f"{directory.path} does not come to rest: its segments are replaced all the time; try again"
    )


def find_segments(file_system: FileSystem, directory: str) -> tuple[SegmentFile, ...]:
    """The segments that lie there now, by base offset. Raises StorageError."""
    return _segments(file_system, directory, sort_files(file_system.list(directory)))


def _segments(
    file_system: FileSystem, directory: str, files: PartitionFiles
) -> tuple[SegmentFile, ...]:
    found = []
    for base_offset in files.base_offsets:
        path = log_file(directory, base_offset)
        size, modified_ms = file_system.size(path), file_system.modified_ms(path)
        found.append(SegmentFile(base_offset, size, modified_ms))
    return tuple(found)


def _listed(
    disk: Disk, directory: str, *, is_live: bool
) -> tuple[PartitionFiles, tuple[SegmentFile, ...]] | None:
    """Its files; None while a broker is replacing segments. Raises StorageError."""
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
    """Where the last file ends, agreed upon by the replicas or not. Raises StorageError."""
    if not log.is_live or not log.segments:
        return log.end_offset
    base_offset = log.segments[-1].base_offset
    lookup = SegmentLookup(file_system, log.directory, base_offset)
    end_offset = base_offset
    scan = SegmentScan(file_system, lookup.path, checks_crc=False, start=lookup.last())
    for batch in scan.batches():
        end_offset = batch.header.next_offset
    return max(end_offset, log.end_offset)


def reaching(file_system: FileSystem, log: PartitionLog, end_offset: int) -> PartitionLog:
    """The log with all that its files hold, where that reaches an offset up to which it could be
    read before: a broker that was started anew speaks of less for a while. Raises StorageError.
    """
    written = written_end(file_system, log)
    return replace(log, end_offset=written) if written >= end_offset else log


def _are_sources_going(names: list[str]) -> bool:
    """Whether a cleaned segment is taking the place of others, and those are not whole any more: of
    its sources the first goes first, and has its name.
    """
    swaps = (name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    return any(name.removesuffix(SWAP_SUFFIX) not in names for name in swaps)


def _bounded(
    disk: Disk,
    directory: PartitionDirectory,
    view: PartitionView,
    files: PartitionFiles,
    segments: tuple[SegmentFile, ...],
    *,
    is_live: bool,
) -> PartitionLog:
    start_offset = max(view.log_start_offset or 0, segments[0].base_offset if segments else 0)
    if is_live:
        end_offset = view.high_watermark or 0
        trusted_offset = end_offset
    elif not segments:
        end_offset = trusted_offset = start_offset
    elif view.was_clean:
        end_offset = trusted_offset = _clean_end(disk, directory.path, view, segments)
    else:
        end_offset = _recovered_end(disk.file_system, directory.path, view, segments)
        trusted_offset = view.recovery_point or 0
    if start_offset > end_offset and not is_live and any(s.size_bytes for s in segments):
        start_offset = segments[0].base_offset  # no record goes because a number says so
    return PartitionLog(
        directory=directory.path,
        topic_partition=directory.topic_partition,
        topic_id=_topic_id(disk.file_system, directory.path),
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
        return None  # an audit tells of it; the records are no worse for it


def _clean_end(
    disk: Disk, directory: str, view: PartitionView, segments: tuple[SegmentFile, ...]
) -> int:
    """The end of a log that was stopped cleanly.

    Where its last batch is broken, the recovery point tells how far the log went: whoever reads so
    far shall meet the damage.
    """
    lookup = SegmentLookup(disk.file_system, directory, segments[-1].base_offset)
    scan = SegmentScan(disk.file_system, lookup.path, checks_crc=False, start=lookup.last())
    end_offset = segments[-1].base_offset
    for batch in scan.batches():
        end_offset = batch.header.next_offset
    return max(end_offset, view.recovery_point or 0) if scan.tail is not None else end_offset


def _recovered_end(
    file_system: FileSystem, directory: str, view: PartitionView, segments: tuple[SegmentFile, ...]
) -> int:
    """The end of a log whose broker was killed, as recovery would find it."""
    recovery_point = view.recovery_point or 0
    first = max((i for i, s in enumerate(segments) if s.base_offset <= recovery_point), default=0)
    recovery = _Recovery(file_system, directory, view)
    end_offset = recovery.end_of(segments[first:])
    if end_offset < recovery_point:
        end_offset = recovery.end_of(segments)
    return end_offset


class _Recovery:
    """Finds where `LogLoader` would cut a log; what was found to be cut stays so."""

    def __init__(self, file_system: FileSystem, directory: str, view: PartitionView) -> None:
        self._file_system = file_system
        self._directory = directory
        self._gapless_from = MAX_OFFSET if view.gaps_up_to is None else view.gaps_up_to
        self._gaps_up_to = max(self._gapless_from, view.log_start_offset or 0)
        self._cut: tuple[int, int] | None = None  # base offset of the last segment, bytes kept

    def end_of(self, segments: Sequence[SegmentFile]) -> int:
        """The end offset, up to the first batch that does not count."""
        last, kept_before = self._cut or (MAX_OFFSET, None)
        bases = [segment.base_offset for segment in segments if segment.base_offset <= last]
        segment_ends = [*bases[1:], bases[-1] + MAX_RELATIVE_OFFSET + 1]
        end_offset, epoch, kept = bases[0], -1, 0
        for before, base_offset, segment_end in zip(
            [None, *bases], bases, segment_ends, strict=False
        ):
            if before is not None and self._is_cut_off(base_offset, end_offset, epoch):
                self._cut = before, kept
                return end_offset
            scan = SegmentScan(
                self._file_system, log_file(self._directory, base_offset), checks_crc=True
            )
            end_offset, kept = base_offset, 0
            counting = recoverable(
                scan.intact(kept_before if base_offset == last else None),
                base_offset,
                segment_end,
                gapless_from=self._gapless_from,
            )
            for _, header, position, _ in deque(counting, maxlen=1):
                end_offset, epoch = header.next_offset, header.partition_leader_epoch
                kept = position + header.size_bytes
            if kept < scan.size_bytes:
                self._cut = base_offset, kept
                return end_offset
        return end_offset

    def _is_cut_off(self, base_offset: int, end_offset: int, epoch: int) -> bool:
        path = log_file(self._directory, base_offset)
        return misses_records_before(base_offset, end_offset, self._gaps_up_to) or is_older(
            base_offset, _first_epoch(self._file_system, path), epoch, self._gapless_from
        )


def _first_epoch(file_system: FileSystem, path: str) -> int:
    """The leader epoch of the first batch, checked against nothing; -1 where there is none."""
    batches = SegmentScan(file_system, path, checks_crc=False).batches()
    return next((batch.header.partition_leader_epoch for batch in batches), -1)
