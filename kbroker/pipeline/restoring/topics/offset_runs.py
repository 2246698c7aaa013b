"""Where records went that got other offsets: runs of records that follow each other in the source
as well as in the target. Pure.

Law: runs are in the order of both sides, and no offset is in two of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import msgspec


class OffsetRun(msgspec.Struct, frozen=True, array_like=True):
    """A number of records with consecutive offsets on both sides."""

    source_offset: int  # of the first
    target_offset: int
    records: int


def runs_of(source_offsets: Sequence[int], target_offset: int) -> list[OffsetRun]:
    """Return the runs of records that were written together, one behind the other.

    >>> runs_of([3, 4, 7], 100)
    [OffsetRun(source_offset=3, target_offset=100, records=2), \
OffsetRun(source_offset=7, target_offset=102, records=1)]
    """
    found: list[OffsetRun] = []
    begun = 0
    for at in range(1, len(source_offsets) + 1):
        if at < len(source_offsets) and source_offsets[at] == source_offsets[at - 1] + 1:
            continue
        found.append(OffsetRun(source_offsets[begun], target_offset + begun, at - begun))
        begun = at
    return found


def joined_runs(runs: Iterable[OffsetRun]) -> list[OffsetRun]:
    """The same, with neighbours put together.

    >>> joined([OffsetRun(0, 5, 2), OffsetRun(2, 7, 1), OffsetRun(3, 9, 1)])
    [OffsetRun(source_offset=0, target_offset=5, records=3), \
OffsetRun(source_offset=3, target_offset=9, records=1)]
    """
    found: list[OffsetRun] = []
    for run in runs:
        if found:
            last = found[-1]
            behind = last.source_offset + last.records, last.target_offset + last.records
            if (run.source_offset, run.target_offset) == behind:
                both = last.records + run.records
                found[-1] = OffsetRun(last.source_offset, last.target_offset, both)
                continue
        found.append(run)
    return found


def written_runs(
    source_offsets: Sequence[int], batches: Iterable[tuple[int, int]]
) -> list[OffsetRun]:
    """Return the runs of records that were written in batches: records of each, and its offset in
    the target. One whose first answer was that replicas lag is answered for after those behind it.

    >>> written_runs([3, 4, 9], [(1, 102), (2, 100)])
    [OffsetRun(source_offset=3, target_offset=100, records=2), \
OffsetRun(source_offset=9, target_offset=102, records=1)]
    """
    runs: list[OffsetRun] = []
    at = 0
    for records, offset in sorted(batches, key=lambda batch: batch[1]):
        runs += runs_of(source_offsets[at : at + records], offset)
        at += records
    assert at == len(source_offsets), "each record was answered for"
    return joined_runs(runs)


def translated(runs: Sequence[OffsetRun], offset: int) -> int | None:
    """Where a reader goes on in the target that would read `offset` next in the source: at the
    first record from there on, or behind the last one. None if nothing was written.

    >>> runs = [OffsetRun(10, 0, 5), OffsetRun(20, 7, 5)]
    >>> [translated(runs, offset) for offset in (0, 12, 15, 21, 99)]
    [0, 2, 7, 8, 12]
    """
    if not runs:
        return None
    at = bisect_right(runs, offset, key=lambda run: run.source_offset) - 1
    if at < 0:
        return runs[0].target_offset
    run = runs[at]
    within = offset - run.source_offset
    if within < run.records:
        return run.target_offset + within
    if at + 1 < len(runs):
        return runs[at + 1].target_offset
    return run.target_offset + run.records
