"""The time of one record, as a client is told it. Pure."""

from __future__ import annotations

from kbroker.errors import KafkaError
from kbroker.record.legacy_record import any_records
from kbroker.record.record_batch import LOG_APPEND_TIME, BatchHeader


def time_at(header: BatchHeader, batch: bytes | memoryview, offset: int) -> int | None:
    """Unix ms of the record at an offset, -1 where it has none; None where it is not in the batch,
    or the batch cannot be read.
    """
    if header.is_control or offset > header.last_offset:
        return None
    try:
        record = next((each for each in any_records(batch) if each.offset == offset), None)
    except KafkaError:
        return None
    if record is None:
        return None
    if header.timestamp_type == LOG_APPEND_TIME:
        return header.max_timestamp
    return record.timestamp
