"""The records of a batch as far as they can be read: one that is broken in itself hides none of its
neighbours.

Law: as in record_batch, any bytes give records or a KafkaError.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.errors import KafkaError
from kbroker.record.default_record import Bytes, Record, read_record, read_varint
from kbroker.record.record_batch import BatchHeader, payload


def readable_records(header: BatchHeader, batch: Bytes) -> Iterator[Record | KafkaError]:
    """The records of a format 2 batch, and the refusal of each that cannot be read in its place.
    The last refusal stands for the rest where a record does not tell where the next one begins.

    Raises KafkaError where the batch cannot be unpacked.
    """
    view = payload(header, batch)
    at = 0
    while at < len(view):
        try:
            record, at = read_record(view, at, header.base_offset, header.base_timestamp)
        except KafkaError as error:
            yield error
            at = _end_of_record(view, at)
        else:
            yield record


def _end_of_record(view: memoryview, position: int) -> int:
    """By the length that the record begins with; the end of all where that cannot be."""
    try:
        length, start = read_varint(view, position)
    except (IndexError, KafkaError):
        return len(view)
    return start + length if 0 <= length <= len(view) - start else len(view)
