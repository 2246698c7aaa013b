"""Messages of format 0 or 1 that are unpacked piece by piece: MessageStream. The layout is in
`legacy_record`.

Law: as Java reads them. None of them is compressed, all have one format; a last one that is cut off
does not count, and bytes after the value of a message are dropped. Any bytes give messages or a
KafkaError. No more is held than a piece, and the record at hand.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple, NoReturn

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_TIMESTAMP, new_tuple
from kbroker.record.compression import COMPRESSION_MASK
from kbroker.record.default_record import Bytes, Record, invalid
from kbroker.record.piece_stream import PieceStream

MIN_LENGTH: Final = (14, 22, 49)  # by format, after the length field

_OVERHEAD: Final = 12  # offset and length
_CRC_COVERS_FROM: Final = 16
_LENGTH = Struct(">i")
_LENGTH_POSITION: Final = 8
_MAGIC_POSITION: Final = 16
_HEAD_0 = Struct(">qiIbbi")  # offset, length, CRC, magic, attributes, key length
_HEAD_1 = Struct(">qiIbbqi")  # the same with the timestamp before the key length
_LONG_BYTES: Final = 64 * 1024  # a message that takes more is walked in pieces
_COPIED_BYTES: Final = 4 * 1024 * 1024
_unpack_0 = _HEAD_0.unpack_from

Head = tuple[int, int, int, int, int, int, int]
# Offset, timestamp, position and length of key, of value; below 0 stands for null.
Held = tuple[int, int, int, int, int, int]


def _head_of_format_0(held: Bytes, at: int) -> Head:
    offset, length, crc, magic, attributes, key_length = _unpack_0(held, at)
    return offset, length, crc, magic, attributes, NO_TIMESTAMP, key_length


_UNPACKS: Final[tuple[Callable[[Bytes, int], Head], ...]] = (
    _head_of_format_0,
    _HEAD_1.unpack_from,
)
_HEAD_BYTES: Final = (_HEAD_0.size, _HEAD_1.size)


class WalkedMessages(NamedTuple):
    """The result of a walk over all messages; the offsets are the messages' own."""

    record_count: int
    first_offset: int
    last_offset: int
    follow: bool  # each has the offset after that of the one before
    first_timestamp: int
    least_timestamp: int
    largest_timestamp: int
    keyless: int  # how many have no key
    longest_bytes: int  # of the messages that were not held whole
    size_bytes: int  # of all, unpacked


class LongMessage(NamedTuple):
    """A message that was entered, up to its value."""

    offset: int
    timestamp: int
    key: bytes | None
    value_length: int  # below 0: null
    end: int  # of the message, counted as `passed`


class _CutOffError(Exception):
    """The last message is not whole."""


class MessageStream(PieceStream):
    """Messages one after the other; `at` is the position of the next one."""

    __slots__ = ("_head_bytes", "_longest_bytes", "_magic", "_unpack", "_wrong")

    def __init__(self, pieces: Iterator[bytes | bytearray], magic: int) -> None:
        super().__init__(pieces)
        self._magic = magic
        self._unpack = _UNPACKS[magic]
        self._head_bytes = _HEAD_BYTES[magic]
        self._longest_bytes = 0
        self._wrong: int | None = None  # the first checksum that is

    def walk(self, *, checks_crc: bool = False) -> WalkedMessages:
        """Walk all messages; KafkaError if one is broken, and CORRUPT_MESSAGE if its checksum is
        wrong and was asked for.
        """
        count = keyless = 0
        first = first_ms = least = largest = 0
        expected: int | None = None
        follow = True
        for offset, timestamp, _, key_length, _, _ in self.passed_over(checks_crc=checks_crc):
            if expected is None:
                first, first_ms, least, largest = offset, timestamp, timestamp, timestamp
            elif offset != expected:
                follow = False
            expected = offset + 1
            if not least <= timestamp <= largest:
                least, largest = min(least, timestamp), max(largest, timestamp)
            count += 1
            keyless += key_length < 0
        if self._wrong is not None:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"wrapped message with a wrong checksum (stored crc = {self._wrong})",
            )
        last = first if expected is None else expected - 1
        return WalkedMessages(
            count, first, last, follow, first_ms, least, largest, keyless,
            self._longest_bytes, self.passed,
        )  # fmt: skip

    def passed_over(self, *, checks_crc: bool = False) -> Iterator[Held]:
        """Skip all messages; the positions are right only if the stream is held whole."""
        while True:
            yield from self.held_messages(checks_crc=checks_crc)
            if self.is_long:
                try:
                    yield self._walk_long(checks_crc)
                except _CutOffError:
                    return
            elif not self.more():
                self._check_end()
                return

    def records(self, count: int) -> Iterator[Record]:
        """The next `count` messages, which were walked before; each is held whole."""
        while count:
            self._hold_next()
            if isinstance(self.held, bytearray) and len(self.held) <= _COPIED_BYTES:
                self.held = bytes(self.held)  # its slices are bytes
            with memoryview(self.held) as view:
                source = self.held if isinstance(self.held, bytes) else view
                for offset, timestamp, key_at, key_length, value_at, length in self.held_messages():
                    key = bytes(source[key_at : key_at + key_length]) if key_length >= 0 else None
                    value = bytes(source[value_at : value_at + length]) if length >= 0 else None
                    yield new_tuple(Record, (offset, timestamp, key, value, ()))
                    count -= 1
                    if not count:
                        return

    def held_messages(self, *, checks_crc: bool = False) -> Iterator[Held]:
        """Skip the messages that are held whole, up to the first that is not."""
        held, at = self.held, self.at
        size = len(held)
        unpack, head_bytes, least_length = self._unpack, self._head_bytes, MIN_LENGTH[self._magic]
        with memoryview(held) as view:
            try:
                while True:
                    offset, length, crc, magic, attributes, timestamp, key_length = unpack(held, at)
                    end = at + _OVERHEAD + length
                    if end > size:
                        return
                    if (
                        magic != self._magic
                        or attributes & COMPRESSION_MASK
                        or length < least_length
                    ):
                        self._refuse(length, magic)
                    if checks_crc and zlib.crc32(view[at + _CRC_COVERS_FROM : end]) != crc:
                        self._note_wrong(crc)
                        at = self.at = end
                        continue
                    key_at = at + head_bytes
                    value_at = key_at + _LENGTH.size + (key_length if key_length > 0 else 0)
                    if value_at > end:
                        invalid("message cut short")
                    (value_length,) = _LENGTH.unpack_from(held, value_at - _LENGTH.size)
                    if value_at + value_length > end:
                        left = end - value_at
                        invalid(f"field of {value_length} bytes, {left} left in its message")
                    at = self.at = end
                    yield offset, timestamp, key_at, key_length, value_at, value_length
            except struct_error:
                return  # the head of the next one is not held whole

    @property
    def is_long(self) -> bool:
        """Whether the next message, which is not held whole, should never be held whole."""
        if self.left < self._head_bytes:
            return False
        (length,) = _LENGTH.unpack_from(self.held, self.at + _LENGTH_POSITION)
        return bool(length >= _LONG_BYTES)

    def enter(self) -> LongMessage:
        """Enter a long message that was walked before; its value comes next."""
        offset, length, _, _, _, timestamp, key_length = self._unpack(self.held, self.at)
        end = self.passed + _OVERHEAD + length
        self.at += self._head_bytes
        key = b"".join(self.take(key_length)) if key_length >= 0 else None
        (value_length,) = _LENGTH.unpack(b"".join(self.take(_LENGTH.size)))
        return LongMessage(offset, timestamp, key, value_length, end)

    def _walk_long(self, checks_crc: bool) -> Held:
        """Skip a message, dropping bytes on the way."""
        offset, length, crc, magic, attributes, timestamp, key_length = self._unpack(
            self.held, self.at
        )
        end = self.passed + _OVERHEAD + length
        self.at += _CRC_COVERS_FROM
        up_to_value = self._head_bytes - _CRC_COVERS_FROM + max(key_length, 0)
        most = end - self.passed
        found = self._digested(min(up_to_value, most), 0)
        value_length = most  # too much, if there is no length
        if up_to_value + _LENGTH.size <= most:
            while self.left < _LENGTH.size:
                if not self.more():
                    raise _CutOffError
            (value_length,) = _LENGTH.unpack_from(self.held, self.at)
            value_length += _LENGTH.size if value_length > 0 else 0
        left = end - self.passed
        found = self._digested(left, found)  # whole: only now it counts
        self._longest_bytes = max(self._longest_bytes, length)
        if magic != self._magic or attributes & COMPRESSION_MASK:
            self._refuse(length, magic)
        if checks_crc and found != crc:
            self._note_wrong(crc)
        elif value_length > left:
            invalid("message cut short")
        return offset, timestamp, 0, key_length, 0, 0

    def _digested(self, size_bytes: int, crc: int) -> int:
        """Skip this many bytes, and add them to the checksum."""
        while size_bytes > self.left:
            size_bytes -= self.left
            with memoryview(self.held) as view:
                crc = zlib.crc32(view[self.at :], crc)
            self.at = len(self.held)
            if not self.more():
                raise _CutOffError
        with memoryview(self.held) as view:
            crc = zlib.crc32(view[self.at : self.at + size_bytes], crc)
        self.at += size_bytes
        return crc

    def _hold_next(self) -> None:
        """Hold the whole next message, which is not cut off."""
        while self.left < self._head_bytes or self.left < self._size_of_next():
            if not self.more():
                invalid("message cut short")

    def _size_of_next(self) -> int:
        (length,) = _LENGTH.unpack_from(self.held, self.at + _LENGTH_POSITION)
        return _OVERHEAD + int(length)

    def _check_end(self) -> None:
        """Refuse the bytes that are left, unless they begin a message that is cut off."""
        if self.left < _OVERHEAD:
            return
        size = self._size_of_next()
        if size < _OVERHEAD + MIN_LENGTH[0] or size <= self.left:
            has_magic = self.left > _MAGIC_POSITION
            magic = self.held[self.at + _MAGIC_POSITION] if has_magic else self._magic
            self._refuse(size - _OVERHEAD, magic)

    def _refuse(self, length: int, magic: int) -> NoReturn:
        if length < MIN_LENGTH[0] or not 0 <= magic <= 2 or length < MIN_LENGTH[magic]:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"message of format {magic} with the length {length}"
            )
        invalid(f"message of format {magic} wrapped in format {self._magic}")

    def _note_wrong(self, crc: int) -> None:
        """Remember a wrong checksum: it is reported once everything is unpacked."""
        if self._wrong is None:
            self._wrong = crc
