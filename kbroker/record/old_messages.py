"""OldMessages: what a compressed message of format 0 or 1 wraps, or a set of plain ones.

Law: no more than a piece is held. Asking twice unpacks twice: only the last of the wrapped messages
shows the offsets of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as struct_error

from kbroker.record.codecs.lz4_checksum import with_right_checksum
from kbroker.record.compression import LZ4, NONE, ZSTD, plain_pieces
from kbroker.record.default_record import Bytes, Record, invalid
from kbroker.record.message_stream import MessageStream, WalkedMessages
from kbroker.record.record_batch import LOG_APPEND_TIME, BatchHeader
from kbroker.record.record_stream import Pace, paced

_LENGTH = Struct(">i")
_KEY_POSITIONS = (18, 26)  # of its length, by format


class OldMessages:
    """Messages of one format. `stamp` is the time of all of them, None if each has its own; `shift`
    makes their offsets absolute once they have been walked.
    """

    def __init__(self, magic: int, codec: int, data: Bytes, pace: Pace | None) -> None:
        self.magic = magic
        self.shift = 0
        self.stamp: int | None = None
        self._codec = codec
        self._data = data
        self._pace = pace
        self._last_offset: int | None = None  # of the wrapped messages, by the wrapper
        self._whole: bytes | bytearray | None = None  # unpacked

    @classmethod
    def in_set(cls, magic: int, messages: Bytes, pace: Pace | None = None) -> OldMessages:
        """Plain messages one after the other; `pace` gets the number of their bytes each time."""
        return cls(magic, NONE, messages, pace)

    @classmethod
    def wrapped(
        cls, header: BatchHeader, message: memoryview, pace: Pace | None = None
    ) -> OldMessages:
        """The messages in a compressed message; `pace` gets the number of unpacked bytes each time.
        KafkaError(INVALID_RECORD) if there can be none.
        """
        codec = header.compression
        if codec == ZSTD:
            invalid(f"message of format {header.magic} compressed with zstd")
        value: Bytes = _value_of(header, message)
        if codec == LZ4 and header.magic == 0:
            value = with_right_checksum(value)
        messages = cls(header.magic, codec, value, pace)
        if header.timestamp_type == LOG_APPEND_TIME:
            messages.stamp = header.max_timestamp
        # Some versions of librdkafka left the wrapper's offset at 0 when they produced.
        if header.magic and header.base_offset:
            messages._last_offset = header.base_offset
        return messages

    @classmethod
    def of(cls, header: BatchHeader, message: memoryview, pace: Pace | None = None) -> OldMessages:
        """The messages of one entry of a log: a plain one itself, or the ones it wraps. KafkaError
        as `wrapped`.
        """
        if header.compression:
            return cls.wrapped(header, message, pace)
        if header.size_bytes > len(message):
            invalid(f"message of {header.size_bytes} bytes, {len(message)} given")
        return cls.in_set(header.magic, message[: header.size_bytes], pace)

    def walk(self, *, checks_crc: bool = False) -> WalkedMessages:
        """Walk all of them, at least one; offsets and times are the ones that count. Raises
        KafkaError as `MessageStream.walk` does if they cannot be read.
        """
        stream = self.stream()
        walked = stream.walk(checks_crc=checks_crc)
        if self._codec and stream.passed == stream.at:  # the whole stream is still held
            self._whole = stream.held
        if not walked.record_count:
            invalid("compressed message that wraps nothing")
        if self._last_offset is not None:
            self.shift = self._last_offset - walked.last_offset
            if self.shift < 0:
                invalid(
                    f"compressed message with offset {self._last_offset} that wraps one with "
                    f"offset {walked.last_offset}"
                )
        walked = walked._replace(
            first_offset=walked.first_offset + self.shift,
            last_offset=walked.last_offset + self.shift,
        )
        stamp = self.stamp
        if stamp is None:
            return walked
        return walked._replace(
            first_timestamp=stamp, least_timestamp=stamp, largest_timestamp=stamp
        )

    def stream(self) -> MessageStream:
        """All of them, with their own offsets and times."""
        pieces = (
            paced(plain_pieces(self._codec, self._data), self._pace)
            if self._whole is None
            else iter((self._whole,))
        )
        return MessageStream(pieces, self.magic)

    def first_at(self, timestamp: int, starting_offset: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first one not before both; none is held. KafkaError if they
        cannot be read.
        """
        self.walk()
        shift, stamp = self.shift, self.stamp
        for offset, own_ms, *_ in self.stream().passed_over():
            found_ms = own_ms if stamp is None else stamp
            if found_ms >= timestamp and offset + shift >= starting_offset:
                return found_ms, offset + shift
        return None

    def records(self, count: int) -> Iterator[Record]:
        """The first `count` of them, walked before; each is held whole."""
        found = self.stream().records(count)
        shift, stamp = self.shift, self.stamp
        if not shift and stamp is None:
            return found
        return _placed(found, shift, stamp)


def _placed(found: Iterator[Record], shift: int, stamp: int | None) -> Iterator[Record]:
    for offset, timestamp, key, value, _ in found:
        yield Record(offset + shift, timestamp if stamp is None else stamp, key, value)


def _value_of(header: BatchHeader, message: memoryview) -> memoryview:
    """The value of a message. KafkaError(INVALID_RECORD) if it has none."""
    end = header.size_bytes
    if end > len(message):
        invalid(f"message of {end} bytes, {len(message)} given")
    at = _KEY_POSITIONS[header.magic]
    try:
        (key_length,) = _LENGTH.unpack_from(message[:end], at)
        at += _LENGTH.size + max(key_length, 0)
        (length,) = _LENGTH.unpack_from(message[:end], at)
    except struct_error:
        invalid("message cut short")
    if length < 0:
        invalid("compressed message without value")
    at += _LENGTH.size
    if at + length > end:
        invalid(f"field of {length} bytes, {end - at} left in its message")
    return message[at : at + length]
