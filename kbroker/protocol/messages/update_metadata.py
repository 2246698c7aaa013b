"""UpdateMetadata: the controller's report to every broker: the live brokers and the leaders.

v1: request gains endpoints; request drops v0_host, v0_port. v2: request gains rack. v3: request
gains listener. v4: request gains offline_replicas. v5: request gains broker_epoch, topic_states;
request drops ungrouped_partition_states, topic_name. v6: flexible. v7: request gains topic_id. v8:
request gains is_kraft_controller, type.

A deleted partition has leader -2. Not in 4.x, where no controller uses ZooKeeper.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=6, versions="0-8", flexible="6+")
class UpdateMetadataRequest(Message):
    """Changed partitions and all live brokers."""

    class UpdateMetadataPartitionState(Struct):
        topic_name: str = wire("string", "0-4", default="")
        partition_index: int = wire("int32", default=0)
        controller_epoch: int = wire("int32", default=0)
        leader: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)
        isr: list[int] = wire("[]int32", default=[])
        zk_version: int = wire("int32", default=0)
        replicas: list[int] = wire("[]int32", default=[])
        offline_replicas: list[int] = wire("[]int32", "4+", default=[])

    class UpdateMetadataTopicState(Struct):
        topic_name: str = wire("string", "5+", default="")
        topic_id: UUID = wire("uuid", "7+", default=ZERO_UUID)
        partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = wire(
            "[]UpdateMetadataPartitionState", "5+", default=[]
        )

    class UpdateMetadataEndpoint(Struct):
        port: int = wire("int32", "1+", default=0)
        host: str = wire("string", "1+", default="")
        listener: str = wire("string", "3+", default="")
        security_protocol: int = wire("int16", "1+", default=0)

    class UpdateMetadataBroker(Struct):
        id: int = wire("int32", default=0)
        v0_host: str = wire("string", "0", default="")
        v0_port: int = wire("int32", "0", default=0)
        endpoints: list[UpdateMetadataRequest.UpdateMetadataEndpoint] = wire(
            "[]UpdateMetadataEndpoint", "1+", default=[]
        )
        rack: str | None = wire("string", "2+", nullable="0+", default="")

    controller_id: int = wire("int32", default=0)
    is_kraft_controller: bool = wire("bool", "8+", default=False)
    type: int = wire("int8", "8+", tag=0, default=0)
    controller_epoch: int = wire("int32", default=0)
    broker_epoch: int = wire("int64", "5+", default=-1)
    ungrouped_partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = wire(
        "[]UpdateMetadataPartitionState", "0-4", default=[]
    )
    topic_states: list[UpdateMetadataRequest.UpdateMetadataTopicState] = wire(
        "[]UpdateMetadataTopicState", "5+", default=[]
    )
    live_brokers: list[UpdateMetadataRequest.UpdateMetadataBroker] = wire(
        "[]UpdateMetadataBroker", default=[]
    )


@message(key=6, versions="0-8", flexible="6+")
class UpdateMetadataResponse(Message):
    error_code: int = wire("int16", default=0)
