"""Separates intact batches of a data file from damaged bytes, and finds the next intact one.

Which batches count is the rule in `record.batch_order`; here are the ways to ask for it of a file,
a window at a time.

Law: nothing here changes a file, and any bytes give an answer, because it runs on files of running
brokers and on damaged ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from fastcrc.crc32 import iscsi as crc32c

from kbroker.errors import KafkaError
from kbroker.log.disk.file_system import File
from kbroker.log.segments.file_records import FileRecords
from kbroker.record.batch_order import (
    can_stand,
    is_confirmed,
    is_contradicted,
    recoverable,
    span_of,
)
from kbroker.record.legacy_record import first_offset, is_intact, read_any_header
from kbroker.record.record_batch import (
    ATTRIBUTES_POSITION,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
)

_WINDOW_BYTES: Final = 128 * 1024  # as FileRecords.batches
_MIN_BATCH_BYTES: Final = 26
_MAX_SCAN_BYTES: Final = 64 * 1024 * 1024
_unpack = HEADER.unpack_from


class Damage(NamedTuple):
    """Bytes that hold no intact batch, and the offsets that are lost with them (exclusive ends)."""

    position: int
    end_position: int
    offset: int
    next_offset: int


def recoverable_batches(
    records: FileRecords, base_offset: int, end_offset: int, *, gapless_from: int
) -> Iterator[tuple[int, BatchHeader, int, memoryview]]:
    """(first offset, header, position, bytes) of what recovery leaves of a segment, see
    `batch_order.recoverable`.
    """
    return recoverable(_intact_batches(records), base_offset, end_offset, gapless_from=gapless_from)


def _intact_batches(records: FileRecords) -> Iterator[tuple[int, BatchHeader, int, memoryview]]:
    """All up to the first that is not whole, or has a wrong checksum."""
    try:
        for position, header, view in records.batches():
            if header.magic == MAGIC:  # most are: no call for each
                if crc32c(view[ATTRIBUTES_POSITION:]) != header.crc:
                    return
                yield header.base_offset, header, position, view
            elif is_intact(header, view):
                yield first_offset(header, view), header, position, view
            else:
                return
    except KafkaError:
        return  # bytes that are not a batch


class Readable(Protocol):
    """Bytes of a data file."""

    def read(self, position: int, size: int) -> bytes | memoryview: ...


class ReadableFile:
    """An open file, for an audit."""

    def __init__(self, file: File) -> None:
        self._file = file

    def read(self, position: int, size: int) -> bytes:
        return self._file.pread(size, position)


class BatchAudit:
    """Reads the first `limit` bytes of a data file, whose offsets are below `end_offset`."""

    def __init__(self, records: Readable, limit: int, end_offset: int) -> None:
        self._records = records
        self._limit = limit
        self._end_offset = end_offset

    def verify(self, position: int, expected: int, stop: int) -> tuple[int, int]:
        """Check batches from `position` on, the first of which should have offset `expected`.

        (position after the last intact batch, offset expected there): below `stop` if the next
        one is damaged.
        """
        while position < stop:
            size = min(_WINDOW_BYTES, self._limit - position)
            view = memoryview(self._records.read(position, size))
            checked, expected = self._verify_window(view, position, expected, stop)
            if not checked:
                header = self._sound_in(view, position)
                if header is None or not self._fits(header, position, expected):
                    break
                checked, expected = header.size_bytes, header.next_offset
            position += checked
        return position, expected

    def sound_stretches(self, expected: int, position: int = 0) -> Iterator[tuple[int, int]]:
        """(start, end) of intact batches from `position` on, a window at a time; what is between
        is damaged.
        """
        while position < self._limit:
            stop = min(position + _WINDOW_BYTES, self._limit)
            end, expected = self.verify(position, expected, stop)
            if end > position:
                yield position, end
            else:
                end = self.next_sound(position, expected, ())
            position = end

    def sound_headers(self, expected: int, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the intact batches from `position` on."""
        for start, end in self.sound_stretches(expected, position):
            while start < end and (header := self.header(start)) is not None:
                yield start, header
                start += header.size_bytes

    def sound(self, position: int) -> BatchHeader | None:
        """The batch at `position`, its base offset that of its first record; None if it is
        damaged in itself.
        """
        size = min(HEADER_SIZE, self._limit - position)
        return self._sound_in(memoryview(self._records.read(position, size)), position)

    def next_sound(self, position: int, expected: int, known: Iterable[tuple[int, int]]) -> int:
        """Where intact batches go on after the damage at `position`; the limit if they do not.
        `known` are (last offset, position) of an index, which may be wrong.
        """
        header = self.header(position)
        if header is not None and position + header.size_bytes <= self._limit:
            end = position + header.size_bytes
            own = self.sound(position)
            if own is not None:
                return self._behind_misplaced(own, end, expected)
            follower = self.sound(end) if end < self._limit else None
            if follower is not None and follower.base_offset >= expected:
                if follower.base_offset == expected + header.last_offset_delta + 1:
                    return end
                return self._chain_into(end, position + 1, expected)
            if (behind := self._behind_row(position, expected)) is not None:
                return behind
        return self._chain_into(self._anchor(position, expected, known), position + 1, expected)

    def _verify_window(
        self, view: memoryview, position: int, expected: int, stop: int
    ) -> tuple[int, int]:
        """(bytes checked, next expected offset): batches of format 2 that lie whole in `view`."""
        at = 0
        last_start = min(len(view) - HEADER_SIZE, stop - position - 1)
        size = len(view)
        end_offset = self._end_offset
        while at <= last_start:
            base, length, _, magic, crc, _, delta, _, _, _, _, _, _ = _unpack(view, at)
            end = at + length + LOG_OVERHEAD
            if magic != MAGIC or not at + HEADER_SIZE <= end <= size or delta < 0:
                break
            if crc32c(view[at + ATTRIBUTES_POSITION : end]) != crc:
                break
            next_offset = base + delta + 1
            if (base != expected or next_offset > end_offset) and not self._fits(
                read_any_header(view, at), position + at, expected
            ):
                break
            expected = next_offset
            at = end
        return at, expected

    def _fits(self, header: BatchHeader, position: int, expected: int) -> bool:
        span, end_offset = span_of(header), self._end_offset
        if not can_stand(span, expected, end_offset):
            return False
        end = position + header.size_bytes
        if span.first == expected or end >= self._limit:
            return True
        behind = self.header(end)
        if (
            behind is not None
            and behind.magic == MAGIC  # an old header alone may not tell its first offset
            and not is_contradicted(span, span_of(behind), expected, end_offset)
        ):
            return True
        sound = self.sound(end)
        witness = None if sound is None else span_of(sound)
        return not is_contradicted(span, witness, expected, end_offset)

    def _behind_row(self, position: int, expected: int) -> int | None:
        """The intact batch after several damaged ones whose headers still follow on each other."""
        header = self.header(position)
        while (
            header is not None and header.base_offset == expected and header.last_offset_delta >= 0
        ):
            position += header.size_bytes
            expected = header.next_offset
            if position >= self._limit:
                return None
            sound = self.sound(position)
            if sound is not None:
                return position if sound.base_offset == expected else None
            header = self.header(position)
        return None

    def _behind_misplaced(self, own: BatchHeader, end: int, expected: int) -> int:
        """After a whole batch that does not count, and after its follower if the fault may be
        that one's.
        """
        span, end_offset = span_of(own), self._end_offset
        if end >= self._limit or not can_stand(span, expected, end_offset):
            return end
        follower = self.sound(end)
        if follower is None or not is_contradicted(span, span_of(follower), expected, end_offset):
            return end
        behind = end + follower.size_bytes
        after = self.sound(behind) or self.header(behind) if behind < self._limit else None
        next_offset = after.base_offset if after is not None else end_offset
        return end if is_confirmed(span_of(follower), next_offset) else behind

    def _anchor(self, position: int, expected: int, known: Iterable[tuple[int, int]]) -> int:
        """The first batch after `position` that an index knows and that is there, else the end."""
        for last_offset, start in known:
            if position < start < self._limit and last_offset >= expected:
                header = self.sound(start)
                if header is not None and header.last_offset == last_offset:
                    return start
        return self._limit

    def _chain_into(self, stop: int, start: int, expected: int) -> int:
        """The first position from `start` on whence intact batches lead exactly to `stop`. Bytes
        that merely look like a batch, such as one inside a record, lead nowhere.
        """
        if stop - start > _MAX_SCAN_BYTES:
            return stop
        data = bytes(self._records.read(start, stop - start))
        prefix = (expected >> 32).to_bytes(4, "big", signed=True)
        at = data.find(prefix)
        while at >= 0 and at + _MIN_BATCH_BYTES <= len(data):
            if data[at + 16] <= MAGIC and self._leads_to(stop, start + at, expected):
                return start + at
            at = data.find(prefix, at + 1)
        return stop

    def _leads_to(self, stop: int, position: int, expected: int) -> bool:
        """Whether intact batches begin at `position` and lead to `stop`; a further damaged one
        among them may tell its size and offsets.
        """
        is_first = True
        while position < stop:
            header = self.header(position)
            if header is None or header.base_offset < expected:
                return False
            header = self.sound(position) or (None if is_first else header)
            if header is None or not header.base_offset <= header.last_offset < self._end_offset:
                return False
            position += header.size_bytes
            expected = header.next_offset
            is_first = False
        return position == stop

    def header(self, position: int) -> BatchHeader | None:
        """The header at `position`, checked against nothing."""
        try:
            return read_any_header(
                self._records.read(position, min(HEADER_SIZE, self._limit - position))
            )
        except KafkaError:
            return None

    def _sound_in(self, view: memoryview, position: int) -> BatchHeader | None:
        """The sound batch at `position`; `view` has the bytes from there on that were read."""
        try:
            header = read_any_header(view)
            size = header.size_bytes
            if position + size > self._limit or header.last_offset_delta < 0:
                return None
            if size > len(view):
                view = memoryview(self._records.read(position, size))
            if not is_intact(header, view):
                return None
        except KafkaError:
            return None
        if header.magic < MAGIC:
            first = first_offset(header, view[:size])
            delta = header.base_offset - first
            header = header._replace(base_offset=first, last_offset_delta=delta)
        return header if header.last_offset_delta >= 0 else None
