"""Brokers of a forwarding cluster whose leaders are real: each has the ReplicaManager that obeys the
controller, and the AlterPartitionManager that asks it for ISRs. Followers fetch when a test says so.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kbroker.config.replication_config import ReplicationConfig
from kbroker.errors import ErrorCode
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.replication.controller_requests.alter_partition_manager import AlterPartitionManager
from kbroker.replication.controller_requests.request_shapes import ControlRequest, ControlResponse
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.reads.fetch_params import FetchParams, FetchPartition
from kbroker.replication.replica_manager import ReplicaManager
from kbroker.server.membership.controller_questions import ControllerQuestions
from kbroker.server.membership.zk_isr_manager import ZkIsrManager
from tests.fakes.clusters.forwarding_cluster import ForwardingBroker, ForwardingCluster
from tests.fakes.clusters.replication_cluster import batch
from tests.fakes.logs.memory_log import MemoryLogManager
from tests.fakes.running.virtual_loop import LoopClock, VirtualLoop


class ReplicatingBroker(ForwardingBroker):
    """A broker that leads. It needs a VirtualLoop."""

    def __init__(self, cluster: ForwardingCluster, broker_id: int, rack: str | None) -> None:
        super().__init__(cluster, broker_id, rack)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock = LoopClock(loop)
        logs: Any = MemoryLogManager()
        self.replicas = ReplicaManager(logs, self.metadata, clock, clock, ReplicationConfig())
        questions = ControllerQuestions(
            broker_id,
            lambda: self.broker_epoch,
            self.controller,
            self.channel,
            self.zk,
        )
        writes = isinstance(cluster, ReplicatingCluster) and cluster.leaders_write_isrs
        self.manager = AlterPartitionManager(
            ZkIsrManager(self.zk).ask if writes else questions.alter_isrs,
            self.replicas.isr_settled,
            lambda other: self.metadata.broker(other) is not None,
        )
        self.replicas.leadership.isr_changes = self.manager

    async def start(self) -> None:
        self.manager.start()
        await super().start()

    async def stop(self) -> None:
        await self.manager.stop()
        await super().stop()

    async def send(self, request: ControlRequest) -> ControlResponse:
        response = await super().send(request)
        if response.error_code == ErrorCode.NONE:
            if isinstance(request, LeaderAndIsrRequest):
                self.replicas.leadership.become_leader_or_follower(request)
            elif isinstance(request, StopReplicaRequest):
                self.replicas.leadership.stop_replicas(request)
        return response

    def partition(self, topic_partition: TopicPartition) -> Partition:
        return self.replicas.hosted.get(topic_partition)

    def append(self, topic_partition: TopicPartition, acks: int, timeout_ms: int = 60_000) -> Any:
        outcome = self.replicas.appends.append_records(
            [(topic_partition, batch(b"v"))], acks, timeout_ms
        )
        return outcome.settled or outcome.results

    def hear_fetch(
        self, topic_partition: TopicPartition, offset: int, replica_id: int, replica_epoch: int
    ) -> None:
        """A follower that has everything before `offset` asks for more, and does not wait."""
        params = FetchParams(
            isolation=FetchIsolation.LOG_END,
            max_bytes=1_000_000,
            replica_id=replica_id,
            replica_epoch=replica_epoch,
        )
        asked = FetchPartition(
            topic_partition=topic_partition,
            fetch_offset=offset,
            max_bytes=1_000_000,
            log_start_offset=0,
        )
        self.replicas.fetches.fetch(params, [asked])


class ReplicatingCluster(ForwardingCluster):
    """A cluster of them; with `leaders_write_isrs` as before Kafka 2.7."""

    leaders_write_isrs = False

    def make_broker(self, broker_id: int, rack: str | None) -> ReplicatingBroker:
        return ReplicatingBroker(self, broker_id, rack)

    def broker(self, broker_id: int) -> ReplicatingBroker:
        broker = self.brokers[broker_id]
        assert isinstance(broker, ReplicatingBroker)
        return broker
