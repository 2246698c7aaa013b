"""Why offsets of a range hold no record. Pure.

Only certain reasons, from the batches in the log around a hole: a marker's offset, a batch of an
aborted transaction, a batch that has fewer records than offsets (only compaction takes records out
of a batch). Offsets between batches go by compaction, if the topic is compacted, and those before
the log by retention. What none of this explains is unexplained: loss would look like that. If a
batch has more records than were delivered, nothing is lost yet: they are there unread, and only a
person may decide to leave them out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch, gaps, joined_ranges
from kbroker.pipeline.archiving.manifests.manifest import (
    ABORTED,
    COMPACTION,
    RETENTION,
    TRANSACTION_MARKER,
    UNEXPLAINED,
    UNREADABLE,
    HoleEntry,
)


class CoverKind(Enum):
    """The meaning of a batch for a reader."""

    RECORDS = "records"
    MARKER = "marker"
    ABORTED = "aborted"


class Cover(NamedTuple):
    """A batch in the log: its offsets, inclusive, and the records left in it (-1: unknown)."""

    base_offset: int
    last_offset: int
    record_count: int
    kind: CoverKind


@dataclass(frozen=True, slots=True, kw_only=True)
class HoleContext:
    """The log of a partition around some holes."""

    covers: Sequence[Cover]  # by base offset
    log_start_offset: int
    compacted_end_offset: int  # below it compaction may take whole batches; 0: nowhere


class HoleWitness(Protocol):
    """A witness that can look at a log."""

    def surroundings(self, partition: TopicPartition, holes: Sequence[Stretch]) -> HoleContext:
        """Return the batches that hold offsets of these holes; raises PipelineError."""
        ...


def holes_with_reasons(
    partition: TopicPartition, holes: Sequence[Stretch], seen: HoleContext
) -> list[HoleEntry]:
    """Return every missing offset with its reason; neighbours of one reason are joined."""
    by_reason: dict[str, list[tuple[int, int]]] = {}
    covers = list(seen.covers)
    for cover in covers:
        parts = _parts_of(holes, cover)
        if parts:
            by_reason.setdefault(_reason(cover, parts), []).extend(parts)
    standing = joined_ranges((cover.base_offset, cover.last_offset + 1) for cover in covers)
    for hole in holes:
        for start, end in gaps(_near(standing, hole), hole):
            bound = min(max(seen.log_start_offset, start), end)
            compacted = min(max(seen.compacted_end_offset, bound), end)
            by_reason.setdefault(RETENTION, []).append((start, bound))
            by_reason.setdefault(COMPACTION, []).append((bound, compacted))
            by_reason.setdefault(UNEXPLAINED, []).append((compacted, end))
    return [
        HoleEntry(
            topic=partition.topic,
            partition=partition.partition,
            first_offset=start,
            last_offset=end - 1,
            missing=end - start,
            reason=reason,
        )
        for reason, stretches in by_reason.items()
        for start, end in joined_ranges(stretches)
    ]


def _reason(cover: Cover, parts: Iterable[tuple[int, int]]) -> str:
    if cover.kind is CoverKind.MARKER:
        return TRANSACTION_MARKER
    if cover.kind is CoverKind.ABORTED:
        return ABORTED
    missing = sum(end - start for start, end in parts)
    removed = cover.last_offset - cover.base_offset + 1 - cover.record_count
    if cover.record_count < 0:
        return UNEXPLAINED
    return COMPACTION if missing <= removed else UNREADABLE


def _parts_of(holes: Sequence[Stretch], cover: Cover) -> list[tuple[int, int]]:
    """Return the missing offsets within a batch."""
    found = []
    for hole in _near(holes, Stretch(cover.base_offset, cover.last_offset + 1)):
        start = max(hole.start_offset, cover.base_offset)
        end = min(hole.end_offset, cover.last_offset + 1)
        if start < end:
            found.append((start, end))
    return found


def _near(stretches: Sequence[Stretch], wanted: Stretch) -> Sequence[Stretch]:
    """Return the sorted, disjoint stretches that touch `wanted`."""
    first = bisect_right(stretches, wanted.start_offset, key=lambda each: each.end_offset)
    end = bisect_left(stretches, wanted.end_offset, key=lambda each: each.start_offset)
    return stretches[first:end]
