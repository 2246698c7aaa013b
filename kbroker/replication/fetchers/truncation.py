"""Where a follower cuts its log: at the point where it parts from the leader's (KIP-101, KIP-279,
KIP-595).

Pure. Law: what both have written under one leader epoch is equal up to the smaller of its ends, so
a cut at the end of the largest epoch in common keeps everything that can have been committed. A cut
at the own high watermark would not: that may lag behind what was committed.
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
    """Cut the log at `offset`; where that is not the end of it, the leader is asked once more."""

    offset: int
    is_complete: bool


def truncation_for(
    leader: EpochEndOffset, epochs: LeaderEpochCache, log_end_offset: int, fallback_offset: int
) -> Truncation:
    """Where to cut a log with these epochs, `leader` being the largest epoch of the leader that is
    not above the follower's, and its end there.

    `fallback_offset` is taken where the leader knows of no such epoch: the high watermark.
    """
    if leader.end_offset == UNDEFINED_EPOCH_OFFSET:
        return Truncation(min(fallback_offset, log_end_offset), is_complete=True)
    if leader.epoch == UNDEFINED_EPOCH:  # the answer of an old leader has no epoch
        return Truncation(min(leader.end_offset, log_end_offset), is_complete=True)
    own = epochs.end_offset_for(leader.epoch, log_end_offset)
    if own.end_offset == UNDEFINED_EPOCH_OFFSET:
        return Truncation(min(leader.end_offset, log_end_offset), is_complete=True)
    if own.epoch != leader.epoch:
        # This log lacks that epoch: the records of the next smaller one may part earlier still.
        return Truncation(min(own.end_offset, log_end_offset), is_complete=False)
    return Truncation(min(own.end_offset, leader.end_offset, log_end_offset), is_complete=True)
