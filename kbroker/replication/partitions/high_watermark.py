"""How far a leader may move the high watermark: the first offset that consumers do not see.

Pure. Law: it never goes back while a broker leads, and never passes what any replica that counts
has stored, so that no later leader from the in-sync replicas lacks what somebody has read.
"""

from __future__ import annotations

from kbroker.replication.partitions.partition_state import PartitionState


def next_high_watermark(
    state: PartitionState,
    current: int,
    log_end_offset: int,
    *,
    min_insync_replicas: int,
    now_ms: int,
    lag_time_max_ms: int,
) -> int:
    """The smallest end offset of the replicas that count, but never below `current`.

    A follower outside the ISR that has caught up counts too: it is about to join, and would
    otherwise chase a high watermark that runs ahead of it. Below min.insync.replicas the high
    watermark stands still, so that consumers see only records that acks=all could acknowledge.
    """
    if current >= log_end_offset or state.is_under_min_isr(min_insync_replicas):
        return current
    in_sync = state.isr if state.pending_isr is None else state.maximal_isr
    lowest = log_end_offset
    for broker, follower in state.followers.items():
        counts = broker in in_sync or follower.is_caught_up(log_end_offset, now_ms, lag_time_max_ms)
        if counts and follower.log_end_offset < lowest:
            lowest = follower.log_end_offset
    return max(current, lowest)
