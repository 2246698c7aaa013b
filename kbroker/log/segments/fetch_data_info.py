"""Values of reads: isolation levels, the slice of a segment file, timestamp search results."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from kbroker.log.segments.file_records import RecordsSlice
from kbroker.log.segments.transaction_index import AbortedTxn


class FetchIsolation(IntEnum):
    """How far a read may see: followers to the log end, consumers to the high watermark or the last
    stable offset.
    """

    LOG_END = 0
    HIGH_WATERMARK = 1
    TXN_COMMITTED = 2


class TimestampAndOffset(NamedTuple):
    """A record's timestamp and offset; `leader_epoch` is None if the log does not know it."""

    timestamp: int
    offset: int
    leader_epoch: int | None


class SegmentRead(NamedTuple):
    """Bytes of a segment from the batch that holds the wanted offset on; `is_first_incomplete`
    if it was cut. `available_bytes` are there without the limit.
    """

    records: RecordsSlice
    is_first_incomplete: bool
    available_bytes: int


class FetchDataInfo(NamedTuple):
    """The result of a read: a slice of one segment's file, from the batch that holds `fetch_offset`
    on.

    `aborted_transactions` is a list for readers of committed data and None for all others. The
    slice may end inside a batch, and is empty at the bound of the isolation level;
    `is_first_incomplete` if it ends inside the first. `available_bytes` is what the segment has
    up to that bound, whatever the limit of the read; `on_older_segment` if a later segment has
    the bound.
    """

    fetch_offset: int
    records: RecordsSlice
    aborted_transactions: list[AbortedTxn] | None = None
    is_first_incomplete: bool = False
    available_bytes: int = 0
    on_older_segment: bool = False
