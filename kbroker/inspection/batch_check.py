"""The faults that one batch can have: in its header, and with a deep look its records. Values in,
words out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kbroker.errors import ErrorCode, KafkaError
from kbroker.inspection.finding_codes import FindingCode
from kbroker.log.disk.format import MAX_RELATIVE_OFFSET
from kbroker.record import record_batch
from kbroker.record.compression import CODEC_NAMES
from kbroker.record.default_record import skim_record
from kbroker.record.legacy_record import any_records
from kbroker.record.record_batch import LOG_APPEND_TIME, MAGIC, BatchHeader

MAX_DECOMPRESSED_BYTES = 1024 * 1024 * 1024


class Problem(NamedTuple):
    """A kind, and what is wrong in words."""

    code: FindingCode
    what: str


def is_plain(header: BatchHeader, segment_base_offset: int) -> bool:
    """True if `header_problems` yields nothing: most batches, in one expression."""
    base_offset, delta, count = header.base_offset, header.last_offset_delta, header.record_count
    return (
        base_offset >= segment_base_offset
        and 0 <= count <= delta + 1
        and delta >= 0
        and base_offset + delta - segment_base_offset <= MAX_RELATIVE_OFFSET
        and header.attributes & 0x07 in CODEC_NAMES
    )


def header_problems(header: BatchHeader, segment_base_offset: int) -> Iterator[Problem]:
    """Yield contradictions in a header, whether its CRC is right or wrong."""
    if header.base_offset < segment_base_offset:
        yield Problem(
            FindingCode.BATCH_BEFORE_SEGMENT,
            f"base offset {header.base_offset} is before the segment's, {segment_base_offset}",
        )
    elif header.last_offset - segment_base_offset > MAX_RELATIVE_OFFSET:
        yield Problem(
            FindingCode.BATCH_BEYOND_SEGMENT,
            f"last offset {header.last_offset} is more than 2^31 after the segment's base",
        )
    if header.last_offset_delta < 0:
        yield Problem(FindingCode.BATCH_HEADER, f"last offset delta {header.last_offset_delta}")
    elif not 0 <= header.record_count <= header.last_offset_delta + 1:
        yield Problem(
            FindingCode.BATCH_HEADER,
            f"{header.record_count} records with last offset delta {header.last_offset_delta}",
        )
    if header.compression not in CODEC_NAMES:
        yield Problem(
            FindingCode.BATCH_HEADER, f"compression {header.compression}, which is not a codec"
        )


class Unpacked:
    """The records of a batch as far as a walk over them came."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.timestamps: list[int] = []  # ms


def record_problems(
    header: BatchHeader, data: bytes | memoryview, unpacked: Unpacked | None = None
) -> Iterator[Problem]:
    """Walk over the uncompressed records of a batch and yield their problems; fills `unpacked`."""
    unpacked = unpacked or Unpacked()
    try:
        if header.magic == MAGIC:
            yield from _records_of_batch(header, data, unpacked)
        else:
            yield from _records_of_message(header, data, unpacked)
    except KafkaError as error:
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            yield Problem(
                FindingCode.BATCH_TOO_LARGE, f"its records were not checked: {error.message}"
            )
        else:
            yield Problem(FindingCode.BATCH_RECORDS, f"its records cannot be read: {error.message}")


def _records_of_batch(
    header: BatchHeader, data: bytes | memoryview, unpacked: Unpacked
) -> Iterator[Problem]:
    view = record_batch.payload(header, data, 0, MAX_DECOMPRESSED_BYTES)
    unpacked.size_bytes = len(view)
    timestamps = unpacked.timestamps
    base_timestamp = header.base_timestamp
    at = 0
    last_delta = -1
    for index in range(header.record_count):
        timestamp_delta, offset_delta, _, at = skim_record(view, at)
        if not last_delta < offset_delta <= header.last_offset_delta:
            yield Problem(
                FindingCode.BATCH_RECORDS,
                f"record {index} has offset delta {offset_delta} after {last_delta}, "
                f"the batch ends with {header.last_offset_delta}",
            )
            return
        last_delta = offset_delta
        timestamps.append(base_timestamp + timestamp_delta)
    if at != len(view):
        yield Problem(FindingCode.BATCH_RECORDS, f"{len(view) - at} bytes after the last record")
    yield from _timestamp_problems(header, timestamps)
    if header.is_control and header.record_count:
        record = next(record_batch.records(data))
        record_batch.read_control(record)


def _timestamp_problems(header: BatchHeader, timestamps: list[int]) -> Iterator[Problem]:
    if header.timestamp_type == LOG_APPEND_TIME:
        timestamps[:] = [header.max_timestamp] * len(timestamps)
    elif timestamps and max(timestamps) != header.max_timestamp:
        yield Problem(
            FindingCode.BATCH_TIMESTAMP,
            f"the header says max timestamp {header.max_timestamp}, its records {max(timestamps)}",
        )


def _records_of_message(
    header: BatchHeader, data: bytes | memoryview, unpacked: Unpacked
) -> Iterator[Problem]:
    last_offset = -1
    for record in any_records(data):
        unpacked.timestamps.append(record.timestamp)
        if not last_offset < record.offset <= header.last_offset:
            yield Problem(
                FindingCode.BATCH_RECORDS,
                f"a wrapped message has offset {record.offset} after {last_offset}, "
                f"the wrapper has {header.last_offset}",
            )
            return
        last_offset = record.offset
    if last_offset != header.last_offset:
        yield Problem(
            FindingCode.BATCH_RECORDS,
            f"the last wrapped message has offset {last_offset}, not {header.last_offset}",
        )
