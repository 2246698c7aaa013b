"""The offsets at which a search of messages begins and ends, by partition.

Law: no leader is waited for: partitions without one, or whose leader is silent, are named and left
out, so that a page comes soon whatever is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks
from kbroker.client.open_transactions import sentence_of_open
from kbroker.client.record_places import Kind, Place
from kbroker.client.topic_figures import offsets_at
from kbroker.console.gaps import Gaps
from kbroker.model import TopicPartition

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The part of a topic that is wanted: from a place, or from offsets by partition, which win
    over it, to another place.
    """

    start: Place
    starts: Mapping[int, int]
    end: Place
    only_committed: bool


def bounds_of(
    links: ClusterLinks, leaders: Mapping[TopicPartition, int], stretch: Stretch, gaps: Gaps
) -> tuple[Offsets, Offsets]:
    """Return where to begin, and where to end (exclusive), for partitions whose leaders answer."""
    firsts = offsets_at(links, leaders, EARLIEST)
    lasts = offsets_at(links, leaders, LATEST)
    if stretch.only_committed:
        stable = offsets_at(links, leaders, LATEST, only_committed=True)
        held = {place: at for place, at in stable.items() if at < lasts.get(place, 0)}
        if held:
            gaps.tell(sentence_of_open(held))
        lasts = stable
    limits = {
        place: (firsts[place], lasts[place])
        for place in leaders
        if place in firsts and place in lasts
    }
    known = {place: leaders[place] for place in limits}
    starts = _offsets_of(links, stretch.start, limits, known)
    ends = _offsets_of(links, stretch.end, limits, known)
    for place, limit in limits.items():
        at = stretch.starts.get(place.partition)
        if at is not None:
            starts[place] = _within(at, limit)
            if at > limit[1]:
                gaps.tell(f"{place} ends at offset {limit[1]} now: it is read from there, not {at}")
    both = starts.keys() & ends.keys()
    if not stretch.starts:
        _tell_beyond(stretch.start, [limits[place] for place in both], gaps)
    return {place: starts[place] for place in both}, {place: ends[place] for place in both}


def newest_of(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], most: int
) -> Offsets:
    """Return where to begin in order to read about `most` offsets, those next to the ends: of each
    partition the same share.

    >>> place = TopicPartition("t", 0)
    >>> newest_of({place: 10}, {place: 1000}, 50)
    {TopicPartition(topic='t', partition=0): 950}
    """
    total = sum(end - starts[place] for place, end in ends.items())
    if total <= most:
        return dict(starts)
    return {place: end - -(-(end - starts[place]) * most // total) for place, end in ends.items()}


def _offsets_of(
    links: ClusterLinks,
    place: Place,
    limits: Mapping[TopicPartition, tuple[int, int]],
    leaders: Mapping[TopicPartition, int],
) -> Offsets:
    """Return the offset of a place in each partition, never outside of it."""
    if place.kind is Kind.TIME:
        at_time = offsets_at(links, leaders, place.number)
        return {p: limits[p][1] if at < 0 else _within(at, limits[p]) for p, at in at_time.items()}
    return {p: _within(_wanted(place, *limit), limit) for p, limit in limits.items()}


def _wanted(place: Place, first: int, last: int) -> int:
    """Return the offset of a place, even outside of the partition."""
    if place.kind is Kind.START:
        return first
    if place.kind is Kind.OFFSET:
        return place.number
    return last - place.number if place.kind is Kind.LAST else last


def _within(offset: int, limit: tuple[int, int]) -> int:
    first, last = limit
    return min(max(offset, first), last)


def _tell_beyond(start: Place, limits: list[tuple[int, int]], gaps: Gaps) -> None:
    """Say so if no partition has the offset to begin at."""
    if start.kind is not Kind.OFFSET or not limits:
        return
    first = min(first for first, _ in limits)
    last = max(last for _, last in limits)
    if last < start.number:
        gaps.tell(f"offset {start.number} is beyond the end offset {last}")
    elif first > start.number:
        gaps.tell(f"offset {start.number} is no longer there: beginning at {first}")
