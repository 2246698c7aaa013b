"""A follower's questions to a leader: Fetch, ListOffsets and OffsetForLeaderEpoch over one
connection.

Law: whatever prevents an answer is an OSError, so that a fetcher has one way to fail. Only the
connection is kept here: the fetcher keeps what it asked before.

Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import UUID

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.partition.leader_epoch_cache import EpochEndOffset
from kbroker.model import ZERO_UUID, TopicPartition
from kbroker.peers.node_to_controller_channel import PeerClient
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kbroker.replication.fetchers.fetch_states import FetchState
from kbroker.replication.fetchers.fetcher_parts import Follower
from kbroker.replication.fetchers.session_handler import SessionStep
from kbroker.replication.reads.offset_lookup import EARLIEST, LATEST

# Before this, a leader cannot fence a follower by its leader epoch, nor send it zstd.
_LOWEST_VERSION = 10
_FIRST_VERSION_WITH_DIVERGING_EPOCHS = 12
_LAST_VERSION_WITH_NAMES = 12


class LeaderEndPoint:
    """A leader as one fetcher sees it."""

    def __init__(self, client: PeerClient, follower: Follower) -> None:
        self._client = client
        self._follower = follower
        self._reports_divergence: bool | None = None

    def close(self) -> None:
        """Close the connection; a request in flight fails."""
        self._client.close()

    async def reports_divergence(self) -> bool:
        """Whether the leader's answers to Fetch say where logs part (KIP-595, Kafka 2.7); older
        ones have to be asked where their epochs ended. Raises OSError, also for a leader too old
        for that.
        """
        if self._reports_divergence is None:
            reports = await self._serves(_FIRST_VERSION_WITH_DIVERGING_EPOCHS)
            if not reports and not await self._serves(_LOWEST_VERSION):
                raise ConnectionError(
                    f"the leader does not know Fetch {_LOWEST_VERSION}: it is too old to follow"
                )
            self._reports_divergence = reports
        return self._reports_divergence

    async def fetch(
        self,
        step: SessionStep,
        asked: Iterable[FetchState],
        forgotten: Iterable[tuple[TopicPartition, UUID]],
        *,
        by_name: bool,
        may_wait: bool,
    ) -> FetchResponse:
        """The answer to a Fetch; `by_name` if a topic has no id, `may_wait` for records.

        Raises OSError.
        """
        config, broker_id = self._follower.config, self._follower.broker_id
        request = FetchRequest(
            replica_id=broker_id,
            replica_state=FetchRequest.ReplicaState(
                replica_id=broker_id, replica_epoch=self._follower.broker_epoch()
            ),
            max_wait_ms=config.replica_fetch_wait_max_ms if may_wait else 0,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=step.session_id,
            session_epoch=step.epoch,
            topics=list(_asked_by_topic(asked, config.replica_fetch_max_bytes)),
            forgotten_topics_data=list(_forgotten_by_topic(forgotten)),
        )
        by_name = by_name or not self._follower.uses_topic_ids
        highest = _LAST_VERSION_WITH_NAMES if by_name else None
        response: FetchResponse = await self._send(request, highest)
        return response

    async def end_offset(self, state: FetchState) -> int:
        """The end of the leader's log. Raises OSError, and KafkaError if the leader refuses."""
        return await self._offset(state, LATEST)

    async def start_offset(self, state: FetchState) -> int:
        """The start of the leader's log. Raises OSError, and KafkaError if the leader refuses."""
        return await self._offset(state, EARLIEST)

    async def epoch_end_offsets(
        self, states: Iterable[FetchState]
    ) -> dict[TopicPartition, EpochEndOffset | ErrorCode]:
        """The end of each partition's last epoch at the leader, or its error. Raises OSError."""
        topics: dict[str, OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = {}
        for state in states:
            name, index = state.topic_partition
            topic = topics.get(name)
            if topic is None:
                topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=name)
                topics[name] = topic
            topic.partitions.append(
                OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                    partition=index,
                    current_leader_epoch=state.leader_epoch,
                    leader_epoch=state.last_fetched_epoch,
                )
            )
        request = OffsetForLeaderEpochRequest(
            replica_id=self._follower.broker_id, topics=list(topics.values())
        )
        response: OffsetForLeaderEpochResponse = await self._send(request)
        found: dict[TopicPartition, EpochEndOffset | ErrorCode] = {}
        for answered in response.topics:
            for data in answered.partitions:
                found[TopicPartition(answered.topic, data.partition)] = (
                    ErrorCode(data.error_code)
                    if data.error_code
                    else EpochEndOffset(data.leader_epoch, data.end_offset)
                )
        return found

    async def _offset(self, state: FetchState, timestamp: int) -> int:
        name, index = state.topic_partition
        asked = ListOffsetsRequest.ListOffsetsPartition(
            partition_index=index, current_leader_epoch=state.leader_epoch, timestamp=timestamp
        )
        topic = ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=[asked])
        request = ListOffsetsRequest(replica_id=self._follower.broker_id, topics=[topic])
        response: ListOffsetsResponse = await self._send(request)
        for answered in response.topics:
            for data in answered.partitions:
                if data.error_code:
                    raise KafkaError(ErrorCode(data.error_code), f"{name}-{index} is not told")
                return data.offset
        raise ConnectionError(f"the leader of {name}-{index} answered without an offset")

    async def _serves(self, version: int) -> bool:
        timeout_ms = self._follower.config.replica_socket_timeout_ms
        return await self._client.serves(ApiKey.FETCH, version, timeout_ms=timeout_ms)

    async def _send(self, request: Any, highest_version: int | None = None) -> Any:
        try:
            return await self._client.send(
                request,
                timeout_ms=self._follower.config.replica_socket_timeout_ms,
                highest_version=highest_version,
            )
        except KafkaError as error:  # the leader knows no version that we know
            raise ConnectionError(str(error)) from error


def _asked_by_topic(
    asked: Iterable[FetchState], max_bytes: int
) -> Iterator[FetchRequest.FetchTopic]:
    topics: dict[str, FetchRequest.FetchTopic] = {}
    for state in asked:
        name, index = state.topic_partition
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchRequest.FetchTopic(topic=name, topic_id=state.topic_id)
        topic.partitions.append(
            FetchRequest.FetchPartition(
                partition=index,
                current_leader_epoch=state.leader_epoch,
                fetch_offset=state.fetch_offset,
                last_fetched_epoch=state.last_fetched_epoch,
                log_start_offset=state.log_start_offset,
                partition_max_bytes=max_bytes,
            )
        )
    yield from topics.values()


def _forgotten_by_topic(
    forgotten: Iterable[tuple[TopicPartition, UUID]],
) -> Iterator[FetchRequest.ForgottenTopic]:
    topics: dict[tuple[str, UUID], FetchRequest.ForgottenTopic] = {}
    for (name, index), topic_id in forgotten:
        topic = topics.get((name, topic_id))
        if topic is None:
            topic = FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id)
            topics[name, topic_id] = topic
        topic.partitions.append(index)
    yield from topics.values()


def answered_partitions(
    response: FetchResponse, names: Callable[[UUID], str | None]
) -> Iterator[tuple[TopicPartition, FetchResponse.PartitionData]]:
    """Yield the entries of an answer, except those of topics that are no longer known."""
    for topic in response.responses:
        name = topic.topic
        if topic.topic_id != ZERO_UUID:
            name = names(topic.topic_id) or ""
        for data in topic.partitions if name else ():
            yield TopicPartition(name, data.partition_index), data
