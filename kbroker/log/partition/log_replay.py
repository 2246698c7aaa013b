"""Reads a whole log, for a coordinator that starts, say: batch after batch, with a gap in place of
what cannot be read.

Law: damage hides nothing but itself. Every batch that comes out is whole and its checksum right,
whoever wrote it; what is missing comes out as a gap, with its offsets and its file. Only a log that
its disk has failed ends the reading.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.producers.producer_state import ProducerStateManager
from kbroker.log.segments.fetch_data_info import FetchDataInfo, FetchIsolation
from kbroker.log.segments.file_records import FileRecords
from kbroker.log.segments.found_records import DamagedBatchError
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.log_segments import LogSegments
from kbroker.record.legacy_record import HEADER_SIZE_UP_TO_MAGIC, is_intact, read_any_header
from kbroker.record.record_batch import MAGIC, BatchHeader

READ_BYTES = 64 * 1024
MISSING = "missing"  # nothing is there, and nothing says that the cleaner took it

_log = logging.getLogger(__name__)


class ReplayGap(NamedTuple):
    """Offsets that cannot be read (exclusive end), the file they are in, and why."""

    offset: int
    next_offset: int
    path: str
    reason: str

    def __str__(self) -> str:
        return f"offsets {self.offset} to {self.next_offset - 1} in {self.path} ({self.reason})"


class WholeBatch(NamedTuple):
    """A batch whose checksum is right, and the file it is in."""

    header: BatchHeader
    data: memoryview
    path: str


class ReplayedLog(Protocol):
    """The part of a log that a replay needs; `segments` only if something is damaged."""

    segments: LogSegments

    @property
    def producer_state(self) -> ProducerStateManager: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def cleaned_end_offset(self) -> int | None: ...

    def read(
        self, offset: int, max_bytes: int, isolation: FetchIsolation, min_one_message: bool
    ) -> FetchDataInfo: ...


class LogReplay:
    """One reading of a log from its start to the end it has now."""

    def __init__(self, log: ReplayedLog) -> None:
        self._log = log
        self._offset = log.log_start_offset
        self._end_offset = log.log_end_offset
        self._read_to: tuple[FileRecords | None, int] = (None, 0)  # a file, and where in it
        self._doubted: int | None = None  # base offset of the segment that is checked again

    def __iter__(self) -> Iterator[WholeBatch | ReplayGap]:
        """Batches and gaps in the order of the log. Raises KafkaError KAFKA_STORAGE_ERROR if the
        disk refuses.
        """
        log = self._log
        while self._offset < min(self._end_offset, log.log_end_offset):
            self._offset = max(self._offset, log.log_start_offset)
            begun_at = self._offset, self._doubted
            try:
                yield from self._read()
                if (self._offset, self._doubted) == begun_at:
                    yield from self._nothing_there()
            except DamagedBatchError as error:
                yield self._skip_to(error.next_offset, error.path, "damaged")
            except KafkaError as error:
                if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                    raise
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:  # the start has moved
                    yield from self._doubt(error.reason)
            except StorageError as error:
                if error.is_passing:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
                yield self._skip_segment(str(error))
            except Exception as error:  # whatever it is, the other segments can be read
                _log.exception("Unexpected error while reading %s", self._segment().records.path)
                yield self._skip_segment(str(error))

    def _read(self) -> Iterator[WholeBatch | ReplayGap]:
        """Yield the batches of one read of the log; a batch that it cut off is left to the next
        read.
        """
        info = self._log.read(self._offset, READ_BYTES, FetchIsolation.LOG_END, True)
        data, path = memoryview(info.records.read()), info.records.records.path
        if self._has_passed_bytes(info.records.records):
            yield from self._doubt("no batch")
            return
        position = 0
        while len(data) - position >= HEADER_SIZE_UP_TO_MAGIC:
            try:
                header = read_any_header(data, position)
            except KafkaError:
                if position:
                    return  # cut inside the header, or damaged: the next read begins here
                raise
            end = position + header.size_bytes
            if end > len(data):
                return
            if not is_intact(header, data, position):
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "wrong checksum")
            if header.next_offset > self._offset:
                first_offset = self._first_offset(header)
                if first_offset > self._offset:
                    yield from self._gap_before(first_offset, info.records.records)
                self._offset = header.next_offset
                self._read_to = info.records.records, info.records.position + end
                yield WholeBatch(header, data[position:end], path)
            position = end

    def _has_passed_bytes(self, records: FileRecords) -> bool:
        """Whether the log went on to the next segment although this one has bytes left: those are
        no hole of the cleaner's.
        """
        segment = self._segment()
        return records is not segment.records and self._has_unread_bytes(segment)

    def _gap_before(self, first_offset: int, records: FileRecords) -> Iterator[ReplayGap]:
        """Yield what is missing before a batch, unless the cleaner took it: records that the
        indexes of a segment still name were cut off its file.
        """
        if self._offset >= (self._log.cleaned_end_offset or 0):
            yield ReplayGap(self._offset, first_offset, records.path, MISSING)
            return
        for segment in self._log.segments.from_offset(self._offset):
            if segment.records is records:
                return
            next_offset = self._log.segments.after(segment).base_offset
            begin = max(self._offset, segment.base_offset)
            if begin <= segment.last_indexed_offset < next_offset:
                yield ReplayGap(begin, next_offset, segment.records.path, "cut off")

    def _has_unread_bytes(self, segment: LogSegment) -> bool:
        """False also if it was checked: then the damage is known."""
        known, read_to = self._read_to
        return self._doubted != segment.base_offset and segment.size_bytes > (
            read_to if known is segment.records else 0
        )

    def _first_offset(self, header: BatchHeader) -> int:
        """The first offset of a batch; that of its segment if an old header has only the last."""
        if header.magic == MAGIC:
            return header.base_offset
        segments = self._log.segments
        return segments[max(segments.floor_index(header.base_offset), 0)].base_offset

    def _nothing_there(self) -> Iterator[ReplayGap]:
        """No whole batch came: the file ends before the log does, or a batch is cut off."""
        segment = self._segment()
        if segment is self._log.segments.active and not self._has_unread_bytes(segment):
            self._offset = self._end_offset
        else:
            yield from self._doubt("cut off")

    def _doubt(self, reason: str) -> Iterator[ReplayGap]:
        """Bytes that this process wrote, or recovered, are not batches any more: have the whole
        segment checked, as one that was only found. What even then stays unreadable is skipped.
        """
        segment = self._segment()
        if self._doubted != segment.base_offset:
            self._doubted = segment.base_offset
            segment.distrust(self._segment_end())
        else:
            yield self._skip_segment(reason)

    def _skip_segment(self, reason: str) -> ReplayGap:
        return self._skip_to(self._segment_end(), self._segment().records.path, reason)

    def _skip_to(self, next_offset: int, path: str, reason: str) -> ReplayGap:
        gap = ReplayGap(self._offset, min(next_offset, self._end_offset), path, reason)
        self._offset = max(next_offset, self._offset + 1)
        return gap

    def _segment(self) -> LogSegment:
        segments = self._log.segments
        return segments[max(segments.floor_index(self._offset), 0)]

    def _segment_end(self) -> int:
        segments, segment = self._log.segments, self._segment()
        if segment is segments.active:
            return self._log.log_end_offset
        return segments.after(segment).base_offset
