"""Cuts what a leader sent into parts that a segment can take, or that take little time to store.

Pure. Law: a follower's segments may be smaller than the leader's, because settings change; records
that filled one of the leader's may have to fill several of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from kbroker.record.record_batch import LOG_OVERHEAD

_LENGTH = Struct(">i")  # after the base offset, of all that follows it


def parts_for(records: memoryview, part_bytes: int) -> Iterator[memoryview]:
    """Yield the records in parts of whole batches; a batch above `part_bytes` is one part."""
    size = len(records)
    if size <= part_bytes:
        yield records
        return
    begin = end = 0
    while size - end >= LOG_OVERHEAD:
        batch_end = end + LOG_OVERHEAD + _LENGTH.unpack_from(records, end + 8)[0]
        if batch_end > size or batch_end <= end:
            break
        if batch_end - begin > part_bytes and end > begin:
            yield records[begin:end]
            begin = end
        end = batch_end
    yield records[begin:]
