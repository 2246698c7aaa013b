"""Sets of offsets as sorted stretches, and stretches with missing offsets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from kbroker.pipeline.archiving.manifests.manifest import HoleEntry


class Stretch(NamedTuple):
    """A stretch of offsets [start, end)."""

    start_offset: int
    end_offset: int


def joined_ranges(stretches: Iterable[tuple[int, int]]) -> tuple[Stretch, ...]:
    """The same offsets, sorted, with neighbours put together.

    >>> joined([(5, 9), (0, 5), (20, 21)])
    (Stretch(start_offset=0, end_offset=9), Stretch(start_offset=20, end_offset=21))
    """
    found: list[Stretch] = []
    for start, end in sorted(stretches):
        if start >= end:
            continue
        if found and start <= found[-1].end_offset:
            found[-1] = Stretch(found[-1].start_offset, max(end, found[-1].end_offset))
        else:
            found.append(Stretch(start, end))
    return tuple(found)


def overlap(stretches: Sequence[Stretch], wanted: tuple[int, int]) -> Stretch | None:
    """Return the first part of `wanted` that the stretches hold; None if there is none."""
    start, end = wanted
    for stretch in stretches:
        first, last = max(start, stretch.start_offset), min(end, stretch.end_offset)
        if first < last:
            return Stretch(first, last)
    return None


def gaps(stretches: Sequence[Stretch], within: tuple[int, int]) -> tuple[Stretch, ...]:
    """Return the parts of `within` that the sorted stretches leave out.

    >>> gaps((Stretch(2, 4),), (0, 6))
    (Stretch(start_offset=0, end_offset=2), Stretch(start_offset=4, end_offset=6))
    """
    at, end = within
    found = []
    for stretch in stretches:
        if stretch.start_offset >= end:
            break
        if stretch.start_offset > at:
            found.append(Stretch(at, stretch.start_offset))
        at = max(at, stretch.end_offset)
    if at < end:
        found.append(Stretch(at, end))
    return tuple(found)


def bounded_holes(holes: Iterable[HoleEntry], limit: int) -> tuple[HoleEntry, ...]:
    """Return the holes of one partition in at most about `limit` entries.

    Neighbours of one reason become one stretch that says how many of its offsets are missing: a
    topic of transactions has a hole for every marker. Counts stay exact, places do not.
    """
    ordered = sorted(holes, key=lambda hole: (hole.first_offset, hole.last_offset))
    if len(ordered) <= limit:
        return tuple(ordered)
    by_reason: dict[str, list[HoleEntry]] = {}
    for hole in ordered:
        by_reason.setdefault(hole.reason, []).append(hole)
    found: list[HoleEntry] = []
    for alike in by_reason.values():
        share = max(1, limit * len(alike) // len(ordered))
        size = -(-len(alike) // share)
        found += [_as_one(alike[at : at + size]) for at in range(0, len(alike), size)]
    return tuple(sorted(found, key=lambda hole: (hole.first_offset, hole.last_offset)))


def _as_one(holes: Sequence[HoleEntry]) -> HoleEntry:
    return msgspec.structs.replace(
        holes[0],
        last_offset=max(hole.last_offset for hole in holes),
        missing=sum(hole.missing for hole in holes),
    )
