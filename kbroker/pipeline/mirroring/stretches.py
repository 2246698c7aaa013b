"""Maps offsets of the source to those of the target, in one partition. Pure.

A stretch is what one transaction copied, or a part of it if it has very many runs. Stretches follow
each other: one begins where the one before ends, and what is between their runs was not copied
(markers, aborted records, records that come from the target).

Law: nobody who goes on at a translated offset misses a record that was to be copied; some records
may come again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from kbroker.pipeline.restoring.topics.offset_runs import OffsetRun, translated


class CopiedStretch(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets [start, end) of the source, and where their records are."""

    start: int
    end: int
    source_topic: str = ""  # ids, empty if brokers know none
    target_topic: str = ""
    runs: tuple[OffsetRun, ...] = ()


_RUNS = 4_000  # of a stretch, at most: a topic takes no record above max.message.bytes


class PartitionOffsets:
    """The stretches of a partition, added in the order in which they were written."""

    def __init__(self) -> None:
        self._stretches: list[CopiedStretch] = []
        self._runs: list[OffsetRun] | None = None  # of the newest that follow each other
        self._start = 0  # where these runs begin

    def add(self, stretch: CopiedStretch) -> None:
        """Add a stretch. Older ones beyond its start, or of another topic of the same name, are
        dropped: they were written before a log was cut, or their copy was lost.
        """
        newest = self.newest
        if newest and (newest.end > stretch.start or _topics(newest) != _topics(stretch)):
            self._stretches = [
                _cut(each, stretch.start)
                for each in self._stretches
                if each.start < stretch.start and _topics(each) == _topics(stretch)
            ]
            self._runs = None
        elif newest is None or newest.end != stretch.start:
            self._runs = None
        self._stretches.append(stretch)
        if self._runs is not None:
            self._runs += stretch.runs

    def remove(self, start: int) -> None:
        """Forget the stretch that begins there."""
        self._stretches = [each for each in self._stretches if each.start != start]
        self._runs = None

    @property
    def newest(self) -> CopiedStretch | None:
        return self._stretches[-1] if self._stretches else None

    def before(self, offset: int) -> list[CopiedStretch]:
        """Return the stretches that end at an offset or before it, without the newest."""
        return [each for each in self._stretches[:-1] if each.end <= offset]

    def target_offset(self, offset: int, start_offset: int) -> int | None:
        """Return where a reader goes on in the target that would read `offset` next in a source
        whose log starts at `start_offset`; None if that is not known.
        """
        runs = self._whole()
        if offset < self._start and start_offset < self._start:
            return None
        return translated(runs, offset)

    def source_offset(self, target_offset: int) -> int | None:
        """Return the first source offset that is not before `target_offset` in the target."""
        runs = self._whole()
        at = bisect_right(runs, target_offset, key=lambda run: run.target_offset) - 1
        if at >= 0 and target_offset < runs[at].target_offset + runs[at].records:
            return runs[at].source_offset + target_offset - runs[at].target_offset
        if at + 1 < len(runs):
            return runs[at + 1].source_offset
        return self.newest.end if self.newest else None

    def _whole(self) -> Sequence[OffsetRun]:
        """Return the runs of the newest stretches that follow each other without a hole. They are
        kept: a mirror of weeks has hundreds of thousands, and each round asks for all groups.
        """
        if self._runs is None and self._stretches:
            at = len(self._stretches) - 1
            while at > 0 and self._stretches[at - 1].end == self._stretches[at].start:
                at -= 1
            self._start = self._stretches[at].start
            self._runs = [run for each in self._stretches[at:] for run in each.runs]
        return self._runs or ()


def parted(stretch: CopiedStretch, most: int = _RUNS) -> Iterator[CopiedStretch]:
    """Yield a stretch as several that follow each other, of at most `most` runs each."""
    cuts = [run.source_offset for run in stretch.runs[most::most]]
    for number, (start, end) in enumerate(pairwise([stretch.start, *cuts, stretch.end])):
        runs = stretch.runs[number * most : (number + 1) * most]
        yield msgspec.structs.replace(stretch, start=start, end=end, runs=runs)


def _topics(stretch: CopiedStretch) -> tuple[str, str]:
    return stretch.source_topic, stretch.target_topic


def _cut(stretch: CopiedStretch, end: int) -> CopiedStretch:
    if stretch.end <= end:
        return stretch
    runs = [
        OffsetRun(run.source_offset, run.target_offset, min(run.records, end - run.source_offset))
        for run in stretch.runs
        if run.source_offset < end
    ]
    return msgspec.structs.replace(stretch, end=end, runs=tuple(runs))
