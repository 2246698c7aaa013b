"""ControlRequests: carries out the three requests of a broker's controller, which come as calls in
this process or over a connection.

Law: requests are carried out one at a time, in the order they came, by whichever way: the orders of
a new controller never mix with the rest of its predecessor's (Kafka's replicaStateChangeLock). A
request for an earlier run of this broker, or from a controller that has been replaced, is refused
before anything is read or changed.

A request may arrive by a connection that its controller has given up for a newer one. It was sent
again, and later orders have followed, so it is not answered and its connection is closed. (Kafka
carries it out, and takes metadata of the past.) An error code would make a controller that still
uses the connection resign; a closed connection makes it send the request again.

A name that no partition can have, which a node made by hand may hold, is refused alone. A request
for many partitions is carried out in slices, so that clients are answered in between: creating a
log costs several system calls, and a topic may have thousands of partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar
from uuid import UUID

from kbroker.errors import ErrorCode, ProtocolError
from kbroker.model import UNKNOWN_BROKER_EPOCH, TopicPartition
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kbroker.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from kbroker.replication.controller_requests.leadership import Leadership
from kbroker.replication.controller_requests.replica_logs import ReplicaLogs
from kbroker.replication.controller_requests.request_shapes import (
    ControlRequest,
    ControlResponse,
    grouped_leader_and_isr,
    grouped_stop_replica,
    grouped_update_metadata,
    is_sound,
    with_topics,
    without_unsound,
)
from kbroker.slices import slices
from kbroker.turns import in_turns, turn
from kbroker.zk.tree import TreeUnavailableError

_log = logging.getLogger(__name__)

TREE_BACKOFF_S = 0.1
REGISTRATION_LOOK_S = 0.01
IN_PROCESS = 0  # the number of no connection: the controller in this process calls
_SLICE_PARTITIONS = 4  # about 2 ms if files are slow to make, or to rename

T = TypeVar("T")


class ControlRequests:
    """Carries out LeaderAndIsr, UpdateMetadata and StopReplica. Owned by the event loop."""

    def __init__(
        self,
        leadership: Leadership,
        logs: ReplicaLogs,
        waiter: MetadataWaiter,
        load_topic_settings: Callable[[Sequence[TopicPartition]], Awaitable[None]],
        broker_epoch: Callable[[], int],
        topic_id: Callable[[str], Awaitable[UUID | None]],
    ) -> None:
        """`load_topic_settings` is awaited before logs of these partitions may be created;
        `broker_epoch` gives the epoch of this broker's present registration, `topic_id` the id that
        a topic has in the tree.
        """
        self._leadership = leadership
        self._logs = logs
        self._waiter = waiter
        self._load_topic_settings = load_topic_settings
        self._broker_epoch = broker_epoch
        self._topic_id = topic_id
        self._turn = asyncio.Lock()  # first come, first served
        self._came_by = (0, 0)  # controller epoch and connection of the last request

    async def send(self, request: ControlRequest) -> ControlResponse:
        """Carry out a request from the controller in this process (BrokerChannel)."""
        if isinstance(request, LeaderAndIsrRequest):
            return await self.leader_and_isr(request)
        if isinstance(request, StopReplicaRequest):
            return await self.stop_replica(request)
        return await self.update_metadata(request)

    def close(self) -> None:
        """Do nothing: a controller in this process keeps no connection (BrokerChannel)."""

    async def leader_and_isr(
        self, request: LeaderAndIsrRequest, connection: int = IN_PROCESS
    ) -> LeaderAndIsrResponse:
        """Lead and follow as ordered by a request that came over the connection of that number."""
        grouped = grouped_leader_and_isr(request)
        async with self._turn:
            refusal = await self._refusal_or_settings(grouped, connection)
            if refusal is not ErrorCode.NONE:
                return _refused(grouped, refusal)
            return await self._lead_or_follow(grouped)

    async def update_metadata(
        self, request: UpdateMetadataRequest, connection: int = IN_PROCESS
    ) -> UpdateMetadataResponse:
        """Take over which brokers are alive, and who leads what."""
        complete, left_out = without_unsound(grouped_update_metadata(request))
        async with self._turn:
            refusal = await self._refusal(complete, connection)
            if refusal is not ErrorCode.NONE:
                return UpdateMetadataResponse(error_code=refusal)
            if left_out:
                _log.warning("ignoring invalid metadata: %.500s", ", ".join(left_out))
            response = self._leadership.update_metadata(complete)
            self._waiter.notify()
            return response

    async def stop_replica(
        self, request: StopReplicaRequest, connection: int = IN_PROCESS
    ) -> StopReplicaResponse:
        """Stop replicas and delete their logs as ordered."""
        grouped = grouped_stop_replica(request)
        async with self._turn:
            refusal = await self._refusal(grouped, connection)
            if refusal is not ErrorCode.NONE:
                return StopReplicaResponse(error_code=refusal)
            return await self._stop(grouped)

    async def _refusal(self, request: ControlRequest, connection: int) -> ErrorCode:
        """Compare the epochs; one above our own is of a registration we have yet to hear of.

        Raises ProtocolError if the request came by a connection that was given up.
        """
        own_epoch = await self._own_epoch(request)
        if request.broker_epoch != UNKNOWN_BROKER_EPOCH and request.broker_epoch < own_epoch:
            _log.info(
                "%s for broker epoch %d refused, this broker's is %d",
                type(request).__name__,
                request.broker_epoch,
                own_epoch,
            )
            return ErrorCode.STALE_BROKER_EPOCH
        known_epoch = self._leadership.controller_epoch
        if request.controller_epoch < known_epoch:
            _log.warning(
                "%s of controller %d refused: its epoch is %d, the latest is %d",
                type(request).__name__,
                request.controller_id,
                request.controller_epoch,
                known_epoch,
            )
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if connection != IN_PROCESS:
            if (request.controller_epoch, connection) < self._came_by:
                kind = type(request).__name__
                raise ProtocolError(f"{kind} by a connection older than its controller's latest")
            self._came_by = (request.controller_epoch, connection)
        return ErrorCode.NONE

    async def _own_epoch(self, request: ControlRequest) -> int:
        """The epoch of this broker, awaited if the request names one. Before it is known, the
        request may be for an earlier run: a replaced controller may still have orders for that.
        """
        while True:
            own_epoch = self._broker_epoch()
            if own_epoch != UNKNOWN_BROKER_EPOCH or request.broker_epoch == UNKNOWN_BROKER_EPOCH:
                return own_epoch
            await asyncio.sleep(REGISTRATION_LOOK_S)

    async def _refusal_or_settings(
        self, request: LeaderAndIsrRequest, connection: int
    ) -> ErrorCode:
        """Read the settings of the topics, and make room for their replicas, unless the request is
        refused, which is checked again after each wait.

        Waits for a tree that cannot be read: a log made with wrong settings may lose data, and to
        the controller a refusal would mean that a disk has failed.
        """
        wanted = [
            TopicPartition(topic.topic_name, partition.partition_index)
            for topic in request.topic_states
            for partition in topic.partition_states
            if is_sound(topic.topic_name, partition.partition_index)
        ]
        while True:
            refusal = await self._refusal(request, connection)
            if refusal is not ErrorCode.NONE:
                return refusal
            try:
                await self._load_topic_settings(wanted)
                await in_turns(self._room_made(request))
                return ErrorCode.NONE
            except TreeUnavailableError:
                await asyncio.sleep(TREE_BACKOFF_S)

    async def _room_made(self, request: LeaderAndIsrRequest) -> AsyncIterator[None]:
        """Set replicas aside whose place others are to have, topic by topic, if the tree agrees: a
        controller may be behind, and the name still, or again, that of the topic held here.
        """
        for topic in request.topic_states:
            is_in_doubt = self._leadership.holds_another(topic)
            if is_in_doubt and await self._topic_id(topic.topic_name) == topic.topic_id:
                for states in slices(topic.partition_states, _SLICE_PARTITIONS):
                    self._leadership.set_another_aside(_with_states(topic, states))
                    await turn()
            yield

    async def _lead_or_follow(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        whole = self._leadership.become_leader_or_follower(with_topics(request, []))
        for topic in request.topic_states:
            merged = LeaderAndIsrResponse.LeaderAndIsrTopicError(topic_id=topic.topic_id)
            whole.topics.append(merged)
            sound: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = []
            for state in topic.partition_states:
                if state.leader_epoch >= 0 and is_sound(topic.topic_name, state.partition_index):
                    sound.append(state)
                else:
                    merged.partition_errors.append(_unsound(topic.topic_name, state))
            whole.partition_errors.extend(merged.partition_errors)
            for states in slices(sound, _SLICE_PARTITIONS):
                part = _with_states(topic, states)
                response = self._leadership.become_leader_or_follower(with_topics(request, [part]))
                whole.partition_errors.extend(response.partition_errors)
                for answered in response.topics:
                    merged.partition_errors.extend(answered.partition_errors)
                await asyncio.sleep(0)
        return whole

    async def _stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        whole = self._leadership.stop_replicas(with_topics(request, []))
        for topic in request.topic_states:
            sound: list[StopReplicaRequest.StopReplicaPartitionState] = []
            for state in topic.partition_states:
                if is_sound(topic.topic_name, state.partition_index):
                    sound.append(state)
                else:
                    error = StopReplicaResponse.StopReplicaPartitionError(
                        topic_name=topic.topic_name,
                        partition_index=state.partition_index,
                        error_code=ErrorCode.INVALID_REQUEST,
                    )
                    whole.partition_errors.append(error)
            for states in slices(sound, _SLICE_PARTITIONS):
                part = StopReplicaRequest.StopReplicaTopicState(
                    topic_name=topic.topic_name, partition_states=states
                )
                response = self._leadership.stop_replicas(with_topics(request, [part]))
                whole.partition_errors.extend(response.partition_errors)
                await asyncio.sleep(0)
        await self._finish_deletions(request, whole)
        return whole

    async def _finish_deletions(
        self, request: StopReplicaRequest, response: StopReplicaResponse
    ) -> None:
        """Wait for deletions to be on the disk, and answer with an error for those that are not."""
        states = [state for topic in request.topic_states for state in topic.partition_states]
        if not any(state.delete_partition for state in states):
            return
        failed = await self._logs.finish_deletions()
        await turn()
        for answer in response.partition_errors:
            topic_partition = TopicPartition(answer.topic_name, answer.partition_index)
            if topic_partition in failed and not answer.error_code:
                answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR


def _with_states(
    topic: LeaderAndIsrRequest.LeaderAndIsrTopicState,
    states: Sequence[LeaderAndIsrRequest.LeaderAndIsrPartitionState],
) -> LeaderAndIsrRequest.LeaderAndIsrTopicState:
    """The topic of an order with some of its partitions."""
    return LeaderAndIsrRequest.LeaderAndIsrTopicState(
        topic_name=topic.topic_name, topic_id=topic.topic_id, partition_states=list(states)
    )


def _unsound(
    topic: str, state: LeaderAndIsrRequest.LeaderAndIsrPartitionState
) -> LeaderAndIsrResponse.LeaderAndIsrPartitionError:
    _log.warning("ignoring an impossible partition: %.300r, %d", topic, state.partition_index)
    return LeaderAndIsrResponse.LeaderAndIsrPartitionError(
        topic_name=topic,
        partition_index=state.partition_index,
        error_code=ErrorCode.INVALID_REQUEST,
    )


def _refused(request: LeaderAndIsrRequest, code: ErrorCode) -> LeaderAndIsrResponse:
    """The refusal of a whole request, repeated for each partition as in Kafka."""
    response = LeaderAndIsrResponse(error_code=code)
    for topic in request.topic_states:
        errors = [
            LeaderAndIsrResponse.LeaderAndIsrPartitionError(
                topic_name=topic.topic_name, partition_index=state.partition_index, error_code=code
            )
            for state in topic.partition_states
        ]
        response.partition_errors.extend(errors)
        response.topics.append(
            LeaderAndIsrResponse.LeaderAndIsrTopicError(
                topic_id=topic.topic_id, partition_errors=errors
            )
        )
    return response
