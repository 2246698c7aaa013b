"""The replica a consumer had better read from: one in its own rack (KIP-392).

Law: the leader sends a consumer only to a follower that is in sync and has what is asked for. Any
other one could answer that the offset does not exist, and the consumer would start somewhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kbroker.clock import Clock
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.partitions.partition import Partition

NO_REPLICA = -1


class ReplicaView(NamedTuple):
    """A replica that has what is asked for. `lag_ms`: since when it lacks something."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    lag_ms: int


def select_by_rack(
    rack_id: str, leader: ReplicaView, followers: Iterable[ReplicaView]
) -> ReplicaView:
    """The leader if it is in the rack, else the follower there that has most, else the leader."""
    if leader.rack == rack_id:
        return leader
    near = (follower for follower in followers if follower.rack == rack_id)
    return max(near, key=lambda view: (view.log_end_offset, -view.lag_ms), default=leader)


class NearReplicas:
    """The replicas around one consumer, which names its rack and came in by `listener_name`."""

    def __init__(
        self, metadata: MetadataCache, clock: Clock, rack_id: str, listener_name: str
    ) -> None:
        self._metadata = metadata
        self._rack_id = rack_id
        self._listener_name = listener_name
        self._now_ms = clock.now_ms()

    def preferred(self, partition: Partition, fetch_offset: int) -> int:
        """The follower to read from; -1 if that is this broker, or no other has the offset."""
        state = partition.state
        if not state.is_leader or not state.followers:
            return NO_REPLICA
        followers = (
            ReplicaView(
                broker_id,
                self._rack(broker_id),
                replica.log_end_offset,
                max(0, self._now_ms - replica.last_caught_up_time_ms),
            )
            for broker_id, replica in sorted(state.followers.items())
            if broker_id in state.isr
            and replica.log_start_offset <= fetch_offset <= replica.log_end_offset
        )
        leader_id = state.local_id
        leader = ReplicaView(leader_id, self._rack(leader_id), partition.log_end_offset, 0)
        chosen = select_by_rack(self._rack_id, leader, followers).broker_id
        return NO_REPLICA if chosen == leader_id else chosen

    def _rack(self, broker_id: int) -> str | None:
        """None if the consumer cannot reach the broker: it is down, or lacks the listener."""
        broker = self._metadata.broker(broker_id)
        end_point = self._metadata.end_point(broker_id, self._listener_name)
        return None if broker is None or end_point is None else broker.rack
