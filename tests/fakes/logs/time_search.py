"""Look-ups by time on a log alone, as ListOffsets makes them: every batch is looked into at once."""

from __future__ import annotations

from kbroker.log.partition.log import Log
from kbroker.log.partition.time_lookup import TimedBatch
from kbroker.log.segments.fetch_data_info import TimestampAndOffset


def first_at(log: Log, timestamp_ms: int) -> TimestampAndOffset | None:
    """The first record at or after a time."""
    step = log.search_time(timestamp_ms, log.log_start_offset)
    while isinstance(step, TimedBatch):
        step = step.search() or log.search_time(timestamp_ms, step.header.next_offset)
    return step


def first_of_newest(log: Log) -> TimestampAndOffset | None:
    """The first record with the largest time."""
    return first_at(log, log.largest_timestamp())
