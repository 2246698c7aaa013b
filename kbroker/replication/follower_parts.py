"""Cuts what a leader sent into parts that a segment can take.

PURE. Law: a follower's segments may be smaller than the leader's were, since settings change; what
fits one of the leader's must fit several of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from kbroker.record.record_batch import LOG_OVERHEAD

_LENGTH = Struct(">i")  # after the base offset, of all that follows it


def parts_for(records: memoryview, segment_bytes: int) -> Iterator[memoryview]:
    """The records as they are where they fit a segment, else in parts of whole batches."""
    size = len(records)
    if size <= segment_bytes:
        yield records
        return
    begin = end = 0
    while size - end >= LOG_OVERHEAD:
        batch_end = end + LOG_OVERHEAD + _LENGTH.unpack_from(records, end + 8)[0]
        if batch_end > size or batch_end <= end:
            break
        if batch_end - begin > segment_bytes and end > begin:
            yield records[begin:end]
            begin = end
        end = batch_end
    yield records[begin:]
