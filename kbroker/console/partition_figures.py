"""Figures of partitions as screens show them: where they begin and end, and what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.topic_figures import Figures, ask_figures
from kbroker.console.gaps import Gaps
from kbroker.model import TopicPartition
from kbroker.wording import counted


def figures_of(links: ClusterLinks, leaders: Mapping[TopicPartition, int], gaps: Gaps) -> Figures:
    """Ask the leaders for the figures of their partitions, and name what they do not say."""
    figures = ask_figures(links, leaders)
    unsized = [
        place
        for place, leader in leaders.items()
        if place in figures.ends and place not in figures.sizes and leader not in links.silent
    ]
    if unsized:
        gaps.tell(
            f"the sizes of {counted(len(unsized), 'partition')} are not known: their brokers are "
            "older than Kafka 1.0, or do not let this user see them"
        )
    return figures


def sum_of(figures: Iterable[int | None]) -> int | None:
    """Return the sum; None if one of the figures is not known."""
    total = 0
    for figure in figures:
        if figure is None:
            return None
        total += figure
    return total
