"""The event of an ISR that a leader asks for: which followers lag or have caught up, and how far.

Pure.
"""

from __future__ import annotations

from kbroker.events.partition_events import IsrCause, IsrChange
from kbroker.model import TopicPartition
from kbroker.replication.partitions.partition_state import UNKNOWN_OFFSET, PartitionState


def isr_change(
    topic_partition: TopicPartition,
    state: PartitionState,
    isr: tuple[int, ...],
    *,
    leader_end_offset: int,
    lag_time_max_ms: int,
) -> IsrChange:
    """Return what it will be when `isr` takes the place of the state's."""
    is_growing = len(isr) > len(state.isr)
    differing = sorted(set(isr) ^ set(state.isr))
    return IsrChange(
        topic_partition=topic_partition,
        before=state.isr,
        isr=isr,
        why=IsrCause.CAUGHT_UP if is_growing else IsrCause.LAGGING,
        replicas=tuple(
            _came(each) if is_growing else _lags(state, each, leader_end_offset)
            for each in differing
        ),
        lag_time_max_ms=lag_time_max_ms,
    )


def _came(broker_id: int) -> str:
    return f"broker {broker_id} has caught up"


def _lags(state: PartitionState, broker_id: int, leader_end_offset: int) -> str:
    follower = state.followers.get(broker_id)
    if follower is None or follower.log_end_offset == UNKNOWN_OFFSET:
        return f"broker {broker_id} has fetched nothing since this leader began"
    return (
        f"broker {broker_id} lags, its log ends at {follower.log_end_offset:,} and the leader's at "
        f"{leader_end_offset:,}"
    )
