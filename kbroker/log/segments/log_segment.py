"""A stretch of a log: one data file and its indexes, named after the first offset it may hold.

Law: offsets in a segment rise, and indexes are written exactly as Kafka does, so that Apache Kafka
can take over the directory: one entry in both as soon as more than `index_interval_bytes` were
appended since the last one, and the largest timestamp once more at close or roll. What this process
appended or recovered is trusted; the part that it only found goes through a `FoundRecords`. Owned
by the event loop; `sync` and reads may run on worker threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kbroker.errors import KafkaError
from kbroker.log.disk.file_system import Bytes, FileSystem
from kbroker.log.disk.format import MAX_OFFSET, MAX_RELATIVE_OFFSET
from kbroker.log.segments.batch_audit import Damage, recoverable_batches
from kbroker.log.segments.fetch_data_info import SegmentRead
from kbroker.log.segments.file_records import RecordsSlice
from kbroker.log.segments.found_records import DamagedBatchError, FoundRecords
from kbroker.log.segments.index_making import IndexMaking
from kbroker.log.segments.segment_files import SegmentConfig, SegmentFiles
from kbroker.log.segments.time_index import TimestampOffset
from kbroker.model import new_tuple
from kbroker.record.record_batch import BatchHeader

OnBatch = Callable[[BatchHeader, memoryview], None]

_MAX_CHECKED_BYTES: Final = 1024 * 1024
_NOT_READ: Final = (-1, 0, 0)


class LogSegment(SegmentFiles):
    """One segment. The log draws `roll_jitter_ms`, so that partitions do not roll all at once."""

    __slots__ = (
        "_bytes_since_last_index_entry",
        "_check",
        "_largest_timestamp",
        "_last_read",
        "_next_read",
        "_offset_of_largest_timestamp",
        "_unchecked_bytes",
        "_unchecked_end_offset",
        "created_ms",
        "known_first_timestamp",
        "roll_jitter_ms",
    )

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        base_offset: int,
        config: SegmentConfig,
        *,
        created_ms: int,
        suffix: str = "",
    ) -> None:
        super().__init__(file_system, directory, base_offset, config, suffix=suffix)
        self.created_ms = created_ms
        self.roll_jitter_ms = 0
        self._bytes_since_last_index_entry = 0
        # Two fields, not a pair: nearly every append has a larger one.
        self._largest_timestamp: int | None = None  # None: not looked for yet
        self._offset_of_largest_timestamp = base_offset
        self.known_first_timestamp: int | None = None  # see `first_batch_timestamp`
        self._unchecked_bytes = 0  # these first bytes, with offsets below the next, go by `_check`
        self._unchecked_end_offset = 0
        self._check: FoundRecords | None = None
        # Wanted offset, and position and size (0: not known) of the batch that holds it or comes
        # next. Those who read at the end ask for what another one asked for, or for what comes
        # after that.
        self._last_read = self._next_read = _NOT_READ

    def roll_earlier_by(self, jitter_ms: int) -> None:
        """Take this off its age."""
        self.roll_jitter_ms = jitter_ms

    @property
    def largest_timestamp(self) -> int:
        """Largest timestamp of the records, -1 without any."""
        return self._largest_entry().timestamp

    @property
    def newest_ms(self) -> int:
        """When its newest record was written: as records say, else the file."""
        largest = self.largest_timestamp
        return largest if largest >= 0 else self.modified_ms

    @property
    def modified_ms(self) -> int:
        """When something was written to it last, as its file says."""
        return self._file_system.modified_ms(self.records.path)

    @property
    def first_batch_timestamp(self) -> int | None:
        """Largest timestamp of the first batch: the age of the segment counts from it. None without
        batches.
        """
        if self.known_first_timestamp is None and self.size_bytes:
            _, header = next(self.sound_headers(), (0, None))
            self.known_first_timestamp = header.max_timestamp if header else None
        return self.known_first_timestamp

    @property
    def next_offset(self) -> int:
        """The offset after the last batch; walks the batches after the last index entry."""
        _, position = self.offset_index.lookup(self.offset_index.last_offset)
        offset = self.base_offset
        for _, header in self.records.headers(position):
            offset = header.next_offset
        return offset

    @property
    def damages(self) -> list[Damage]:
        return self._check.damages if self._check is not None else []

    def append(
        self, largest_offset: int, max_timestamp: int, offset_of_max_timestamp: int, data: Bytes
    ) -> int:
        """Append whole batches that end at `largest_offset`; their position. The caller rolls when
        it must.
        """
        assert 0 <= largest_offset - self.base_offset <= MAX_RELATIVE_OFFSET, largest_offset
        largest = self._largest_timestamp
        if largest is None:
            largest = self._largest_entry().timestamp
        position = self.records.append(data)
        if not position:
            self.known_first_timestamp = max_timestamp
        if max_timestamp > largest:
            largest = self._largest_timestamp = max_timestamp
            self._offset_of_largest_timestamp = offset_of_max_timestamp
        if self._bytes_since_last_index_entry > self.config.index_interval_bytes:
            self.offset_index.append(largest_offset, position)
            self.time_index.maybe_append(largest, self._offset_of_largest_timestamp)
            self._bytes_since_last_index_entry = 0
        self._bytes_since_last_index_entry += len(data)
        return position

    def translate_offset(self, offset: int, start: int = 0) -> tuple[int, BatchHeader] | None:
        """(position, header) of the batch that holds `offset` or comes next; None past the end.
        Raises DamagedBatchError.
        """
        entry_offset, position = self.offset_index.lookup(offset)
        if position < self._unchecked_bytes or entry_offset < self._unchecked_end_offset:
            found = self._checked().find(offset)
            if found is not None:
                return found
            position = self._unchecked_bytes
        return self.records.find_offset(offset, max(position, start))

    def position_of(self, offset: int) -> int:
        """Where the batch that holds `offset` or comes next starts, sound or not; the end of the
        file past the end.
        """
        for known_offset, position, _ in (self._next_read, self._last_read):
            if known_offset == offset:  # such as the high watermark: a follower has come that far
                return position
        try:
            found = self.translate_offset(offset)
        except DamagedBatchError as error:
            return error.position
        return found[0] if found is not None else self.size_bytes

    def sound_headers(self, start_offset: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the intact batches from `start_offset` on."""
        position = self.position_of(start_offset) if start_offset > self.base_offset else 0
        if position < self._unchecked_bytes:
            yield from self._checked().headers(position)
            position = self._unchecked_bytes
        yield from self.records.headers(position)

    def distrust(self, end_offset: int, size_bytes: int | None = None) -> None:
        """Check the first `size_bytes` (None: all there are) before they are served: this process
        only found them; offsets in them are below `end_offset`.
        """
        found = self.size_bytes if size_bytes is None else min(size_bytes, self.size_bytes)
        self._unchecked_bytes = found
        self._unchecked_end_offset = end_offset if found else 0
        self._check = None
        self._last_read = self._next_read = _NOT_READ

    def read(
        self,
        start_offset: int,
        max_size: int,
        max_position: int | None = None,
        *,
        end_offset: int | None = None,
        min_one_message: bool = False,
    ) -> SegmentRead | None:
        """Bytes from the batch that holds `start_offset`, up to `max_position` of the file; None
        past the end. `end_offset`, if it is known: the batch that holds it or comes next starts
        there, or is going to.

        With `min_one_message` the first batch comes whole, even if it is larger than `max_size`.
        """
        records = self.records
        end = records.size_bytes if max_position is None else max_position
        wanted, position, batch_bytes = self._last_read
        if wanted != start_offset or not batch_bytes:
            found = self._start_of_read(start_offset, end, max_size)
            if found is None:
                return None
            position, batch_bytes = found
        size = batch_bytes if min_one_message and batch_bytes > max_size else max_size
        is_first_incomplete = size < batch_bytes
        available_bytes = end - position
        if position < self._unchecked_bytes and not is_first_incomplete:
            # No more than what is checked now, so that one read takes a bounded time.
            sound_end = self._checked().sound_end(position, min(size, _MAX_CHECKED_BYTES))
            if sound_end < self._unchecked_bytes:
                end = min(end, sound_end)
                end_offset = None
        if size >= end - position:
            size = end - position if end > position else 0
            if end_offset is not None and end >= self._unchecked_bytes:
                self._next_read = (end_offset, end, 0)
        segment_read: SegmentRead = new_tuple(
            SegmentRead,
            (RecordsSlice(records, position, size), is_first_incomplete, available_bytes),
        )
        return segment_read

    def _start_of_read(self, offset: int, end: int, max_size: int) -> tuple[int, int] | None:
        """Position and size of the batch that holds `offset` or comes next; None past the end. The
        size may be 0 if all up to the position `end` fits into `max_size`.
        """
        read = self._last_read
        if read[0] != offset:
            read = self._next_read
        wanted, position, batch_bytes = read
        if wanted != offset:
            position = 0
        elif batch_bytes or 0 < end - position <= max_size:
            self._last_read = read
            return position, batch_bytes
        found = self.translate_offset(offset, position)
        if found is None:
            return None
        position, batch_bytes = found[0], found[1].size_bytes
        if position >= self._unchecked_bytes:
            self._last_read = (offset, position, batch_bytes)
        return position, batch_bytes

    def batch_at_time(
        self, timestamp: int, starting_offset: int
    ) -> tuple[BatchHeader, bytes] | None:
        """The first batch whose header mentions a time and an offset not before these."""
        if self._unchecked_bytes:
            found = self._checked().batch_at_time(timestamp, starting_offset)
            if found is not None or self._unchecked_bytes == self.size_bytes:
                return found
        _, indexed_offset = self.time_index.lookup(timestamp)
        _, position = self.offset_index.lookup(max(indexed_offset, starting_offset))
        start = max(position, self._unchecked_bytes)
        return self.records.batch_at_time(timestamp, start, starting_offset)

    def recover(
        self,
        on_batch: OnBatch | None = None,
        *,
        gapless_from: int = MAX_OFFSET,
        end_offset: int | None = None,
    ) -> int:
        """Walk the batches, rebuild the indexes, cut what is broken; the number of bytes that went.

        Broken is also what reaches `end_offset`, if the next segment begins, and after
        `gapless_from` a last batch that does not follow the one before it.

        `on_batch` sees every good batch before the next one is looked at: epochs, producer state,
        aborted transactions (which it appends to `transaction_index`) are the log's business.
        """
        self.remember_indexed_offset()
        self.distrust(0, 0)
        self.transaction_index.reset()
        self._largest_timestamp = None
        self.known_first_timestamp = None
        batches = recoverable_batches(
            self.records,
            self.base_offset,
            self.base_offset + MAX_RELATIVE_OFFSET + 1 if end_offset is None else end_offset,
            gapless_from=gapless_from,
        )
        valid = self._recover_batches(batches, on_batch)
        file_size = self._file_system.size(self.records.path)
        self.records.truncate_to(valid)
        self.time_index.maybe_append(*self._largest_entry(), closing=True)
        for index in self.parts[1:]:
            index.trim()
        return file_size - valid

    def salvage(self) -> None:
        """Look for damage in all of what is not checked yet, and index what is sound."""
        self._checked().salvage()

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Drop the batch that holds `offset` and all after it; the number of bytes that went."""
        self._last_read = self._next_read = _NOT_READ
        cut_at = self.position_of(offset)
        self._indexed_before = min(self._indexed_before, offset - 1)
        for index in (self.offset_index, self.time_index):
            index.truncate_to(offset)
            index.preallocate()
        self.transaction_index.truncate_to(offset)
        removed = self.records.truncate_to(cut_at)
        if cut_at < self._unchecked_bytes:
            self.distrust(min(self._unchecked_end_offset, offset))
        if not self.size_bytes:
            self.created_ms = now_ms
            self.known_first_timestamp = None
        self._bytes_since_last_index_entry = 0
        self._note_largest(self._largest_behind_index())
        return removed

    def become_inactive(self) -> None:
        """The log rolls: enter the largest timestamp, give all files their final size."""
        largest = self._largest_timestamp
        if largest is not None and largest >= 0:
            self.time_index.maybe_append(largest, self._offset_of_largest_timestamp, closing=True)
        self.trim()

    def close(self) -> None:
        """Become inactive, and give the descriptors back."""
        self.become_inactive()
        self.records.close()

    def _recover_batches(
        self, batches: Iterator[tuple[int, BatchHeader, int, memoryview]], on_batch: OnBatch | None
    ) -> int:
        """Index the good batches; the position after the last one."""
        valid = 0
        made = IndexMaking(self.offset_index, self.time_index, self.config.index_interval_bytes)
        for _, header, position, view in batches:
            made.enter(position, header)
            valid = position + header.size_bytes
            if on_batch is not None:
                on_batch(header, view)
        self._note_largest(made.largest)
        return valid

    def _checked(self) -> FoundRecords:
        if self._check is None:
            self._check = FoundRecords(
                self, self._unchecked_bytes, self._unchecked_end_offset, self._indexed_anew
            )
        return self._check

    def _indexed_anew(self, largest: TimestampOffset) -> None:
        """The intact batches of the unchecked part have been read, with this largest timestamp."""
        if self._largest_timestamp is not None and largest.timestamp >= self._largest_timestamp:
            self._note_largest(largest)

    def _note_largest(self, largest: TimestampOffset) -> None:
        self._largest_timestamp, self._offset_of_largest_timestamp = largest

    def _largest_entry(self) -> TimestampOffset:
        """The largest timestamp: from the last time index entry and the batches after it."""
        if self._largest_timestamp is None:
            if self._unchecked_bytes:
                found = self._checked().largest_entry()
                self._note_largest(self._larger(found, self._unchecked_bytes))
            else:
                self._note_largest(self._largest_behind_index())
        assert self._largest_timestamp is not None
        return TimestampOffset(self._largest_timestamp, self._offset_of_largest_timestamp)

    def _largest_behind_index(self) -> TimestampOffset:
        """The largest entry of a segment whose end was cut off: the largest time may be gone with
        an entry of the index, and that of the batches before it is in no entry.
        """
        _, position = self.offset_index.lookup(self.time_index.last_entry.offset)
        try:
            return self._larger(self.time_index.last_entry, position)
        except KafkaError:  # damage among what was found at the start
            self._checked().salvage()
            return self.time_index.last_entry

    def _larger(self, noted: TimestampOffset, position: int) -> TimestampOffset:
        newer = self.records.largest_timestamp(position)
        return newer if newer.timestamp > noted.timestamp else noted
