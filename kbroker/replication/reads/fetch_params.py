"""The values of a Fetch request: those of the whole request, and those of each partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import CONSUMER_REPLICA_ID, UNKNOWN_BROKER_EPOCH, ZERO_UUID, TopicPartition
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.partitions.topic_counters import NOT_HOSTED, TopicCounters

NO_EPOCH = -1


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class FetchParams:
    """The part of a Fetch request that applies to all its partitions; sizes are their sums."""

    isolation: FetchIsolation
    max_bytes: int
    min_bytes: int = 1
    max_wait_ms: int = 0
    replica_id: int = CONSUMER_REPLICA_ID
    replica_epoch: int = UNKNOWN_BROKER_EPOCH  # of a follower's registration, if it names it
    max_magic: int = 2  # the newest message format the fetcher knows
    knows_zstd: bool = True
    is_hard_limit: bool = False  # a first batch larger than the limit does not come whole
    leader_only: bool = True  # consumers of version 11 and newer may read from followers (KIP-392)
    # (partition, fetch offset) -> the follower to read from, -1 for none; for consumers that name
    # their rack
    preferred_replica: Callable[[Partition, int], int] | None = None


@dataclass(slots=True, eq=False, repr=False)
class FetchPartition:
    """One partition as a fetcher asks for it. A fetch session keeps it from request to request; the
    two offsets before the last two fields are what the session sent last.
    """

    topic_partition: TopicPartition  # the topic is "" while its id is unknown here
    topic_id: UUID = ZERO_UUID  # `is ZERO_UUID` if topics are asked for by name
    fetch_offset: int = 0
    max_bytes: int = 0
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = -1  # the follower's, -1 from consumers
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1
    found_bytes: int = 0  # of records, by the last read
    counters: TopicCounters = NOT_HOSTED
