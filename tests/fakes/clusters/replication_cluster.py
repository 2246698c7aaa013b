"""A ReplicaManager over memory logs, told by a make-believe controller who leads what."""

from __future__ import annotations

import asyncio
from uuid import UUID

from kbroker.clock import Clock
from kbroker.config.replication_config import ReplicationConfig
from kbroker.model import TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.record.record_batch import BatchOptions, Record, build
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.replica_manager import ReplicaManager
from tests.fakes.logs.memory_log import MemoryLogManager
from tests.fakes.running.virtual_time import VirtualTime

BROKER_ID = 0
CONTROLLER_EPOCH = 5


def topic_id_of(topic: str) -> UUID:
    return UUID(bytes=(topic.encode() * 16)[:16])


def batch(*values: bytes, timestamp: int = 1000, **fields) -> memoryview:
    """A format 2 batch as a producer sends it, in a writable buffer."""
    rows = [
        Record(offset=index, timestamp=timestamp, key=None, value=value, headers=())
        for index, value in enumerate(values or (b"v",))
    ]
    return memoryview(bytearray(build(rows, options=BatchOptions(**fields))))


def update_metadata(
    *states, brokers=(0, 1, 2), racks=None, epoch=CONTROLLER_EPOCH, controller_id=0, host="", kind=1
):
    """`states` are (topic, UpdateMetadataPartitionState)."""
    return UpdateMetadataRequest(
        controller_id=controller_id,
        controller_epoch=epoch,
        type=kind,
        topic_states=[
            UpdateMetadataRequest.UpdateMetadataTopicState(
                topic_name=topic, topic_id=topic_id_of(topic), partition_states=[state]
            )
            for topic, state in states
        ],
        live_brokers=[
            UpdateMetadataRequest.UpdateMetadataBroker(
                id=broker,
                endpoints=[
                    UpdateMetadataRequest.UpdateMetadataEndpoint(
                        port=9092 + broker, host=host, listener="PLAINTEXT", security_protocol=0
                    )
                ],
                rack=(racks or {}).get(broker),
            )
            for broker in brokers
        ],
    )


def partition_metadata(
    partition=0, *, leader=0, leader_epoch=0, isr=(0,), replicas=(0,), offline=()
):
    return UpdateMetadataRequest.UpdateMetadataPartitionState(
        partition_index=partition,
        controller_epoch=CONTROLLER_EPOCH,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=list(isr),
        replicas=list(replicas),
        offline_replicas=list(offline),
    )


def leader_and_isr(
    topic,
    partition=0,
    *,
    leader=0,
    leader_epoch=0,
    isr=(0,),
    replicas=(0,),
    epoch=CONTROLLER_EPOCH,
    topic_id=None,
):
    return LeaderAndIsrRequest(
        controller_id=0,
        controller_epoch=epoch,
        topic_states=[
            LeaderAndIsrRequest.LeaderAndIsrTopicState(
                topic_name=topic,
                topic_id=topic_id or topic_id_of(topic),
                partition_states=[
                    LeaderAndIsrRequest.LeaderAndIsrPartitionState(
                        partition_index=partition,
                        controller_epoch=epoch,
                        leader=leader,
                        leader_epoch=leader_epoch,
                        isr=list(isr),
                        replicas=list(replicas),
                    )
                ],
            )
        ],
    )


def stop_replica(topic, partition=0, *, leader_epoch=-2, delete=True, epoch=CONTROLLER_EPOCH):
    state = StopReplicaRequest.StopReplicaPartitionState(
        partition_index=partition, leader_epoch=leader_epoch, delete_partition=delete
    )
    return StopReplicaRequest(
        controller_epoch=epoch,
        topic_states=[
            StopReplicaRequest.StopReplicaTopicState(topic_name=topic, partition_states=[state])
        ],
    )


class ReplicationCluster:
    """Broker 0 as seen by its own parts.

    `lead` makes it the leader of a partition, `hear_of` only tells it of one.
    """

    def __init__(self, log_manager=None, **config) -> None:
        self.time = VirtualTime()
        self.loop = asyncio.new_event_loop()
        self.log_manager = log_manager or MemoryLogManager()
        self.metadata = MetadataCache(BROKER_ID, "cluster")
        self.config = ReplicationConfig(**config)
        clock: Clock = self.time
        self.replicas = ReplicaManager(
            self.log_manager,
            self.metadata,
            clock,
            self.time,
            self.config,
            create_future=self.loop.create_future,
        )
        self.metadata.update(update_metadata())

    def close(self) -> None:
        self.loop.close()

    def hear_of(self, topic, partition=0, *, leader=0, leader_epoch=0, isr=(0,), replicas=(0,)):
        state = partition_metadata(
            partition, leader=leader, leader_epoch=leader_epoch, isr=isr, replicas=replicas
        )
        self.metadata.update(update_metadata((topic, state)))
        return TopicPartition(topic, partition)

    def lead(self, topic, partition=0, *, leader=0, leader_epoch=0, isr=(0,), replicas=(0,)):
        where = {"leader": leader, "leader_epoch": leader_epoch, "isr": isr, "replicas": replicas}
        self.hear_of(topic, partition, **where)
        response = self.replicas.leadership.become_leader_or_follower(
            leader_and_isr(topic, partition, **where)
        )
        assert not response.partition_errors[0].error_code
        return self.replicas.hosted.get(TopicPartition(topic, partition))

    def append(self, partition, *values, acks=1, timeout_ms=1000):
        outcome = self.replicas.appends.append_records(
            [(partition.topic_partition, batch(*values))], acks, timeout_ms
        )
        return outcome.settled or outcome.results

    def run_callbacks(self):
        self.loop.run_until_complete(asyncio.sleep(0))
