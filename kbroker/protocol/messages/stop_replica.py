"""StopReplica: the controller's order to a broker to stop following, or to delete, replicas
(KIP-570).

v1: request gains broker_epoch, topics; request drops ungrouped_partitions. v2: flexible. v3:
request gains topic_states; request drops delete_partitions, topics. v4: request gains
is_kraft_controller.

Not in 4.x, where no controller uses ZooKeeper.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=5, versions="0-4", flexible="2+")
class StopReplicaRequest(Message):
    class StopReplicaPartitionV0(Struct):
        """A partition, named in full."""

        topic_name: str = wire("string", "0", default="")
        partition_index: int = wire("int32", "0", default=0)

    class StopReplicaTopicV1(Struct):
        """Partitions of one topic, v1 and v2."""

        name: str = wire("string", "1-2", default="")
        partition_indexes: list[int] = wire("[]int32", "1-2", default=[])

    class StopReplicaPartitionState(Struct):
        """A partition, and whether its log goes too."""

        partition_index: int = wire("int32", "3+", default=0)
        leader_epoch: int = wire("int32", "3+", default=-1)
        delete_partition: bool = wire("bool", "3+", default=False)

    class StopReplicaTopicState(Struct):
        """Partitions of one topic, from v3 on."""

        topic_name: str = wire("string", "3+", default="")
        partition_states: list[StopReplicaRequest.StopReplicaPartitionState] = wire(
            "[]StopReplicaPartitionState", "3+", default=[]
        )

    controller_id: int = wire("int32", default=0)
    is_kraft_controller: bool = wire("bool", "4+", default=False)
    controller_epoch: int = wire("int32", default=0)
    broker_epoch: int = wire("int64", "1+", default=-1)
    delete_partitions: bool = wire("bool", "0-2", default=False)
    ungrouped_partitions: list[StopReplicaRequest.StopReplicaPartitionV0] = wire(
        "[]StopReplicaPartitionV0", "0", default=[]
    )
    topics: list[StopReplicaRequest.StopReplicaTopicV1] = wire(
        "[]StopReplicaTopicV1", "1-2", default=[]
    )
    topic_states: list[StopReplicaRequest.StopReplicaTopicState] = wire(
        "[]StopReplicaTopicState", "3+", default=[]
    )


@message(key=5, versions="0-4", flexible="2+")
class StopReplicaResponse(Message):
    class StopReplicaPartitionError(Struct):
        topic_name: str = wire("string", default="")
        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)

    error_code: int = wire("int16", default=0)
    partition_errors: list[StopReplicaResponse.StopReplicaPartitionError] = wire(
        "[]StopReplicaPartitionError", default=[]
    )
