"""Batches in an older message format, for fetchers that know old formats only (KIP-31, KIP-32,
KIP-98, KIP-283).

Law: offsets stay, with the gaps that compaction left, because consumers rely on them. The fetcher
gets nothing that the older format has no place for: no headers, producers or markers, and no times
in format 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from struct import Struct
from typing import NamedTuple

from kbroker.errors import ErrorCode, KafkaError
from kbroker.record.compression import ZSTD
from kbroker.record.default_record import Bytes, Record
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.legacy_record import HEADER_SIZE_UP_TO_MAGIC, any_records, read_any_header
from kbroker.record.record_batch import (
    LOG_OVERHEAD,
    BatchHeader,
)
from kbroker.record.record_stream import Pace

_LENGTH = Struct(">8xi").unpack_from  # of a message: the bytes after the field
_MAGIC_POSITION = HEADER_SIZE_UP_TO_MAGIC - 1


class DownConverted(NamedTuple):
    """The bytes for a fetcher of an old format, the offset after the last batch looked at, the base
    offsets of batches that could not be read, with the reasons, and how many records had another
    format.
    """

    records: bytes
    next_offset: int
    unreadable: tuple[tuple[int, str], ...] = ()
    record_count: int = 0


def down_convert(
    data: Bytes, magic: int, fetch_offset: int, max_bytes: int, pace: Pace | None = None
) -> DownConverted:
    """The batches of `data` in format `magic` or an older one.

    At most `max_bytes`, except that the first batch comes whole. Messages before `fetch_offset` are
    left out unless they are wrapped together with later ones. A message that is cut off comes along
    only as the first, which tells its reader to ask for more bytes. A batch whose records cannot be
    read is left out: nobody gets anything of it, and later ones can be converted. KafkaError if the
    first bytes are not a batch, or are one of zstd: UNSUPPORTED_COMPRESSION_TYPE.
    """
    view = memoryview(data)
    out = bytearray()
    unreadable: list[tuple[int, str]] = []
    position = record_count = 0
    next_offset = fetch_offset
    while position < len(view):
        try:
            header = _whole_header(view, position)
            if header is None:
                break
            _refuse_zstd(header, magic)
        except KafkaError:
            if out:
                break
            raise
        try:
            converted, made = _in_format(header, view, position, magic, fetch_offset, pace)
        except KafkaError as error:
            unreadable.append((header.base_offset, str(error)))
            converted, made = b"", 0
        record_count += made
        position += header.size_bytes
        next_offset = header.next_offset
        if out and len(out) + len(converted) > max_bytes:
            out += _whole_messages(converted, max_bytes - len(out))
            break
        out += converted
    if not position and len(view) > _MAGIC_POSITION and view[_MAGIC_POSITION] <= magic:
        return DownConverted(bytes(view), next_offset)
    return DownConverted(bytes(out), next_offset, tuple(unreadable), record_count)


def has_compressed(data: Bytes) -> bool:
    """True if a batch is compressed or unreadable: its size hides what converting it costs."""
    view = memoryview(data)
    position = 0
    try:
        while position < len(view):
            header = _whole_header(view, position)
            if header is None:
                return False
            if header.compression:
                return True
            position += header.size_bytes
    except KafkaError:
        return True
    return False


def _whole_header(view: memoryview, position: int) -> BatchHeader | None:
    try:
        header = read_any_header(view, position)
    except KafkaError as error:
        if error.code == ErrorCode.INVALID_RECORD:
            return None  # cut off inside the header
        raise
    return header if position + header.size_bytes <= len(view) else None


def _refuse_zstd(header: BatchHeader, magic: int) -> None:
    if header.compression == ZSTD and header.magic > magic and not header.is_control:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "Down-conversion of zstandard-compressed batches is not supported",
        )


def _in_format(
    header: BatchHeader,
    view: memoryview,
    position: int,
    magic: int,
    fetch_offset: int,
    pace: Pace | None,
) -> tuple[Bytes, int]:
    """One batch in the format, and how many of its records were converted."""
    if header.is_control:
        return b"", 0
    if header.magic <= magic:
        return view[position : position + header.size_bytes], 0
    records: Iterable[Record] = any_records(view, position, pace)
    if not header.compression:
        records = (record for record in records if record.offset >= fetch_offset)
    numbers = count()
    records = (record for record, _ in zip(records, numbers, strict=False))
    stamped = header.stamp
    converted = build_legacy(records, magic, header.compression, append_time_ms=stamped)
    return converted, next(numbers)


def _whole_messages(converted: Bytes, room: int) -> Bytes:
    """The whole messages from the start that fit into `room` bytes."""
    end = 0
    while end < len(converted):
        following = end + LOG_OVERHEAD + _LENGTH(converted, end)[0]
        if following > room:
            break
        end = following
    return memoryview(converted)[:end]
