"""Where partitions of a cluster begin and end, and where its groups stand: questions only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbroker.client.connection import admin_client
from kbroker.client.group_offsets import GroupOffsets, read_groups
from kbroker.client.partition_offsets import leaders_of, offsets_at
from kbroker.model import TopicPartition
from kbroker.pipeline.cluster_errors import cluster_errors
from kbroker.pipeline.spark_job.offsets import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOffsets:
    """One look at a cluster; ends are high watermarks. None: the partition did not answer."""

    bootstrap: str
    partitions: Mapping[TopicPartition, OffsetRange | None]
    groups: Mapping[str, GroupOffsets]


def read_cluster(bootstrap: str, topics: Sequence[str] | None) -> ClusterOffsets:
    """Ask for topics, or all that are there. Raises PipelineError where nothing answers."""
    from kafka import TopicPartition as ClientPartition
    from kafka.admin import OffsetSpec

    with cluster_errors(), admin_client(bootstrap) as admin:
        groups = read_groups(admin, sorted(entry["group_id"] for entry in admin.list_groups()))
        described = [
            entry
            for entry in admin.describe_topics()
            if entry["error_code"] == 0 and (topics is None or entry["name"] in topics)
        ]
        leaders = leaders_of(described)
        starts = offsets_at(admin, leaders, OffsetSpec.EARLIEST)
        ends = offsets_at(admin, leaders, OffsetSpec.LATEST)
    return ClusterOffsets(
        bootstrap=bootstrap,
        partitions={
            TopicPartition(*place): _range(starts.get(place), ends.get(place))
            for topic in described
            for entry in topic["partitions"]
            for place in [ClientPartition(topic["name"], entry["partition_index"])]
        },
        groups=groups,
    )


def _range(start: Any, end: Any) -> OffsetRange | None:
    return None if start is None or end is None else OffsetRange(start.offset, end.offset)
