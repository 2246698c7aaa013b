"""LeaderAndIsr: the controller's order to a broker: what it leads and follows (KIP-380, KIP-516,
KIP-704).

v1: request gains is_new.
v2: request gains broker_epoch, topic_states; request drops ungrouped_partition_states, topic_name.
v3: request gains adding_replicas, removing_replicas.
v4: flexible.
v5: request gains type, topic_id; response gains topics; response drops partition_errors,
    topic_name.
v6: request gains leader_recovery_state.
v7: request gains is_kraft_controller.

`type`: 0 unknown, 1 incremental, 2 full. Not in 4.x, where no controller uses ZooKeeper.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=4, versions="0-7", flexible="4+")
class LeaderAndIsrRequest(Message):
    """The state of the partitions that the receiver has a replica of."""

    class LeaderAndIsrPartitionState(Struct):
        topic_name: str = wire("string", "0-1", default="")
        partition_index: int = wire("int32", default=0)
        controller_epoch: int = wire("int32", default=0)
        leader: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)
        isr: list[int] = wire("[]int32", default=[])
        partition_epoch: int = wire("int32", default=0)
        replicas: list[int] = wire("[]int32", default=[])
        adding_replicas: list[int] = wire("[]int32", "3+", default=[])
        removing_replicas: list[int] = wire("[]int32", "3+", default=[])
        is_new: bool = wire("bool", "1+", default=False)
        leader_recovery_state: int = wire("int8", "6+", default=0)

    class LeaderAndIsrTopicState(Struct):
        topic_name: str = wire("string", "2+", default="")
        topic_id: UUID = wire("uuid", "5+", default=ZERO_UUID)
        partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = wire(
            "[]LeaderAndIsrPartitionState", "2+", default=[]
        )

    class LeaderAndIsrLiveLeader(Struct):
        broker_id: int = wire("int32", default=0)
        host_name: str = wire("string", default="")
        port: int = wire("int32", default=0)

    controller_id: int = wire("int32", default=0)
    is_kraft_controller: bool = wire("bool", "7+", default=False)
    controller_epoch: int = wire("int32", default=0)
    broker_epoch: int = wire("int64", "2+", default=-1)
    type: int = wire("int8", "5+", default=0)
    ungrouped_partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = wire(
        "[]LeaderAndIsrPartitionState", "0-1", default=[]
    )
    topic_states: list[LeaderAndIsrRequest.LeaderAndIsrTopicState] = wire(
        "[]LeaderAndIsrTopicState", "2+", default=[]
    )
    live_leaders: list[LeaderAndIsrRequest.LeaderAndIsrLiveLeader] = wire(
        "[]LeaderAndIsrLiveLeader", default=[]
    )


@message(key=4, versions="0-7", flexible="4+")
class LeaderAndIsrResponse(Message):
    class LeaderAndIsrPartitionError(Struct):
        topic_name: str = wire("string", "0-4", default="")
        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)

    class LeaderAndIsrTopicError(Struct):
        topic_id: UUID = wire("uuid", "5+", default=ZERO_UUID)
        partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = wire(
            "[]LeaderAndIsrPartitionError", "5+", default=[]
        )

    error_code: int = wire("int16", default=0)
    partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = wire(
        "[]LeaderAndIsrPartitionError", "0-4", default=[]
    )
    topics: list[LeaderAndIsrResponse.LeaderAndIsrTopicError] = wire(
        "[]LeaderAndIsrTopicError", "5+", default=[]
    )
