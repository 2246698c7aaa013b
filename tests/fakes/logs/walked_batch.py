"""A batch walked whole: what the broker does in two steps, as it unpacks within limits."""

from __future__ import annotations

from kbroker.record.record_batch import BatchHeader, plain_records, record_stream
from kbroker.record.record_walk import LongWalkError, WalkedRecords, walk_records
from kbroker.record.stream_walk import walk_stream

MOST_STEPS = 1_000


def walk_batch(header: BatchHeader, batch: bytes | bytearray, *limit: int) -> WalkedRecords:
    """Walk all records; `limit` is the most bytes to unpack. Raises KafkaError as `walk_records`."""
    try:
        return walk_records(header, plain_records(header, batch, *limit), MOST_STEPS)[0]
    except LongWalkError:
        return walk_stream(header, record_stream(header, batch))
