"""The records of a batch that is unpacked piece by piece: RecordStream.

Law: no more is held than a piece and the record at hand; of a record that is only skimmed, no more
than a piece. Any bytes give records or KafkaError(INVALID_RECORD).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kbroker.errors import KafkaError
from kbroker.record.default_record import (
    Record,
    invalid,
    read_record,
    read_varint,
    skim_record,
)
from kbroker.record.piece_stream import PieceStream

Pace = Callable[[int], None]  # gets the number of unpacked bytes; may wait, or end the reading

_LONGEST_VARINT: Final = 10
_SHORT_BYTES: Final = 64 * 1024  # a record that takes more is skimmed in pieces


def paced(pieces: Iterator[bytes | bytearray], pace: Pace | None) -> Iterator[bytes | bytearray]:
    """The same pieces; `pace` gets the size of each one before it is yielded."""
    return pieces if pace is None else _paced(pieces, pace)


def _paced(pieces: Iterator[bytes | bytearray], pace: Pace) -> Iterator[bytes | bytearray]:
    for piece in pieces:
        pace(len(piece))
        yield piece


class RecordStream(PieceStream):
    """Records one after the other; `at` is the position of the next one."""

    __slots__ = ()

    def check_end(self) -> None:
        """Refuse bytes after the last record; broken ones show themselves, too."""
        if self.left or self.more():
            invalid(f"{self.left} bytes after the last record")

    def read(self, base_offset: int, base_timestamp: int) -> Record:
        """The next record, held whole."""
        size = self._size_of_next()
        while self.left < size and self.more():
            size = self._size_of_next()
        if size < _SHORT_BYTES:
            record, self.at = read_record(self.held, self.at, base_offset, base_timestamp)
            return record
        with memoryview(self.held) as view:  # each field is copied once
            record, self.at = read_record(view, self.at, base_offset, base_timestamp)
        return record

    def pass_unread(self) -> None:
        """Skip a record that could not be read: by its length, or else all that is left."""
        try:
            length, start = read_varint(self.held, self.at)
        except (IndexError, KafkaError):
            length = -1
        if length < 0 or length > len(self.held) - start:
            self.at = len(self.held)
            self._pieces = iter(())
        else:
            self.at = start + length

    def skim(self) -> tuple[int, int, bool]:
        """Skip the next record: (timestamp delta, offset delta, has a key)."""
        while True:
            try:
                delta, offset_delta, has_key, self.at = skim_record(self.held, self.at)
            except KafkaError:
                if self.left >= _SHORT_BYTES:
                    return self._skim_long()
                if not self.more():
                    raise
            else:
                return delta, offset_delta, has_key

    def begin(self) -> tuple[int, int]:
        """Enter the next record, up to its offset: (timestamp delta, bytes that are left of it)."""
        length = self._varint()
        end = self.passed + length
        self.skip(1)
        delta = self._varint(_LONGEST_VARINT)
        return delta, end - self.passed

    def key(self) -> tuple[int, bytes | None, bool]:
        """The key of an entered record: (offset delta, key, has a value). `passed` is then in the
        middle of the record.
        """
        offset_delta = self._varint()
        size = self._varint()
        key = None if size < 0 else b"".join(self.take(size))
        return offset_delta, key, self._varint() >= 0

    def _size_of_next(self) -> int:
        """The size of the next record, by its length."""
        try:
            length, start = read_varint(self.held, self.at)
        except IndexError:
            return self.left + 1
        return start - self.at + length

    def _skim_long(self) -> tuple[int, int, bool]:
        """Skim a record field by field, dropping the bytes on the way."""
        length = self._varint()
        end = self.passed + length
        self.skip(1)
        delta = self._varint(_LONGEST_VARINT)
        offset_delta = self._varint()
        key_length = self._varint()
        self.skip(max(key_length, 0))
        self.skip(max(self._varint(), 0))
        count = self._varint()
        if count < 0:
            invalid(f"{count} headers")
        for _ in range(count):
            key_length_of_header = self._varint()
            if key_length_of_header < 0:
                invalid("header without key")
            self.skip(key_length_of_header)
            self.skip(max(self._varint(), 0))
        if self.passed != end:
            invalid(f"record says {length} bytes and holds others")
        return delta, offset_delta, key_length >= 0

    def _varint(self, max_bytes: int = 5) -> int:
        if self.left < _LONGEST_VARINT:
            self.more()
        try:
            value, self.at = read_varint(self.held, self.at, max_bytes)
        except IndexError:
            invalid("record cut short")
        return value
