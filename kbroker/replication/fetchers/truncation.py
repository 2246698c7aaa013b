"""Where a follower cuts its log: at the point where it parts from the leader's (KIP-101, KIP-279,
KIP-595).

Pure. Law: what both have written in one leader epoch is equal up to the smaller of its two ends, so
a cut at the end of the largest common epoch keeps everything that can have been committed. A cut at
the own high watermark would not, as that may lag behind what was committed.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.log.partition.leader_epoch_cache import (
    UNDEFINED_EPOCH,
    UNDEFINED_EPOCH_OFFSET,
    EpochEndOffset,
    LeaderEpochCache,
)


class Truncation(NamedTuple):
    """The offset to cut a log at; if it is not complete, the leader has to be asked once more."""

    offset: int
    is_complete: bool


def truncation_for(
    leader: EpochEndOffset, epochs: LeaderEpochCache, log_end_offset: int, fallback_offset: int
) -> Truncation:
    """Where to cut a log with these epochs. `leader` is the leader's largest epoch not above the
    follower's, and its end there; if the leader knows none, the cut is at `fallback_offset`, the
    high watermark.
    """
    if leader.end_offset == UNDEFINED_EPOCH_OFFSET:
        return Truncation(min(fallback_offset, log_end_offset), is_complete=True)
    if leader.epoch == UNDEFINED_EPOCH:  # the answer of an old leader has no epoch
        return Truncation(min(leader.end_offset, log_end_offset), is_complete=True)
    own = epochs.end_offset_for(leader.epoch, log_end_offset)
    if own.end_offset == UNDEFINED_EPOCH_OFFSET:
        return Truncation(min(leader.end_offset, log_end_offset), is_complete=True)
    if own.epoch != leader.epoch:
        # This log lacks that epoch: the records of the next smaller one may part even earlier.
        return Truncation(min(own.end_offset, log_end_offset), is_complete=False)
    return Truncation(min(own.end_offset, leader.end_offset, log_end_offset), is_complete=True)
