"""Cuts what a leader sent into parts: such as a segment can take, and such as take little time.

Pure. Law: a follower's segments may be smaller than the leader's were, since settings change; what
fits one of the leader's must fit several of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from kbroker.record.record_batch import LOG_OVERHEAD

_LENGTH = Struct(">i")  # after the base offset, of all that follows it


def parts_for(records: memoryview, part_bytes: int) -> Iterator[memoryview]:
    """The records as they are where they fit a part, else in parts of whole batches; a batch that
    is larger than a part is one by itself.
    """
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
