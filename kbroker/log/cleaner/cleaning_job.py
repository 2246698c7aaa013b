"""The job of a cleaning and its results: values that go to another process and back.

Law of its groups, which are cleaned into one segment each: none is larger than a segment or an
index may be, and none of its offsets is further from the first than an index entry can say,
whatever the cleaning removes: otherwise the merged segment could not be indexed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kbroker.log.disk.format import MAX_RELATIVE_OFFSET
from kbroker.log.segments.transaction_index import AbortedTxn


class SourceSegment(NamedTuple):
    """A segment that is no longer written to. Sizes in bytes, time in Unix ms."""

    base_offset: int
    path: str  # of the data file
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int
    modified_ms: int


class CleanerLimits(NamedTuple):
    """Memory and disk that one cleaner may use."""

    map_bytes: int = 128 * 1024 * 1024
    load_factor: float = 0.9
    read_bytes: int = 256 * 1024  # read and written at once
    bytes_per_s: float = float("inf")  # reads and writes together


class CleaningJob(NamedTuple):
    """One round of cleaning of one log. Offsets: first dirty inclusive, first uncleanable
    exclusive; times in Unix ms.
    """

    topic: str
    partition: int
    directory: str
    segments: tuple[SourceSegment, ...]  # all below `first_uncleanable_offset`, ascending
    first_dirty_offset: int
    first_uncleanable_offset: int  # a segment's base offset
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    aborted: tuple[AbortedTxn, ...] = ()
    # Of each active producer: the last offset of its data, None without any, and its epoch.
    last_records: Mapping[int, tuple[int | None, int]] = {}
    limits: CleanerLimits = CleanerLimits()


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class CleanerStats:
    """Figures of one cleaning."""

    map_bytes_read: int = 0
    map_records: int = 0  # records whose keys were put into the map
    map_used_bytes: int = 0
    map_utilization: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    keyless_records: int = 0
    unreadable_batches: int = 0  # which stayed as they are
    first_unreadable: str = ""  # its offset, and the reason
    damaged_segments: int = 0  # which stayed as they are
    first_damaged: str = ""  # its path, and where and why

    def note_unreadable(self, offset: int, reason: str) -> None:
        """Count a batch that cannot be read."""
        self.unreadable_batches += 1
        self.first_unreadable = self.first_unreadable or f"offset {offset}: {reason}"

    def note_damaged(self, reasons: Sequence[str]) -> None:
        """Note for each damaged segment where it is damaged, and how."""
        self.damaged_segments = len(reasons)
        self.first_damaged = next(iter(reasons), "")


class CleanedGroup(NamedTuple):
    """A `.cleaned` segment that is whole on the disk, and what it was made from."""

    base_offset: int
    sources: tuple[int, ...]  # base offsets, ascending


class CleaningDone(NamedTuple):
    """The log is clean up to `end_offset` (exclusive)."""

    end_offset: int
    stats: CleanerStats
    elapsed_s: float = 0.0


class CleaningFailed(NamedTuple):
    """Why a cleaning came to no end. With a path the disk refused `operation` on it; without one
    the cleaner could not, or itself failed.
    """

    reason: str
    path: str = ""
    operation: str = ""
    errno: int = 0


CleaningEnd = CleaningDone | CleaningFailed


def group_segments(job: CleaningJob, end_offset: int) -> list[list[SourceSegment]]:
    """The segments that start below `end_offset`, in groups."""
    segments = [segment for segment in job.segments if segment.base_offset < end_offset]
    groups: list[list[SourceSegment]] = []
    for index, segment in enumerate(segments):
        following = segments[index + 1 : index + 2]
        next_offset = following[0].base_offset if following else job.first_uncleanable_offset
        if groups and _fits(job, groups[-1], segment, next_offset - 1):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(
    job: CleaningJob, group: Sequence[SourceSegment], segment: SourceSegment, last_offset: int
) -> bool:
    together = [*group, segment]
    return (
        sum(s.size_bytes for s in together) <= job.segment_bytes
        and sum(s.offset_index_bytes for s in together) <= job.segment_index_bytes
        and sum(s.time_index_bytes for s in together) <= job.segment_index_bytes
        and (not segment.size_bytes or last_offset - group[0].base_offset <= MAX_RELATIVE_OFFSET)
    )
