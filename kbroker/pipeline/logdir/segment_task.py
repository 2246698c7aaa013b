"""The work of one Spark task: a stretch of one segment file. Values that can be pickled.

Planning finds whole batches for both ends, so that no batch is read by two tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kbroker.log.disk.format import MAX_OFFSET, log_file


class AbortedTransaction(NamedTuple):
    """Offsets, both inclusive, between which batches of a producer were aborted."""

    producer_id: int
    first_offset: int
    last_offset: int  # of the marker


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTask:
    """Batches that begin in [start_position, end_position) of a segment, and of them the records in
    [start_offset, end_offset).
    """

    directory: str  # of the partition
    topic: str
    partition: int
    segment_base_offset: int
    start_position: int  # bytes; a batch begins there
    end_position: int  # bytes, exclusive
    start_offset: int
    end_offset: int  # exclusive
    aborted: tuple[AbortedTransaction, ...] = ()  # those to leave out; empty if all are read
    expected_offset: int = 0  # all before it was read by the task that this one goes on for
    segment_end_offset: int = MAX_OFFSET  # where the next segment begins

    @property
    def path(self) -> str:
        return log_file(self.directory, self.segment_base_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The wanted parts of each record. Times in Unix ms."""

    columns: tuple[str, ...]  # in the order of the result
    includes_control: bool = False  # markers are rows too
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None  # inclusive
    rows_per_batch: int = 8_192
    bytes_per_batch: int = 1024 * 1024  # about; one record may be larger
