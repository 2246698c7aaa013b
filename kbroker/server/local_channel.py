"""The controller's channel to the broker it runs in: a call instead of a connection.

Law: the broker does with a request what it does with one that came over the network, in the same
order. A request for many partitions is carried out in slices, so that clients are answered in
between: creating a log costs several system calls, and a topic may have thousands of partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeVar

from kbroker.controller.controller_channel_manager import ControlResponse
from kbroker.controller.machines.request_batch import ControlRequest
from kbroker.controller.metadata_waiter import MetadataWaiter
from kbroker.model import TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kbroker.replication.replica_manager import ReplicaManager

_SLICE_PARTITIONS = 4  # about 2 ms where files are slow to make

T = TypeVar("T")


class LocalChannel:
    """Implements BrokerChannel for this very process."""

    def __init__(
        self,
        replicas: ReplicaManager,
        waiter: MetadataWaiter,
        load_topic_settings: Callable[[Iterable[TopicPartition]], Awaitable[None]],
    ) -> None:
        """`load_topic_settings` is awaited before logs of these partitions may be created."""
        self._replicas = replicas
        self._waiter = waiter
        self._load_topic_settings = load_topic_settings

    async def send(self, request: ControlRequest) -> ControlResponse:
        """Carry out a request of the controller."""
        if isinstance(request, LeaderAndIsrRequest):
            await self._load_topic_settings(
                TopicPartition(topic.topic_name, partition.partition_index)
                for topic in request.topic_states
                for partition in topic.partition_states
            )
            return await self._lead_or_follow(request)
        if isinstance(request, StopReplicaRequest):
            return await self._stop(request)
        response = self._replicas.update_metadata(request)
        self._waiter.notify()
        return response

    async def _lead_or_follow(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        whole = LeaderAndIsrResponse()
        for topic in request.topic_states:
            merged = LeaderAndIsrResponse.LeaderAndIsrTopicError(topic_id=topic.topic_id)
            for states in _slices(topic.partition_states):
                response = self._replicas.become_leader_or_follower(
                    LeaderAndIsrRequest(
                        controller_id=request.controller_id,
                        controller_epoch=request.controller_epoch,
                        broker_epoch=request.broker_epoch,
                        type=request.type,
                        topic_states=[
                            LeaderAndIsrRequest.LeaderAndIsrTopicState(
                                topic_name=topic.topic_name,
                                topic_id=topic.topic_id,
                                partition_states=states,
                            )
                        ],
                        live_leaders=request.live_leaders,
                    )
                )
                if response.error_code:
                    return response
                whole.partition_errors.extend(response.partition_errors)
                for part in response.topics:
                    merged.partition_errors.extend(part.partition_errors)
                await asyncio.sleep(0)
            whole.topics.append(merged)
        return whole

    async def _stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        whole = StopReplicaResponse()
        for topic in request.topic_states:
            for states in _slices(topic.partition_states):
                response = self._replicas.stop_replicas(
                    StopReplicaRequest(
                        controller_id=request.controller_id,
                        controller_epoch=request.controller_epoch,
                        broker_epoch=request.broker_epoch,
                        topic_states=[
                            StopReplicaRequest.StopReplicaTopicState(
                                topic_name=topic.topic_name, partition_states=states
                            )
                        ],
                    )
                )
                if response.error_code:
                    return response
                whole.partition_errors.extend(response.partition_errors)
                await asyncio.sleep(0)
        return whole


def _slices(items: list[T]) -> Iterator[list[T]]:
    for start in range(0, len(items), _SLICE_PARTITIONS):
        yield items[start : start + _SLICE_PARTITIONS]
