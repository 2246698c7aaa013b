"""Look-ups by time: the first record at or after one, and the first of the newest.

Law: headers and indexes say which batch to look into, on the event loop. Looking into it may take
long, so it needs nothing but the batch's bytes and may run on a worker thread. A header may claim a
time that no record has: then the search goes on after that batch.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.errors import KafkaError
from kbroker.log.append.append_rules import AT_ONCE_RECORDS
from kbroker.log.segments.fetch_data_info import TimestampAndOffset
from kbroker.log.segments.log_segments import LogSegments
from kbroker.record.old_messages import OldMessages
from kbroker.record.record_batch import MAGIC, BatchHeader, record_stream
from kbroker.record.record_stream import Pace
from kbroker.record.stream_walk import first_record_at

_PLAIN_BYTES = 64 * 1024
_LOOKED_INTO_AT_ONCE = 4  # headers that lie may make it many


class TimedBatch(NamedTuple):
    """A batch whose header mentions a record at or after a time."""

    header: BatchHeader
    records: bytes
    timestamp: int
    starting_offset: int

    @property
    def takes_long(self) -> bool:
        """The event loop should not look into it: it is large, or may unpack to much."""
        return (
            self.header.compression > 0
            or self.header.record_count > AT_ONCE_RECORDS
            or len(self.records) > _PLAIN_BYTES
        )

    def search(self, pace: Pace | None = None) -> TimestampAndOffset | None:
        """The first such record; may run on a worker thread. KafkaError(INVALID_RECORD)."""
        header, records = self.header, memoryview(self.records)
        if header.magic == MAGIC:
            stream = record_stream(header, records, pace=pace)
            found = first_record_at(header, stream, self.timestamp, self.starting_offset)
        else:
            messages = OldMessages.of(header, records, pace)
            found = messages.first_at(self.timestamp, self.starting_offset)
        return self._found(*found) if found is not None else None

    def _found(self, timestamp: int, offset: int) -> TimestampAndOffset:
        epoch = self.header.partition_leader_epoch
        return TimestampAndOffset(timestamp, offset, epoch if epoch >= 0 else None)


def search(
    segments: LogSegments, timestamp_ms: int, starting_offset: int
) -> TimestampAndOffset | TimedBatch | None:
    """The first record at or after a time and an offset, looked for in small batches, a few of
    them; else the batch to look into for it, after which the search goes on: a large one, or one
    that cannot be read. None if there is neither.
    """
    batch = next_timed_batch(segments, timestamp_ms, starting_offset)
    for _ in range(_LOOKED_INTO_AT_ONCE):
        if batch is None or batch.takes_long:
            break
        try:
            found = batch.search()
        except KafkaError:
            break  # whoever looks into it again reports it
        if found is not None:
            return found
        batch = next_timed_batch(segments, timestamp_ms, batch.header.next_offset)
    return batch


def next_timed_batch(
    segments: LogSegments, timestamp_ms: int, starting_offset: int
) -> TimedBatch | None:
    """The first batch with offsets from there on that mentions a record at or after a time."""
    for segment in segments.from_offset(starting_offset):
        if segment.largest_timestamp >= timestamp_ms:
            found = segment.batch_at_time(timestamp_ms, starting_offset)
            if found is not None:
                return TimedBatch(*found, timestamp_ms, starting_offset)
    return None
