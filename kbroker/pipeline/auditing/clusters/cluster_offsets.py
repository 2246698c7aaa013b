"""Asks where partitions of a cluster begin and end, and where its groups stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbroker.client.cluster_links import EARLIEST, LATEST
from kbroker.client.consumer_groups import ConsumerGroup, listed_groups, read_group
from kbroker.client.topic_figures import leaders_in, offsets_at
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.pipeline.cluster_errors import cluster_links
from kbroker.pipeline.spark_job.offsets import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOffsets:
    """One look at a cluster; ends are high watermarks. None: the partition did not answer."""

    bootstrap: str
    partitions: Mapping[TopicPartition, OffsetRange | None]
    groups: Mapping[str, ConsumerGroup]


def read_cluster(bootstrap: str, topics: Sequence[str] | None) -> ClusterOffsets:
    """Ask about topics, or all that exist. Raises PipelineError if nothing answers."""
    with cluster_links(bootstrap) as links:
        names = [group.group_id for group in listed_groups(links)]
        groups = {name: read_group(links, name) for name in names}
        views = [
            view
            for view in links.topics(None)
            if view.code == ErrorCode.NONE and (topics is None or view.name in topics)
        ]
        leaders = leaders_in(views)
        starts = offsets_at(links, leaders, EARLIEST)
        ends = offsets_at(links, leaders, LATEST)
    return ClusterOffsets(
        bootstrap=bootstrap,
        partitions={
            place: _range(starts.get(place), ends.get(place))
            for view in views
            for number in view.leaders
            for place in [TopicPartition(view.name, number)]
        },
        groups=groups,
    )


def _range(start: int | None, end: int | None) -> OffsetRange | None:
    return None if start is None or end is None else OffsetRange(start, end)
