"""What a fetcher asks for: once per request, and once per partition. Values only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import CONSUMER_REPLICA_ID, UNKNOWN_BROKER_EPOCH, ZERO_UUID, TopicPartition
from kbroker.replication.partitions.partition import Partition

NO_EPOCH = -1


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class FetchParams:
    """The part of a Fetch request that holds for all its partitions. Sizes in bytes over all
    partitions.
    """

    isolation: FetchIsolation
    max_bytes: int
    min_bytes: int = 1
    max_wait_ms: int = 0
    replica_id: int = CONSUMER_REPLICA_ID
    replica_epoch: int = UNKNOWN_BROKER_EPOCH  # of a follower's registration, where it says it
    max_magic: int = 2  # the newest message format the fetcher knows
    knows_zstd: bool = True
    is_hard_limit: bool = False  # a first batch larger than the limit does not come whole
    leader_only: bool = True  # consumers of version 11 and newer may read from followers (KIP-392)
    # (partition, fetch offset) -> the follower to read from, -1 for none: asked if the fetcher is a
    # consumer that names its rack
    preferred_replica: Callable[[Partition, int], int] | None = None


@dataclass(slots=True, eq=False, repr=False)
class FetchPartition:
    """One partition as a fetcher asks for it. A fetch session keeps it from request to request.

    The last two fields are what the session told its client last; they are unused without a
    session.
    """

    topic_partition: TopicPartition  # the topic is "" while its id is unknown here
    topic_id: UUID = ZERO_UUID  # `is ZERO_UUID` if topics are asked for by name
    fetch_offset: int = 0
    max_bytes: int = 0
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = -1  # the follower's, -1 from consumers
    told_high_watermark: int = -1
    told_log_start_offset: int = -1
