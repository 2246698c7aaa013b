"""The ends of the partitions that groups read and of which this broker holds no replica, as their
leaders say: without them it would not know how far its groups are behind.

Law: leaders are asked before a page of metrics is made, and at no other time; a leader that does
not answer soon leaves its partitions without an end. Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from kbroker.coordinator.group.store import GroupStore
from kbroker.coordinator.group_metrics import EndOf, committed_places
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import CONSUMER_REPLICA_ID, Broker, TopicPartition
from kbroker.peers.node_to_controller_channel import PeerClient
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.reads.offset_lookup import LATEST
from kbroker.turns import turn

ANSWER_TIMEOUT_MS = 500.0
PLACES_MAX = 20_000
_AT_ONCE = 1_000  # partitions in a request
_BREATH = 64  # entries that are looked at in a turn


class EndsElsewhere:
    """The ends for the groups of one broker; `end_here` knows those of its own partitions."""

    def __init__(
        self,
        store: GroupStore,
        end_here: EndOf,
        metadata: MetadataCache,
        open_client: Callable[[Broker], PeerClient],
    ) -> None:
        self._store = store
        self._end_here = end_here
        self._metadata = metadata
        self._open_client = open_client
        self._ends: dict[TopicPartition, int] = {}

    def end_of(self, topic_partition: TopicPartition) -> int | None:
        """Return the end of a partition, of now if it is here; None if it is not known."""
        end = self._end_here(topic_partition)
        return self._ends.get(topic_partition) if end is None else end

    async def ask(self) -> None:
        """Ask the leaders of partitions that are not here for their ends."""
        wanted = await self._wanted()
        answers = await asyncio.gather(*(self._ends_at(*each) for each in wanted.items()))
        self._ends = {place: end for answer in answers for place, end in answer.items()}

    async def _wanted(self) -> dict[int, dict[TopicPartition, None]]:
        """The partitions to ask for, by leader."""
        wanted: dict[int, dict[TopicPartition, None]] = {}
        count = 0
        for number, (_, place, _) in enumerate(committed_places(self._store), 1):
            state = self._metadata.partition_state(place)
            if state is not None and self._end_here(place) is None and count < PLACES_MAX:
                places = wanted.setdefault(state.leader, {})
                count += place not in places
                places[place] = None
            if number % _BREATH == 0:
                await turn()
        return wanted

    async def _ends_at(
        self, leader: int, places: dict[TopicPartition, None]
    ) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        broker = self._metadata.broker(leader)
        if broker is None:
            return ends
        client, asked_for = self._open_client(broker), list(places)
        try:
            for start in range(0, len(asked_for), _AT_ONCE):
                request = _request(asked_for[start : start + _AT_ONCE])
                ends.update(_ends(await client.send(request, timeout_ms=ANSWER_TIMEOUT_MS)))
        except (OSError, KafkaError):  # TimeoutError too
            return ends
        finally:
            client.close()
        return ends


def _request(places: Sequence[TopicPartition]) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsRequest.ListOffsetsTopic] = {}
    for name, index in places:
        topic = topics.setdefault(name, ListOffsetsRequest.ListOffsetsTopic(name=name))
        topic.partitions.append(
            ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=LATEST)
        )
    return ListOffsetsRequest(replica_id=CONSUMER_REPLICA_ID, topics=list(topics.values()))


def _ends(answer: ListOffsetsResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, found.partition_index): found.offset
        for topic in answer.topics
        for found in topic.partitions
        if found.error_code == ErrorCode.NONE
    }
