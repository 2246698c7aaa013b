"""The segment a cleaning writes: `.cleaned` files that nobody else knows until they are whole.

Law: after `finish` the content of its files is on the disk, and they look as if the log had written
them, with the modification time of the newest source: the swap that follows deletes the sources,
and retention reads that time.
"""

from __future__ import annotations

from collections.abc import Callable

from kbroker.log.cleaner.cleaning_job import CleaningJob
from kbroker.log.disk.file_system import Bytes, FileSystem
from kbroker.log.disk.format import CLEANED_SUFFIX
from kbroker.log.segments.index_making import IndexMaking
from kbroker.log.segments.segment_files import SegmentConfig, SegmentFiles
from kbroker.log.segments.transaction_index import AbortedTxn
from kbroker.record.record_batch import BatchHeader


class CleanedSegment:
    """Takes batches in the order of their offsets. Owned by one cleaning."""

    def __init__(
        self,
        file_system: FileSystem,
        job: CleaningJob,
        base_offset: int,
        before_write: Callable[[int], None],
    ) -> None:
        """Start over if an earlier cleaning left files; `before_write` hears how many bytes go
        next.
        """
        self._file_system = file_system
        self._before_write = before_write
        self._buffer = bytearray()
        self._buffer_bytes = job.limits.read_bytes
        config = SegmentConfig(
            index_interval_bytes=job.index_interval_bytes,
            segment_index_bytes=job.segment_index_bytes,
        )
        stale = self._open(job.directory, base_offset, config)
        stale.delete()
        self._segment = self._open(job.directory, base_offset, config)
        self._segment.records.create()
        self._indexes = IndexMaking(
            self._segment.offset_index, self._segment.time_index, job.index_interval_bytes
        )
        self._position = 0

    def append(self, header: BatchHeader, batch: Bytes) -> None:
        """Add a batch, entered into the indexes as `LogSegment.append` does."""
        self._indexes.enter(self._position, header)
        self._position += len(batch)
        self._buffer += batch
        if len(self._buffer) >= self._buffer_bytes:
            self._write_out()

    def append_abort(self, aborted: AbortedTxn) -> None:
        """Note an aborted transaction whose marker is in this segment."""
        self._segment.transaction_index.append(aborted)

    def finish(self, modified_ms: int) -> None:
        """Give all files their final size and bring them to the disk; their names follow later."""
        self._write_out()
        segment = self._segment
        segment.time_index.maybe_append(*self._indexes.largest, closing=True)
        segment.offset_index.trim()
        segment.time_index.trim()
        self._file_system.set_modified_ms(segment.records.path, modified_ms)
        segment.sync()
        segment.records.close()

    def abandon(self) -> None:
        self._segment.delete()

    def _write_out(self) -> None:
        if self._buffer:
            self._before_write(len(self._buffer))
            self._segment.records.append(self._buffer)
            self._buffer = bytearray()

    def _open(self, directory: str, base_offset: int, config: SegmentConfig) -> SegmentFiles:
        return SegmentFiles(
            self._file_system, directory, base_offset, config, suffix=CLEANED_SUFFIX
        )
