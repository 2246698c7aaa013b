"""Reads the next batch of some partitions with the project's own fetcher, for a member of a group
whose client library has come to a batch that it cannot read.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.client.cluster_links import LATEST, ClusterLinks
from kbroker.client.fetched_batches import FetchedBatch
from kbroker.client.record_fetcher import Course, RecordFetcher
from kbroker.client.topic_rows import numbers_by_topic
from kbroker.model import TopicPartition


def next_batches(
    links: ClusterLinks, positions: Mapping[TopicPartition, int], *, only_committed: bool
) -> list[FetchedBatch]:
    """Return the first batch at or after each position, if there is one now.

    Raises OSError, ClientError, KafkaError.
    """
    numbers = numbers_by_topic(positions)
    views = [links.topic(topic) for topic in numbers]
    ends = {
        TopicPartition(view.name, partition): end
        for view in views
        for partition, end in links.offsets(
            view, numbers[view.name], LATEST, only_committed=only_committed
        ).items()
    }
    starts = {place: offset for place, offset in positions.items() if offset < ends[place]}
    course = Course(
        starts=starts,
        ends={place: offset + 1 for place, offset in starts.items()},
        only_committed=only_committed,
    )
    found: dict[TopicPartition, FetchedBatch] = {}
    for batches in RecordFetcher(links, views, course, lambda _: None).answers():
        for batch in batches:
            found.setdefault(batch.place, batch._replace(end=None))
    return list(found.values())
