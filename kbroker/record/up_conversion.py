"""Messages of format 0 or 1 as records of format 2, in pieces.

Law: offsets are consecutive from the batch's base on, whatever they were. No more is held than a
piece, and the key of a long message.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from kbroker.record.default_record import varint_bytes
from kbroker.record.message_stream import MessageStream
from kbroker.record.old_messages import OldMessages

_NULL: Final = b"\x01"  # the length -1
_NO_HEADERS: Final = b"\0"
_DELTAS_AT_ONCE: Final = 64  # deltas whose varints share all bytes after the first
_varint = lru_cache(maxsize=4096)(varint_bytes)


def up_converted_pieces(
    messages: OldMessages, count: int, base_timestamp: int
) -> Iterator[bytes | bytearray]:
    """The first `count` messages, walked before, as records."""
    stream = messages.stream()
    stamp = messages.stamp
    index = 0
    while index < count:
        written, out = _held_records(stream, index, count, base_timestamp, stamp)
        index += written
        if out:
            yield out
        if index < count:
            if stream.is_long:
                yield from _long_record(stream, index, base_timestamp, stamp)
                index += 1
            elif not written:
                stream.more()


def _held_records(
    stream: MessageStream, index: int, count: int, base_timestamp: int, stamp: int | None
) -> tuple[int, bytearray]:
    """The messages that are held whole, from the one with the offset delta `index` on: their
    number, and their records.
    """
    begun = index
    out = bytearray()
    if isinstance(stream.held, bytearray):
        stream.held = bytes(stream.held)  # whose slices are cheap
    held = stream.held
    deltas = _deltas(index)
    for _, timestamp, key_at, key_length, value_at, value_length in stream.held_messages():
        record = b"".join(
            (
                b"\0",
                _varint((timestamp if stamp is None else stamp) - base_timestamp),
                deltas[index % _DELTAS_AT_ONCE],
                _varint(key_length if key_length >= 0 else -1),
                held[key_at : key_at + key_length] if key_length > 0 else b"",
                _varint(value_length if value_length >= 0 else -1),
                held[value_at : value_at + value_length] if value_length > 0 else b"",
                _NO_HEADERS,
            )
        )
        out += _varint(len(record))
        out += record
        index += 1
        if index == count:
            break
        if not index % _DELTAS_AT_ONCE:
            deltas = _deltas(index)
    return index - begun, out


def _long_record(
    stream: MessageStream, index: int, base_timestamp: int, stamp: int | None
) -> Iterator[bytes]:
    """The next message as a record; only its key is ever held."""
    message = stream.enter()
    timestamp = message.timestamp if stamp is None else stamp
    key, size = message.key, message.value_length
    lead = b"".join(
        (
            b"\0",
            _varint(timestamp - base_timestamp),
            varint_bytes(index),
            _NULL if key is None else _varint(len(key)) + key,
            _varint(max(size, -1)),
        )
    )
    size = max(size, 0)
    yield _varint(len(lead) + size + len(_NO_HEADERS)) + lead
    yield from stream.take(size)
    stream.skip(message.end - stream.passed)
    yield _NO_HEADERS


def _deltas(index: int) -> list[bytes]:
    """The varints of the deltas that share all bytes but the first with this one."""
    first, *_ = encoded = varint_bytes(index - index % _DELTAS_AT_ONCE)
    tail = encoded[1:]
    return [bytes((first + 2 * n,)) + tail for n in range(_DELTAS_AT_ONCE)]
