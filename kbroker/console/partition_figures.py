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
    tell_unsized(links, leaders, figures.ends.keys() - figures.sizes.keys(), gaps)
    return figures


def tell_unsized(
    links: ClusterLinks,
    leaders: Mapping[TopicPartition, int],
    places: Iterable[TopicPartition],
    gaps: Gaps,
) -> None:
    """Name the reason why the leaders of these places, which answer, give no sizes of them."""
    unsized = [place for place in places if leaders[place] not in links.silent]
    if unsized:
        gaps.tell(
            f"the sizes of {counted(len(unsized), 'partition')} are not known: their brokers are "
            "older than Kafka 1.0, or do not let this user see them"
        )


def sum_of(figures: Iterable[int | None]) -> int | None:
    """Return the sum; None if one of the figures is not known."""
    total = 0
    for figure in figures:
        if figure is None:
            return None
        total += figure
    return total
