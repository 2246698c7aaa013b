"""The controller's channel to the broker it runs in: a call instead of a connection.

Law: the broker does with a request what it does with one that came over the network, in the same order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from kbroker.controller.controller_channel_manager import ControlResponse
from kbroker.controller.machines.request_batch import ControlRequest
from kbroker.controller.metadata_waiter import MetadataWaiter
from kbroker.model import TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.replication.replica_manager import ReplicaManager


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
            return self._replicas.become_leader_or_follower(request)
        if isinstance(request, StopReplicaRequest):
            return self._replicas.stop_replicas(request)
        response = self._replicas.update_metadata(request)
        self._waiter.notify()
        return response
