"""Offsets of an archive as sorted runs, so that sets of millions are compared at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch
from kbroker.pipeline.archiving.manifests.manifest import HoleEntry

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OffsetRuns:
    """Offsets as runs [start, end), sorted, without overlap. Both arrays have one entry per run."""

    starts: Int64s
    ends: Int64s

    @property
    def count(self) -> int:
        return int((self.ends - self.starts).sum())

    def before(self, offsets: Int64s) -> Int64s:
        """Return how many offsets of these are below each of `offsets`."""
        if not len(self.starts):
            return np.zeros(len(offsets), np.int64)
        passed = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.ends - self.starts)))
        slot = np.searchsorted(self.starts, offsets, "right") - 1
        at = np.maximum(slot, 0)
        inside = np.minimum(offsets, self.ends[at]) - self.starts[at]
        return np.where(slot < 0, 0, passed[at] + inside)

    def within(self, start: int, end: int) -> int:
        """Return how many offsets of these are in [start, end)."""
        low, high = self.before(np.array([start, max(start, end)], np.int64))
        return int(high - low)

    def first_within(self, start: int, end: int) -> int | None:
        """Return the first of these in [start, end), None if there is none."""
        slot = int(np.searchsorted(self.ends, start, "right"))
        if slot == len(self.starts):
            return None
        first = max(int(self.starts[slot]), start)
        return first if first < end else None

    def missing(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the runs of [start, end) that these leave out."""
        if start >= end:
            return []
        low = int(np.searchsorted(self.ends, start, "right"))
        high = int(np.searchsorted(self.starts, end, "left"))
        edges = np.empty(2 * (high - low) + 2, np.int64)
        edges[0], edges[-1] = start, end
        edges[1:-1:2] = self.starts[low:high]
        edges[2:-1:2] = self.ends[low:high]
        pairs = np.clip(edges, start, end).reshape(-1, 2)
        return [(int(a), int(b)) for a, b in pairs[pairs[:, 0] < pairs[:, 1]]]


def as_runs(offsets: Int64s) -> OffsetRuns:
    """Return the runs of sorted offsets without doubles."""
    if not len(offsets):
        return OffsetRuns(np.empty(0, np.int64), np.empty(0, np.int64))
    cuts = np.flatnonzero(np.diff(offsets) != 1)
    firsts = np.concatenate((offsets[:1], offsets[cuts + 1]))
    lasts = np.concatenate((offsets[cuts], offsets[-1:]))
    return OffsetRuns(firsts.astype(np.int64), lasts.astype(np.int64) + 1)


def united(parts: Iterable[OffsetRuns]) -> OffsetRuns:
    """Return all offsets of some parts; one that several have is there once."""
    known = list(parts)
    starts = np.concatenate([part.starts for part in known] or [np.empty(0, np.int64)])
    ends = np.concatenate([part.ends for part in known] or [np.empty(0, np.int64)])
    if not len(starts):
        return OffsetRuns(starts, ends)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    is_new = np.concatenate((np.array([True]), starts[1:] > ends[:-1]))
    first = np.flatnonzero(is_new)
    last = np.concatenate((first[1:] - 1, np.array([len(starts) - 1])))
    return OffsetRuns(starts[first], ends[last])


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedOffsets:
    """The offsets that an archive holds of one partition, and what it says of the rest."""

    path: str  # of the archive
    runs: OffsetRuns
    unknown: OffsetRuns  # in files that cannot be read
    stretches: tuple[Stretch, ...]  # what was archived
    holes: tuple[HoleEntry, ...]

    @property
    def end_offset(self) -> int:
        return self.stretches[-1].end_offset if self.stretches else 0
