"""How far a mirror is behind: offsets that are not copied yet, and the age of the oldest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.pipeline.consumer_lag.record_times import record_times


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorLag:
    """The lag; `seconds` is None if it is not known, 0 if nothing is left."""

    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)
    seconds: float | None = 0.0

    @property
    def records(self) -> int:
        """The offsets of all partitions together; markers and aborted records count, too."""
        return sum(self.by_partition.values())

    def text(self) -> str:
        """Describe the lag to a person."""
        if self.seconds is None:
            return f"lag {self.records:,}"
        return f"lag {self.records:,}, {self.seconds:,.1f} s"


def lag_of(
    links: ClusterLinks, behind: Mapping[TopicPartition, tuple[int, int]], now_ms: int
) -> MirrorLag:
    """Return the lag of partitions with the next offset to copy and their ends. Asks for the times
    of the next records; if no broker answers, the seconds are not known.
    """
    counts = {partition: end - place for partition, (place, end) in behind.items()}
    if not counts:
        return MirrorLag()
    try:
        found = record_times(
            links,
            {partition: (place,) for partition, (place, _) in behind.items()},
            {partition: end for partition, (_, end) in behind.items()},
        )
    except (KafkaError, ClientError, OSError):
        return MirrorLag(by_partition=counts, seconds=None)
    times = [time_ms for time_ms in found.values() if time_ms is not None]
    age_s = max(now_ms - min(times), 0) / 1_000 if times else 0.0
    return MirrorLag(by_partition=counts, seconds=age_s if len(found) == len(counts) else None)
