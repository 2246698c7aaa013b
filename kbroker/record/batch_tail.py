"""Whether a batch that a client sent ends as its header says, by a look at its last record.

Law: `tail_fits` never refuses a batch. True is proof as far as it goes, False proves nothing: such
a batch is walked.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kbroker.errors import KafkaError
from kbroker.record.default_record import Bytes, read_varint, skim_headers, varint_bytes
from kbroker.record.record_batch import HEADER_SIZE, BatchHeader

_TAIL_BYTES: Final = 1024  # how much larger than the average record the last one may be
_TAIL_TRIES: Final = 8


def tail_fits(header: BatchHeader, batch: bytearray | memoryview) -> bool:
    """True if an uncompressed batch ends with a record that has the last offset and the largest
    time of its header, as batches of honest producers do. False proves nothing: the last record may
    be older than another one, or hard to find.
    """
    count = header[12]
    if count == 1:
        return only_record_fits(header, batch)
    if count < 1:
        return False
    time_delta, offset_delta = header[8] - header[7], header[6]
    size_bytes = -(-(len(batch) - HEADER_SIZE) // count)
    start = _record_start(size_bytes, time_delta, offset_delta)
    at = len(batch) - size_bytes
    if start and bytes(batch[at : at + len(start)]) == start:  # records of one size are common
        return True
    tail = bytes(batch[-(len(batch) // count + _TAIL_BYTES) :])
    mark = _mark(time_delta, offset_delta)
    size = len(tail)
    at = tail.rfind(mark, 1)
    tries = _TAIL_TRIES
    while at > 0 and tries:
        length = _varint(size - at)
        if tail.startswith(length, at - len(length)):
            return True
        at = tail.rfind(mark, 1, at)
        tries -= 1
    return False


def only_record_fits(header: BatchHeader, batch: Bytes) -> bool:
    """True if an uncompressed batch holds one record and nothing else: that of the header's time,
    written as most producers do, with fewer than 64 headers. Then nothing is left to walk.
    """
    size = len(batch)
    try:
        twice = batch[HEADER_SIZE]
        at = HEADER_SIZE + 1
        if twice >= 0x80:
            length, at = read_varint(batch, HEADER_SIZE)
            twice = 2 * length
        if 2 * at + twice != 2 * size or header[8] != header[7] or header[6]:
            return False
        if batch[at] or batch[at + 1] or batch[at + 2]:  # attributes, time and offset
            return False
        at = _behind_bytes(batch, _behind_bytes(batch, at + 3))
        headers = batch[at]
        return (not headers and at + 1 == size) or (
            headers < 0x80 and skim_headers(batch, at) == size
        )
    except (IndexError, KafkaError):
        return False


def _behind_bytes(batch: Bytes, at: int) -> int:
    """The position after a key or value and its length, or null. IndexError past the end."""
    twice = batch[at]
    if twice < 0x80:
        return at + 1 if twice & 1 else at + 1 + (twice >> 1)
    high = batch[at + 1]
    if high < 0x80 and not twice & 1:
        return at + 2 + (twice + (high << 7) - 0x80 >> 1)
    length, at = read_varint(batch, at)
    return at + length if length > 0 else at


# The same few lengths, offsets and time spans come again and again.
@lru_cache(maxsize=4096)
def _record_start(size_bytes: int, time_delta: int, offset_delta: int) -> bytes:
    """The start of a record of this size, up to its key; empty if there is none."""
    mark = _mark(time_delta, offset_delta)
    for prefix in range(1, 6):
        length = _varint(size_bytes - prefix)
        if len(length) == prefix and size_bytes - prefix >= len(mark):
            return length + mark
    return b""


@lru_cache(maxsize=4096)
def _mark(time_delta: int, offset_delta: int) -> bytes:
    """Attributes, time and offset: the bytes between the length of a record and its key."""
    return b"\0" + _varint(time_delta) + _varint(offset_delta)


_varint = lru_cache(maxsize=4096)(varint_bytes)
