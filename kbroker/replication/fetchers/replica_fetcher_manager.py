"""ReplicaFetcherManager: which fetcher follows which partition (Kafka's name).

Law: a partition is with at most one fetcher, that of its present leader. The fetcher drops it
before anything else is decided about it, so that no answer of an earlier leader reaches a log that
has a new one. Fetchers without partitions end.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

from kbroker.model import NO_LEADER, Broker, TopicPartition
from kbroker.peers.node_to_controller_channel import PeerClient
from kbroker.replication.fetchers.fetcher_parts import FetcherParts, Follower
from kbroker.replication.partitions.partition import Partition

if TYPE_CHECKING:
    from kbroker.replication.fetchers.fetch_states import FetchState
    from kbroker.replication.fetchers.leader_end_point import LeaderEndPoint
    from kbroker.replication.fetchers.replica_fetcher import ReplicaFetcher

OpenClient = Callable[[Broker], PeerClient]
FindLeader = Callable[[int], Broker | None]


class ReplicaFetcherManager:
    """The fetchers of one broker."""

    def __init__(
        self,
        parts: FetcherParts,
        follower: Follower,
        find_leader: FindLeader,
        open_client: OpenClient,
        fetchers_per_broker: Callable[[], int],
    ) -> None:
        self._parts = parts
        self._follower = follower
        self._find_leader = find_leader
        self._open_client = open_client
        self._fetchers_per_broker = fetchers_per_broker
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._of_partition: dict[TopicPartition, tuple[int, int]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._is_open = True

    def __len__(self) -> int:
        return len(self._of_partition)

    def states(self) -> Iterator[FetchState]:
        """Walk through the partitions that are followed now."""
        for key in list(self._fetchers):
            fetcher = self._fetchers.get(key)
            if fetcher is not None:
                yield from list(fetcher.states)

    def fetches(self) -> dict[str, int]:
        """Return how many answers each fetcher has had, by its name."""
        return {fetcher.name: fetcher.fetches for fetcher in self._fetchers.values()}

    def on_leadership_change(
        self, became_leader: Iterable[Partition], became_follower: Iterable[Partition]
    ) -> None:
        """Drop partitions that are led or stopped now, and take up those that are followed."""
        followed = list(became_follower)
        for partition in (*became_leader, *followed):
            self._drop(partition.topic_partition)
        for partition in followed:
            leader_id = partition.state.leader
            is_here = self._parts.hosted.find(partition.topic_partition) is partition
            if self._is_open and is_here and leader_id not in (NO_LEADER, partition.state.local_id):
                self._follow(partition, leader_id)
        self._end_idle()

    def resize(self) -> None:
        """Share out the partitions again, because `num.replica.fetchers` has changed."""
        partitions = [self._parts.hosted.find(tp) for tp in list(self._of_partition)]
        self.on_leadership_change((), [p for p in partitions if p is not None])

    async def shutdown(self) -> None:
        """Return once nothing is being fetched."""
        self._is_open = False
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        self._of_partition.clear()
        await asyncio.gather(*(fetcher.stop() for fetcher in fetchers), *self._ending)

    def _follow(self, partition: Partition, leader_id: int) -> None:
        topic, index = partition.topic_partition
        count = max(1, self._fetchers_per_broker())
        key = leader_id, (crc32(topic.encode()) + index) % count
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            from kbroker.replication.fetchers.replica_fetcher import ReplicaFetcher

            name = f"fetcher {key[1]} of broker {leader_id}"
            fetcher = ReplicaFetcher(name, self._parts, partial(self._open, leader_id))
            self._fetchers[key] = fetcher
            fetcher.start()
        fetcher.add(partition)
        self._of_partition[partition.topic_partition] = key

    def _drop(self, topic_partition: TopicPartition) -> None:
        key = self._of_partition.pop(topic_partition, None)
        if key is not None:
            self._fetchers[key].remove(topic_partition)

    def _end_idle(self) -> None:
        used = set(self._of_partition.values())
        for key in [key for key in self._fetchers if key not in used]:
            fetcher = self._fetchers.pop(key)
            ending = asyncio.get_running_loop().create_task(fetcher.stop(), name="end of fetcher")
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def _open(self, leader_id: int) -> LeaderEndPoint | None:
        broker = self._find_leader(leader_id)
        if broker is None:
            return None
        from kbroker.replication.fetchers.leader_end_point import LeaderEndPoint

        return LeaderEndPoint(self._open_client(broker), self._follower)
