"""AlterPartition: a leader asks the controller for another ISR (KIP-497, KIP-704, KIP-841,
KIP-903).

v0: flexible; named AlterIsr up to Kafka 3.1.
v1: request and response gain leader_recovery_state.
v2: request and response gain topic_id; both drop topic_name.
v3: request gains new_isr_with_epochs; request drops new_isr.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=56, versions="0-3", flexible="0+")
class AlterPartitionRequest(Message):
    class BrokerState(Struct):
        """A replica in sync, with the epoch in which its leader saw it catch up."""

        broker_id: int = wire("int32", "3+", default=0)
        broker_epoch: int = wire("int64", "3+", default=-1)

    class PartitionData(Struct):
        """The ISR of one partition; `partition_epoch` is the version it is based on."""

        partition_index: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)
        new_isr: list[int] = wire("[]int32", "0-2", default=[])
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = wire(
            "[]BrokerState", "3+", default=[]
        )
        leader_recovery_state: int = wire("int8", "1+", default=0)
        partition_epoch: int = wire("int32", default=0)

    class TopicData(Struct):
        topic_name: str = wire("string", "0-1", default="")
        topic_id: UUID = wire("uuid", "2+", default=ZERO_UUID)
        partitions: list[AlterPartitionRequest.PartitionData] = wire("[]PartitionData", default=[])

    broker_id: int = wire("int32", default=0)
    broker_epoch: int = wire("int64", default=-1)
    topics: list[AlterPartitionRequest.TopicData] = wire("[]TopicData", default=[])


@message(key=56, versions="0-3", flexible="0+")
class AlterPartitionResponse(Message):
    class PartitionData(Struct):
        """Leader and ISR of one partition after the change."""

        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        leader_id: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)
        isr: list[int] = wire("[]int32", default=[])
        leader_recovery_state: int = wire("int8", "1+", default=0)
        partition_epoch: int = wire("int32", default=0)

    class TopicData(Struct):
        topic_name: str = wire("string", "0-1", default="")
        topic_id: UUID = wire("uuid", "2+", default=ZERO_UUID)
        partitions: list[AlterPartitionResponse.PartitionData] = wire("[]PartitionData", default=[])

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    topics: list[AlterPartitionResponse.TopicData] = wire("[]TopicData", default=[])
