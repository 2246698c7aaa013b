"""LogParts: the parts of one log that keep its state, for those parts that work on several."""

from __future__ import annotations

from typing import NamedTuple

from kbroker.log.partition.leader_epoch_cache import LeaderEpochCache
from kbroker.log.partition.log_offsets import LogOffsets
from kbroker.log.partition.log_producers import LogProducers
from kbroker.log.partition.partition_directory import PartitionDirectory
from kbroker.log.partition.segment_store import SegmentStore


class LogParts(NamedTuple):
    """Each is owned by the log, and changed by its own methods alone."""

    directory: PartitionDirectory
    offsets: LogOffsets
    files: SegmentStore
    epochs: LeaderEpochCache
    producers: LogProducers
