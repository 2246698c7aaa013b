"""The list of topics: found by name, a page at a time, with records and sizes."""

from __future__ import annotations

from dataclasses import dataclass

from kbroker.client.partition_health import health_of
from kbroker.client.topic_figures import Described, Figures, leaders_of
from kbroker.console.consoled_cluster import ConsoledCluster, Work
from kbroker.console.gaps import Gaps
from kbroker.console.pages import Page, Wanted, page_of
from kbroker.console.partition_figures import figures_of, sum_of
from kbroker.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A topic; `records` counts offsets between start and end, and `size_bytes` what the files of
    the leaders hold. Both are None if a leader gives no figures.
    """

    name: str
    is_internal: bool
    partitions: int
    replication_factor: int
    leaderless: int
    under_replicated: int
    records: int | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPage:
    """A page of topics, sorted by name; `hidden`: how many internal ones are left out."""

    page: Page[TopicRow]
    hidden: int
    gaps: tuple[str, ...]


async def topics(
    cluster: ConsoledCluster, wanted: Wanted, *, with_internal: bool = False
) -> TopicPage:
    """List topics. Figures are asked for those of the page only. Raises ClientError."""
    return await cluster.ask(lambda work: _topics(work, wanted, with_internal=with_internal))


def _topics(work: Work, wanted: Wanted, *, with_internal: bool) -> TopicPage:
    links, gaps = work.links, Gaps()
    there = sorted(links.describe(None).topics, key=_name)
    listed = [topic for topic in there if with_internal or not topic.is_internal]
    page = page_of(listed, wanted, _name)
    figures = figures_of(links, leaders_of(page.rows), gaps)
    gaps.tell_silent(links.silent)
    return TopicPage(
        page=Page(
            rows=tuple(_row(topic, figures) for topic in page.rows),
            total=page.total,
            number=page.number,
            pages=page.pages,
        ),
        hidden=len(there) - len(listed),
        gaps=gaps.sentences(),
    )


def _name(topic: Described) -> str:
    return str(topic.name)


def _row(topic: Described, figures: Figures) -> TopicRow:
    places = [TopicPartition(_name(topic), each.partition_index) for each in topic.partitions]
    health = health_of([topic], None, None)
    return TopicRow(
        name=_name(topic),
        is_internal=topic.is_internal,
        partitions=len(topic.partitions),
        replication_factor=max((len(each.replica_nodes) for each in topic.partitions), default=0),
        leaderless=len(health.leaderless),
        under_replicated=len(health.under_replicated),
        records=sum_of(figures.records(place) for place in places),
        size_bytes=sum_of(figures.sizes.get(place) for place in places),
    )
