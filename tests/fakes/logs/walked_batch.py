"""A batch walked whole: what the broker does in two steps, as it unpacks within limits."""

from __future__ import annotations

from kbroker.record.record_batch import BatchHeader, plain_records
from kbroker.record.record_walk import WalkedRecords, walk_records


def walk_batch(header: BatchHeader, batch: bytes | bytearray, *limit: int) -> WalkedRecords:
    """Walk all records; `limit` is the most bytes to unpack. Raises as `walk_records` does."""
    return walk_records(header, plain_records(header, batch, *limit))
