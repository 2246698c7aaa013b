"""The end offsets of a topic, or of all topics, in one number: how much it grows is what producers
write.
"""

from __future__ import annotations

from kbroker.client.cluster_links import LATEST
from kbroker.client.topic_figures import leaders_of, offsets_at
from kbroker.client.topic_rows import rows_of
from kbroker.console.consoled_cluster import ConsoledCluster, Work
from kbroker.console.partition_figures import sum_of
from kbroker.console.topic_lookup import topic_named


async def sum_of_ends(cluster: ConsoledCluster, topic: str | None) -> int | None:
    """Return the sum of the end offsets of a topic's partitions, or of all; None if one of them is
    not known. Raises NotFoundError if there is no such topic, ClientError, KafkaError.
    """
    return await cluster.ask(lambda work: _sum_of_ends(work, topic))


def _sum_of_ends(work: Work, topic: str | None) -> int | None:
    links = work.links
    described = links.describe(None).topics if topic is None else [topic_named(links, topic)]
    ends = offsets_at(links, leaders_of(described), LATEST)
    return sum_of(ends.get(place) for place, _ in rows_of(described))
