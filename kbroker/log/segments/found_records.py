"""The part of a segment that this process neither wrote nor recovered: which stretches were
checked, which bytes are damaged, and lookups that trust an index only if the batches confirm it.

Law: no batch from here is served before its checksum and its offsets were checked, once, so that
damage never reaches a reader. An index entry is followed only to a batch that it describes. At the
first contradiction the whole part is read, its damaged batches are noted and logged, and both
indexes are rebuilt from the intact ones.

Owned by the event loop.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.format import MAX_RELATIVE_OFFSET
from kbroker.log.segments.batch_audit import BatchAudit, Damage
from kbroker.log.segments.index_making import IndexMaking
from kbroker.log.segments.segment_files import SegmentFiles
from kbroker.log.segments.time_index import TimestampOffset
from kbroker.model import NO_TIMESTAMP
from kbroker.record.record_batch import MAGIC, BatchHeader

_STRIDE_BYTES: Final = 16 * 1024
_MAX_STRETCHES: Final = 32

_log = logging.getLogger(__name__)


class DamagedBatchError(KafkaError):
    """CORRUPT_MESSAGE: the wanted offset was in a batch that is damaged, from `position` on; sound
    ones begin at `next_offset`, or after it.
    """

    def __init__(self, path: str, damage: Damage) -> None:
        super().__init__(
            ErrorCode.CORRUPT_MESSAGE,
            f"Offsets {damage.offset} to {damage.next_offset - 1} are damaged in {path}",
        )
        self.path = path
        self.position = damage.position
        self.next_offset = damage.next_offset


@dataclass(slots=True, eq=False, repr=False)
class _Stretch:
    """Positions from `start` to `end` that were found sound; the offset expected at `end`."""

    start: int
    end: int
    expected: int


class FoundRecords:
    """The first `limit` bytes of a segment, with offsets below `end_offset`."""

    def __init__(
        self,
        segment: SegmentFiles,
        limit: int,
        end_offset: int,
        on_indexed_anew: Callable[[TimestampOffset], None],
    ) -> None:
        """`on_indexed_anew` gets the largest timestamp of this part, once all of it was read."""
        self._segment = segment
        self._records = segment.records
        self._limit = limit
        self._end_offset = end_offset
        self._audit = BatchAudit(segment.records, limit, end_offset)
        self._stretches: list[_Stretch] = []
        self._is_salvaged = False
        self._on_indexed_anew = on_indexed_anew
        # Nothing was appended yet: see `largest_entry`.
        self._found_offset_entries = segment.offset_index.entry_count
        self._found_time_entries = segment.time_index.entry_count
        self._largest: TimestampOffset | None = None
        self.damages: list[Damage] = []

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """(position, header) of the intact batch that holds `offset` or comes next; None past the
        end of this part. Raises DamagedBatchError.
        """
        for position, header in self.headers(self._start_of(offset)):
            if header.last_offset >= offset:
                self._refuse_damaged(offset)
                return position, header
        self._refuse_damaged(offset)
        return None

    def sound_end(self, position: int, size: int) -> int:
        """Where the intact batches from the batch start `position` on end: `size` bytes further, or
        at the limit, or before damage.
        """
        if not self._is_salvaged:
            stop = min(position + size, self._limit)
            end = self._stretch_at(position).end
            if end >= stop or (end := self._extend(position, stop)) >= stop:
                return end
            self.salvage()
        return next((d.position for d in self.damages if d.position >= position), self._limit)

    def headers(self, start: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the intact batches from the batch start `start` on."""
        position = start
        while position < self._limit:
            end = self.sound_end(position, _STRIDE_BYTES)
            yield from self._records.headers(position, end)
            position = next((d.end_position for d in self.damages if d.position == end), end)

    def batch_at_time(
        self, timestamp: int, starting_offset: int
    ) -> tuple[BatchHeader, bytes] | None:
        """The batch that `FileRecords.batch_at_time` would find, within this part."""
        indexed, offset = self._segment.time_index.lookup(timestamp)
        if not self._is_witnessed(indexed, offset):
            self.salvage()
            indexed, offset = self._segment.time_index.lookup(timestamp)
        for position, header in self.headers(self._start_of(max(offset, starting_offset))):
            if header.max_timestamp >= timestamp and header.last_offset >= starting_offset:
                return header, self._records.read(position, header.size_bytes)
        return None

    def largest_entry(self) -> TimestampOffset:
        """The largest timestamp of this part: the last entry of a closed time index. Asked for
        before the first append, and so the indexes hold nothing newer yet.
        """
        if self._largest is None:
            segment = self._segment
            self._start_of(segment.offset_index.last_offset)  # appends go on from it
            timestamp, offset = segment.time_index.last_entry
            if offset >= self._end_offset or not self._is_witnessed(timestamp, offset):
                self.salvage()
            self._largest = segment.time_index.last_entry
        return self._largest

    def salvage(self) -> None:
        """Read the whole part: note what is damaged, and rebuild the indexes."""
        if self._is_salvaged:
            return
        self._is_salvaged = True
        _log.warning(
            "Reading all of %s: it is damaged, or one of its indexes is", self._records.path
        )
        base_offset = self._segment.base_offset
        known = [(base_offset + o, p) for o, p in self._segment.offset_index.entries()]
        position, expected = 0, base_offset
        while position < self._limit:
            end, after = self._audit.verify(position, expected, self._limit)
            if end > position and position:
                self._close_damage(position)
            if end < self._limit:
                if end > position or not position:
                    self.damages.append(Damage(end, end, after, self._end_offset))
                position = self._audit.next_sound(end, after, known)
                self.damages[-1] = self.damages[-1]._replace(end_position=position)
            else:
                position = end
            expected = after
        for damage in self.damages:
            self._log_damage(damage)
        self._index_anew()

    def _index_anew(self) -> None:
        """Rebuild both indexes from the intact batches; entries of what was appended since this
        part was found stay.
        """
        segment = self._segment
        segment.remember_indexed_offset()
        offset_index, time_index = segment.offset_index, segment.time_index
        newer_offsets = offset_index.entries()[self._found_offset_entries :]
        newer_times = time_index.entries()[self._found_time_entries :]
        made = IndexMaking(offset_index, time_index, segment.config.index_interval_bytes)
        for position, header in self.headers():
            made.enter(position, header)
        largest = made.largest
        time_index.maybe_append(*largest, closing=True)
        base_offset = segment.base_offset
        for relative_offset, position in newer_offsets:
            offset_index.append(base_offset + relative_offset, position)
        for timestamp, relative_offset in newer_times:
            if timestamp > largest.timestamp:
                time_index.maybe_append(timestamp, base_offset + relative_offset, closing=True)
        segment.write_out_indexes()
        self._on_indexed_anew(largest)

    def _close_damage(self, position: int) -> None:
        """Intact batches go on at `position`: up to their first offset all are lost."""
        header = self._audit.sound(position)
        assert header is not None, position
        self.damages[-1] = self.damages[-1]._replace(next_offset=header.base_offset)

    def _log_damage(self, damage: Damage) -> None:
        if damage.next_offset > self._segment.base_offset + MAX_RELATIVE_OFFSET:
            # No record has this offset: it is the bound of a log that is being opened.
            _log.error(
                "Damaged batch in %s at positions %d to %d: offsets from %d on cannot be served, "
                "all others are. `kbroker log verify` shows it",
                self._records.path,
                damage.position,
                damage.end_position,
                damage.offset,
            )
            return
        _log.error(
            "Damaged batch in %s at positions %d to %d: offsets %d to %d cannot be served, all "
            "others are. `kbroker log verify` shows it; consumers can seek to offset %d",
            self._records.path,
            damage.position,
            damage.end_position,
            damage.offset,
            damage.next_offset - 1,
            damage.next_offset,
        )

    def _start_of(self, offset: int) -> int:
        """Where to look for `offset` from: the start of an intact batch, or of the part."""
        entry_offset, position = self._segment.offset_index.lookup(offset)
        if position == 0 or self._is_salvaged:
            return position
        if 0 < position < self._limit:
            stretch = self._stretch_holding(position)
            is_checked = stretch is not None and position < stretch.end
            header = self._audit.header(position) if is_checked else self._audit.sound(position)
            if header is not None and self._is_described(position, header, entry_offset):
                if stretch is None:
                    end = position + header.size_bytes
                    self._add(_Stretch(position, end, header.next_offset))
                return position
        elif entry_offset >= self._end_offset and position >= self._limit:
            return self._limit  # an entry of what was appended since
        self.salvage()
        return self._start_of(offset)

    def _is_described(self, position: int, header: BatchHeader, entry_offset: int) -> bool:
        """Whether an index entry fits the batch at its position. If several batches were appended
        at once, the entry has the first one's position and the last one's offset.
        """
        if header.last_offset == entry_offset or entry_offset >= self._end_offset:
            return entry_offset < self._end_offset
        expected = header.base_offset
        try:
            for _, following in self._records.headers(position, self._limit):
                if following.magic == MAGIC and following.base_offset != expected:
                    return False
                if following.last_offset >= entry_offset:
                    return following.last_offset == entry_offset
                expected = following.next_offset
        except KafkaError:
            return False  # bytes that are not a batch
        return False

    def _is_witnessed(self, timestamp: int, offset: int) -> bool:
        """Whether the batch that holds `offset` has what a time index entry says of it."""
        if self._is_salvaged:
            return True
        if offset >= self._end_offset:  # appended since, so newer than all of this part
            return timestamp > self.largest_entry().timestamp
        if timestamp == NO_TIMESTAMP:  # no entry: right if no record has a time
            return self._segment.time_index.entry_count > 0 or not self._has_time()
        for _, header in self.headers(self._start_of(offset)):
            if header.last_offset >= offset:
                return header.max_timestamp == timestamp
        return False

    def _has_time(self) -> bool:
        _, first = next(self.headers(), (0, None))
        return first is not None and first.max_timestamp >= 0

    def _refuse_damaged(self, offset: int) -> None:
        for damage in self.damages:
            if damage.offset <= offset < damage.next_offset:
                raise DamagedBatchError(self._records.path, damage)

    def _extend(self, position: int, stop: int) -> int:
        """Check on from the stretch that holds `position` up to `stop`; where that ended."""
        stretch = self._stretch_at(position)
        end, expected = self._audit.verify(stretch.end, stretch.expected, stop)
        while (following := self._stretch_after(stretch)) and following.start <= end:
            self._stretches.remove(following)
            if following.end > end:
                end, expected = following.end, following.expected
        stretch.end, stretch.expected = end, expected
        return end

    def _stretch_at(self, position: int) -> _Stretch:
        """The stretch that holds `position` or ends there; one that starts there."""
        stretch = self._stretch_holding(position)
        if stretch is not None:
            return stretch
        header = self._audit.sound(position)
        expected = header.base_offset if header and position else self._segment.base_offset
        stretch = _Stretch(position, position, expected)
        self._add(stretch)
        return stretch

    def _stretch_holding(self, position: int) -> _Stretch | None:
        index = bisect_right(self._stretches, position, key=attrgetter("start")) - 1
        if index < 0 or position > self._stretches[index].end:
            return None
        return self._stretches[index]

    def _stretch_after(self, stretch: _Stretch) -> _Stretch | None:
        index = self._stretches.index(stretch) + 1
        return self._stretches[index] if index < len(self._stretches) else None

    def _add(self, stretch: _Stretch) -> None:
        if len(self._stretches) >= _MAX_STRETCHES:
            self._stretches.remove(min(self._stretches, key=lambda each: each.end - each.start))
        index = bisect_right(self._stretches, stretch.start, key=attrgetter("start"))
        self._stretches.insert(index, stretch)
