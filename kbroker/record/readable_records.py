"""The records of a batch as far as they can be read: one that is broken in itself hides none of its
neighbours.

Law: as in record_batch, any bytes give records or a KafkaError. A batch that is whole is read at
once, which costs less; a large one is not, for its records take many times its memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kbroker.errors import KafkaError
from kbroker.record.bulk_records import read_plain
from kbroker.record.compression import DEFAULT_MAX_BYTES
from kbroker.record.default_record import Bytes, Record, read_record, read_varint
from kbroker.record.legacy_record import any_records
from kbroker.record.record_batch import LOG_APPEND_TIME, MAGIC, BatchHeader, payload

AT_ONCE_BYTES: Final = 1 << 20  # of records, uncompressed


def readable_records(
    header: BatchHeader, batch: Bytes, max_decompressed_bytes: int = DEFAULT_MAX_BYTES
) -> Iterable[Record | KafkaError]:
    """The records of a batch or old message, and the refusal of each that cannot be read in its
    place. The last refusal stands for the rest where a record does not tell where the next one
    begins.

    Raises KafkaError where the batch cannot be unpacked.
    """
    if header.magic < MAGIC:
        return any_records(batch, 0, max_decompressed_bytes)
    view = payload(header, batch, 0, max_decompressed_bytes)
    if len(view) <= AT_ONCE_BYTES:
        try:
            return read_plain(header, bytes(view))
        except KafkaError:
            pass  # one by one, to tell the broken ones from the others
    return _one_by_one(header, view)


def _one_by_one(header: BatchHeader, view: memoryview) -> Iterator[Record | KafkaError]:
    stamped = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    at = 0
    while at < len(view):
        try:
            record, at = read_record(view, at, header.base_offset, header.base_timestamp)
        except KafkaError as error:
            yield error
            at = _end_of_record(view, at)
        else:
            yield record if stamped is None else record._replace(timestamp=stamped)


def _end_of_record(view: memoryview, position: int) -> int:
    """By the length that the record begins with; the end of all where that cannot be."""
    try:
        length, start = read_varint(view, position)
    except (IndexError, KafkaError):
        return len(view)
    return start + length if 0 <= length <= len(view) - start else len(view)
