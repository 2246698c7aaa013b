"""The batch that comes next in each of some partitions, read with the project's own fetcher: for
who reads with the client library, and has come to one that the library cannot read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from kbroker.client.cluster_links import LATEST, ClusterLinks
from kbroker.client.fetched_batches import FetchedBatch
from kbroker.client.record_fetcher import Course, RecordFetcher
from kbroker.model import TopicPartition


def next_batches(
    links: ClusterLinks, positions: Mapping[TopicPartition, int], *, only_committed: bool
) -> list[FetchedBatch]:
    """The first batch with an offset from each position on, where there is one now.

    Raises OSError, ClientError, KafkaError.
    """
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in positions:
        by_topic[topic].append(partition)
    views = [links.topic(topic) for topic in by_topic]
    ends = {
        TopicPartition(view.name, partition): end
        for view in views
        for partition, end in links.offsets(
            view, by_topic[view.name], LATEST, only_committed=only_committed
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
