"""Figures of partitions as screens show them: where they begin and end, and what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks
from kbroker.client.topic_figures import offsets_at, sizes_of
from kbroker.console.gaps import Gaps
from kbroker.model import TopicPartition
from kbroker.wording import counted


@dataclass(frozen=True, slots=True)
class Figures:
    """Offsets, and sizes in bytes, by partition; those that nobody gives are left out."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    sizes: Mapping[TopicPartition, int]

    def records(self, place: TopicPartition) -> int | None:
        """Return the number of offsets between start and end; None if not known."""
        if place not in self.starts or place not in self.ends:
            return None
        return self.ends[place] - self.starts[place]


def figures_of(links: ClusterLinks, leaders: Mapping[TopicPartition, int], gaps: Gaps) -> Figures:
    """Ask the leaders for the figures of their partitions, and name what they do not say."""
    starts = offsets_at(links, leaders, EARLIEST)
    ends = offsets_at(links, leaders, LATEST)
    sizes = sizes_of(links, leaders)
    unsized = [
        place
        for place, leader in leaders.items()
        if place in ends and place not in sizes and leader not in links.silent
    ]
    if unsized:
        gaps.tell(
            f"the sizes of {counted(len(unsized), 'partition')} are not known: their brokers are "
            "older than Kafka 1.0, or do not let this user see them"
        )
    return Figures(starts, ends, sizes)


def sum_of(figures: Iterable[int | None]) -> int | None:
    """Return the sum; None if one of the figures is not known."""
    total = 0
    for figure in figures:
        if figure is None:
            return None
        total += figure
    return total
