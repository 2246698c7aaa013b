"""Checks whether the files of an archive hold every offset that it covers, each once, except for
the holes that its manifests name. Values in, findings out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kbroker.inspection.finding import Finding, Findings
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.archiving.manifests.covered_ranges import joined_ranges
from kbroker.pipeline.archiving.manifests.manifest import UNEXPLAINED, FileEntry, HoleEntry
from kbroker.pipeline.auditing.archives.archive_files import FileResult
from kbroker.pipeline.auditing.archives.archived_offsets import ArchivedOffsets, OffsetRuns, united
from kbroker.pipeline.finding_codes import AuditCode


@dataclass(frozen=True, slots=True)
class Coverage:
    """One partition of an archive."""

    offsets: ArchivedOffsets
    findings: Sequence[Finding]


def check_coverage(
    state: ArchiveState, partition: TopicPartition, files: Sequence[FileResult]
) -> Coverage:
    """Compare the rows of all files of a partition with its ranges and holes."""
    findings = Findings()
    known = [result for result in files if result.runs is not None]
    lost = [result.entry for result in files if result.runs is None]
    offsets = ArchivedOffsets(
        path=state.path,
        runs=united(result.runs for result in known if result.runs is not None),
        unknown=united(_span(entry) for entry in lost),
        stretches=state.ranges.get(partition, ()),
        holes=state.holes.get(partition, ()),
    )
    _Coverage(state.path, partition, offsets, findings).run()
    _doubled(f"{state.path}", known, findings)
    return Coverage(offsets, findings.all())


def _span(entry: FileEntry) -> OffsetRuns:
    first = np.array([entry.first_offset], np.int64)
    return OffsetRuns(first, np.array([entry.last_offset + 1], np.int64))


def _doubled(path: str, files: Sequence[FileResult], findings: Findings) -> None:
    """Report offsets that two files hold. Files of hours interleave, so their runs are compared."""
    triples = []
    for number, result in enumerate(files):
        assert result.runs is not None
        numbers = np.full(len(result.runs.starts), number, np.int64)
        triples.append(np.stack((result.runs.starts, result.runs.ends, numbers)))
    if not triples:
        return
    starts, ends, owners = np.concatenate(triples, axis=1)
    order = np.lexsort((owners, starts))
    starts, ends, owners = starts[order], ends[order], owners[order]
    reach = np.maximum.accumulate(ends)
    for at in (np.flatnonzero(starts[1:] < reach[:-1]) + 1).tolist():
        before = int(np.argmax(ends[:at]))
        first, last = int(starts[at]), int(min(ends[at], reach[at - 1])) - 1
        names = [files[int(owners[index])].entry.path for index in (before, at)]
        what = f"offsets {first} to {last} are in {names[0]}, too"
        findings.add(
            AuditCode.ARCHIVE_DOUBLED.finding(
                f"{path}/{names[1]}", what, offset=first,
                advice="readers see these records twice: archive their offsets again",
            )
        )  # fmt: skip


class _Coverage:
    def __init__(
        self, path: str, partition: TopicPartition, offsets: ArchivedOffsets, findings: Findings
    ) -> None:
        self._place = f"{path} ({partition})"
        self._offsets = offsets
        self._findings = findings
        self._holes = offsets.holes
        self._excused = joined_ranges(
            (hole.first_offset, hole.last_offset + 1) for hole in self._holes
        )
        self._held = united((offsets.runs, offsets.unknown))

    def run(self) -> None:
        absent = 0
        for stretch in self._offsets.stretches:
            for start, end in self._held.missing(stretch.start_offset, stretch.end_offset):
                absent += end - start
                self._missing(start, end)
        self._outside()
        self._told_holes(absent)

    def _missing(self, start: int, end: int) -> None:
        """Report offsets that no file holds; each has to be in a hole that was reported."""
        at = start
        for first, after in self._excused:
            if after <= at or first >= end:
                continue
            if first > at:
                self._lost(at, first)
            at = max(at, after)
        if at < end:
            self._lost(at, end)

    def _lost(self, start: int, end: int) -> None:
        what = f"offsets {start} to {end - 1} were archived but are in no file"
        self._say(AuditCode.ARCHIVE_LOST, what, start)

    def _outside(self) -> None:
        outside = self._offsets.runs.count - sum(
            self._offsets.runs.within(*stretch) for stretch in self._offsets.stretches
        )
        if outside:
            first = self._first_outside()
            what = f"{outside} records from offset {first} on are outside of what was archived"
            self._say(AuditCode.ARCHIVE_OUTSIDE, what, first)

    def _first_outside(self) -> int | None:
        at = -(2**62)
        for start, end in (*self._offsets.stretches, (2**62, 2**62)):
            first = self._offsets.runs.first_within(at, start)
            if first is not None:
                return first
            at = end
        return None

    def _told_holes(self, absent: int) -> None:
        """Report holes whose offsets are there after all, and holes without a reason."""
        for hole in self._holes:
            length = hole.last_offset - hole.first_offset + 1
            if hole.missing == length:
                first = self._offsets.runs.first_within(hole.first_offset, hole.last_offset + 1)
                if first is not None:
                    what = f"has offset {first}, but says that it is missing ({hole.reason})"
                    self._say(AuditCode.ARCHIVE_HOLE, what, first)
            if hole.reason == UNEXPLAINED:
                what = f"{hole.missing} of the offsets {hole.first_offset} to {hole.last_offset} "
                what += "did not come from the source, for an unknown reason"
                self._say(AuditCode.ARCHIVE_UNEXPLAINED, what, hole.first_offset)
        told = _missing_of(self._holes)
        if not len(self._offsets.unknown.starts) and absent < told:
            what = f"tells of {told} missing offsets, and {absent} are"
            self._say(AuditCode.ARCHIVE_HOLE, what, None)

    def _say(self, code: AuditCode, what: str, offset: int | None) -> None:
        self._findings.add(code.finding(self._place, what, offset=offset))


def _missing_of(holes: Iterable[HoleEntry]) -> int:
    """Return how many offsets are in holes; two that name the same exact offsets count once."""
    exact = joined_ranges(
        (hole.first_offset, hole.last_offset + 1)
        for hole in holes
        if hole.missing == hole.last_offset - hole.first_offset + 1
    )
    loose = sum(
        hole.missing for hole in holes if hole.missing < hole.last_offset - hole.first_offset + 1
    )
    return sum(end - start for start, end in exact) + loose
