"""Brokers with the real path of ISRs between them: requests by their bytes, replicas over logs in
memory, and the controller's orders. Followers are played: `fetch` asks as one of them does.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

from kbroker.apis.kafka_apis import KafkaApis
from kbroker.config.replication_config import ReplicationConfig
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.replication.alter_partition_manager import AlterPartitionManager
from kbroker.replication.controller_requests.controller_requests import ControlRequests
from kbroker.replication.controller_requests.request_shapes import ControlRequest, ControlResponse
from kbroker.replication.partition import Partition
from kbroker.replication.replica_manager import ReplicaManager
from kbroker.server.membership.isr_questions import IsrQuestions
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.forwarding_cluster import ForwardingBroker, ForwardingCluster
from tests.fakes.memory_log import MemoryLogManager
from tests.fakes.replication_cluster import batch
from tests.fakes.topic_nodes import create_topic
from tests.fakes.virtual_loop import LoopClock, VirtualLoop

TOPIC, TOPIC_ID = "t", UUID(int=7)
T0 = TopicPartition(TOPIC, 0)
REPLICAS = (1, 2, 0)  # the first one leads
LAG_MS = 10_000


class IsrCluster(ForwardingCluster):
    """Broker 0 is controller; its tests run in virtual time."""

    def make_broker(self, broker_id: int, rack: str | None) -> IsrBroker:
        return IsrBroker(self, broker_id, rack)

    def broker(self, broker_id: int) -> IsrBroker:
        broker = self.brokers[broker_id]
        assert isinstance(broker, IsrBroker)
        return broker

    async def create_topic(self, replicas: tuple[int, ...] = REPLICAS) -> None:
        partitions = {0: ReplicaAssignment(replicas=replicas)}
        topic = TopicAssignment(topic_id=TOPIC_ID, partitions=partitions)
        await create_topic(self.controller.zk, TOPIC, topic)
        await self.settle()

    def isr_in_tree(self) -> str:
        (line,) = self.state()
        return line[line.index('"isr"') :].rstrip("}")


class IsrBroker(ForwardingBroker):
    """A broker that leads and follows."""

    def __init__(self, cluster: IsrCluster, broker_id: int, rack: str | None) -> None:
        super().__init__(cluster, broker_id, rack)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock = LoopClock(loop)
        self.logs = MemoryLogManager()
        self.replicas = ReplicaManager(
            self.logs,  # type: ignore[arg-type]
            self.metadata,
            clock,
            clock,
            ReplicationConfig(replica_lag_time_max_ms=LAG_MS),
        )
        self.isr_changes = AlterPartitionManager(
            IsrQuestions(broker_id, self._epoch, self.controller, self.channel).ask,
            self.replicas,
            lambda other: self.metadata.broker(other) is not None,
        )
        self.replicas.leadership.isr_changes = self.isr_changes
        self.control = ControlRequests(
            self.replicas.leadership, self.replicas.logs, self.waiter, _no_settings, self._epoch
        )
        self.services = replace(self.services, replicas=self.replicas)
        self.apis = KafkaApis(self.apis_by_key, self.services)

    async def start(self) -> None:
        self.isr_changes.start()
        await super().start()

    async def stop(self) -> None:
        await self.isr_changes.stop()
        self.replicas.shutdown()
        await super().stop()

    async def send(self, request: ControlRequest) -> ControlResponse:
        if not self.is_reachable:
            return await super().send(request)
        self.cluster.requests.append((self.broker_id, request))
        return await self.control.send(request)

    @property
    def partition(self) -> Partition:
        return self.replicas.hosted.get(T0)

    async def produce(self, *, acks: int = -1, timeout_ms: int = 60_000) -> int:
        """Ask for one record to be written; the error code."""
        data = ProduceRequest.PartitionProduceData(index=0, records=batch(b"v"))
        topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])
        answer = await self.ask(request, 9)
        code: int = answer.responses[0].partition_responses[0].error_code
        return code

    async def begin_produce(self) -> asyncio.Task[int]:
        """As `produce`, when the record is in the log."""
        task = asyncio.create_task(self.produce())
        await asyncio.sleep(0)
        assert not task.done()
        return task

    async def fetch_as(
        self, follower: int, offset: int | None = None, *, epoch: int | None = None
    ) -> Any:
        """What this leader tells a follower that asks for `offset` (None: its end)."""
        if epoch is None:
            epoch = self.forwarding_cluster.broker(follower).broker_epoch
        partition = FetchRequest.FetchPartition(
            partition=0,
            fetch_offset=self.partition.log_end_offset if offset is None else offset,
            partition_max_bytes=1 << 20,
            current_leader_epoch=self.partition.leader_epoch,
        )
        request = FetchRequest(
            session_epoch=-1,
            replica_state=FetchRequest.ReplicaState(replica_id=follower, replica_epoch=epoch),
            topics=[FetchRequest.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        )
        answer = await self.ask(request, 15)
        return answer.responses[0].partitions[0]

    def _epoch(self) -> int:
        return self.broker_epoch


async def _no_settings(_partitions: object) -> None:
    """Topics have no settings of their own."""
