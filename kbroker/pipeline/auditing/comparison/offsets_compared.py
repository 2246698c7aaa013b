"""Compares the offsets of an archive with those of a log, by batch headers alone.

Law: what both can hold, both have to hold. The archive may lack what it says it lacks, with a
reason that the log does not contradict; the log may lack what compaction took. A log that was
compacted may have less than the archive, never the archive less than the log.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kbroker.inspection.finding import Findings
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch
from kbroker.pipeline.archiving.manifests.manifest import (
    ABORTED,
    COMPACTION,
    EXPIRED,
    RETENTION,
    UNREADABLE,
    HoleEntry,
)
from kbroker.pipeline.auditing.archives.archived_offsets import ArchivedOffsets, Int64s
from kbroker.pipeline.finding_codes import AuditCode
from kbroker.record.compression import NONE
from kbroker.record.record_batch import CONTROL_BIT, MAGIC, TRANSACTIONAL_BIT, BatchHeader

CONTROL: Final = 1
TRANSACTIONAL: Final = 2
OPAQUE: Final = 4  # a compressed message of an old format: its first offset and count are unknown
# Why the archive may lack what this log still holds: it was read from another replica.
_POSSIBLE = (ABORTED, EXPIRED, RETENTION, COMPACTION, UNREADABLE)
_CONTRADICTED = (RETENTION, COMPACTION)


@dataclass(frozen=True, slots=True)
class LogBatches:
    """One entry for each batch in every array, by rising offset. Last offsets inclusive."""

    base: Int64s
    last: Int64s
    count: Int64s
    flags: Int64s


class BatchGatherer:
    """Gathers the headers of one log."""

    def __init__(self) -> None:
        self._numbers = array("q")

    def batch(self, header: BatchHeader) -> None:
        """Take in the header of an intact batch."""
        flags = 0
        if header.attributes & CONTROL_BIT and header.magic == MAGIC:
            flags |= CONTROL
        if header.attributes & TRANSACTIONAL_BIT:
            flags |= TRANSACTIONAL
        if header.magic < MAGIC and header.compression != NONE:
            flags |= OPAQUE
        self._numbers.extend((header.base_offset, header.last_offset, header.record_count, flags))

    def batches(self) -> LogBatches:
        """Return what was gathered so far."""
        table = np.frombuffer(self._numbers, np.int64).reshape(-1, 4)
        return LogBatches(*(np.ascontiguousarray(table[:, column]) for column in range(4)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLog:
    """One log as its headers show it."""

    path: str  # of its directory
    topic_partition: TopicPartition
    start_offset: int
    end_offset: int  # exclusive
    is_compacted: bool
    batches: LogBatches


def compare_offsets(log: ComparedLog, archived: ArchivedOffsets, findings: Findings) -> None:
    """Report what one of the two lacks."""
    comparison = _Comparison(log, archived, findings)
    comparison.edges()
    for stretch in archived.stretches:
        comparison.lost(stretch)
    comparison.extra()


class _Comparison:
    def __init__(self, log: ComparedLog, archived: ArchivedOffsets, findings: Findings) -> None:
        self._log = log
        self._archived = archived
        self._findings = findings
        self._place = f"{archived.path} ({log.topic_partition})"
        batches = log.batches
        self._last = batches.last
        self._is_opaque = (batches.flags & OPAQUE) != 0
        self._is_control = (batches.flags & CONTROL) != 0
        self._base, self._count = batches.base, batches.count
        if self._is_opaque.any():
            self._fill_opaque()

    def _fill_opaque(self) -> None:
        """Let an old wrapper begin where the one before ends, unless the log was compacted."""
        before = np.concatenate((np.array([self._log.start_offset - 1]), self._last[:-1]))
        first = np.minimum(before + 1, self._base)
        self._base = np.where(self._is_opaque, first, self._base)
        span = self._last - self._base + 1
        full = np.zeros_like(span) if self._log.is_compacted else span
        self._count = np.where(self._is_opaque, full, self._count)

    def edges(self) -> None:
        """Compare where the two begin and end."""
        log, archived = self._log, self._archived
        beyond = archived.runs.within(log.end_offset, 2**62)
        if beyond:
            first = archived.runs.first_within(log.end_offset, 2**62)
            what = f"the archive holds {beyond} records from offset {first} on, the log ends with "
            what += f"{log.end_offset}"
            self._say(AuditCode.LOG_BEHIND_ARCHIVE, log.path, what, first)
        if archived.stretches and archived.end_offset < log.start_offset:
            what = f"offsets {archived.end_offset} to {log.start_offset - 1} are neither here nor "
            what += f"in {log.path}: they were deleted before they were archived"
            self._say(AuditCode.ARCHIVE_OVERTAKEN, self._place, what, archived.end_offset)
        elif archived.end_offset < log.end_offset:
            what = f"ends with {archived.end_offset}, the log with {log.end_offset}"
            self._say(AuditCode.ARCHIVE_BEHIND, self._place, what, archived.end_offset)

    def lost(self, stretch: Stretch) -> None:
        """Report the offsets of a stretch that the log holds and the archive does not."""
        low = np.maximum(self._base, stretch.start_offset)
        high = np.minimum(self._last + 1, stretch.end_offset)
        is_whole = (self._count == self._last - self._base + 1) & (self._count > 0)
        is_inside = (low == self._base) & (high == self._last + 1)
        wanted = np.where(is_whole, high - low, np.where(is_inside, self._count, 0))
        found = self._found(low, np.maximum(low, high))
        for at in np.flatnonzero((wanted > found) & (high > low) & ~self._is_control).tolist():
            self._lost_of_batch(at, int(low[at]), int(high[at]), is_whole=bool(is_whole[at]))

    def _found(self, low: Int64s, high: Int64s) -> Int64s:
        runs, unknown = self._archived.runs, self._archived.unknown
        found = runs.before(high) - runs.before(low)
        if len(unknown.starts):
            found += unknown.before(high) - unknown.before(low)
        return found

    def _lost_of_batch(self, at: int, low: int, high: int, *, is_whole: bool) -> None:
        is_transactional = bool(self._log.batches.flags[at] & TRANSACTIONAL)
        for start, end in self._archived.runs.missing(low, high):
            for first, after, hole in _explained(self._archived.holes, start, end):
                if hole is None:
                    self._say_lost(first, after, "does not say why")
                elif hole.reason == ABORTED and not is_transactional:
                    self._say_lost(first, after, f"says {hole.reason}, and there is none")
                elif hole.reason not in _POSSIBLE:
                    self._say_lost(first, after, f"says {hole.reason}")
                elif is_whole and hole.reason in _CONTRADICTED and not self._log.is_compacted:
                    what = f"says {hole.reason} of offsets {first} to {after - 1}, and the log "
                    what += "still has them"
                    self._say(AuditCode.ARCHIVE_HOLE_CONTRADICTED, self._place, what, first)

    def _say_lost(self, start: int, end: int, told: str) -> None:
        what = f"offsets {start} to {end - 1} are in the log and not in the archive, which {told}"
        self._say(AuditCode.ARCHIVE_LOST, self._place, what, start)

    def extra(self) -> None:
        """Report archived records between the ends of the log that are in no batch of records."""
        for at in np.flatnonzero(self._is_control).tolist():
            first = self._archived.runs.first_within(int(self._base[at]), int(self._last[at]) + 1)
            if first is not None:
                what = f"has a record with offset {first}, where the log has a transaction's marker"
                self._say(AuditCode.ARCHIVE_EXTRA, self._place, what, first)
        if self._log.is_compacted:
            return
        start, end = np.array([self._log.start_offset]), np.array([self._log.end_offset])
        gap_starts = np.concatenate((start, self._last + 1))
        gap_ends = np.concatenate((self._base, end))
        runs = self._archived.runs
        held = runs.before(np.maximum(gap_starts, gap_ends)) - runs.before(gap_starts)
        for at in np.flatnonzero(held > 0).tolist():
            first = runs.first_within(int(gap_starts[at]), int(gap_ends[at]))
            what = f"{int(held[at])} records from offset {first} on are in the archive and not here"
            self._say(AuditCode.LOG_LOST, self._log.path, what, first)

    def _say(self, code: AuditCode, path: str, what: str, offset: int | None) -> None:
        self._findings.add(code.finding(path, what, offset=offset))


def _explained(
    holes: Sequence[HoleEntry], start: int, end: int
) -> Iterator[tuple[int, int, HoleEntry | None]]:
    """Yield the parts of [start, end) with the hole that each is in."""
    at = start
    for hole in sorted(holes, key=lambda each: each.first_offset):
        if hole.last_offset < at or hole.first_offset >= end:
            continue
        if hole.first_offset > at:
            yield at, hole.first_offset, None
            at = hole.first_offset
        after = min(end, hole.last_offset + 1)
        yield at, after, hole
        at = after
        if at == end:
            return
    yield at, end, None
