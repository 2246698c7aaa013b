"""DescribeQuorum: leader, voters and observers of the metadata quorum (KIP-595, KIP-836, KIP-853).

v0: flexible.
v1: response gains last_fetch_timestamp, last_caught_up_timestamp.
v2: response gains error_message, replica_directory_id, nodes.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest(Message):
    """The partitions asked about."""

    class PartitionData(Struct):
        """One partition."""

        partition_index: int = wire("int32", default=0)

    class TopicData(Struct):
        """Partitions of one topic."""

        topic_name: str = wire("string", default="")
        partitions: list[DescribeQuorumRequest.PartitionData] = wire("[]PartitionData", default=[])

    topics: list[DescribeQuorumRequest.TopicData] = wire("[]TopicData", default=[])


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse(Message):
    """The state of the quorum."""

    class ReplicaState(Struct):
        """How far one replica has come; times are milliseconds since 1970, -1 unknown."""

        replica_id: int = wire("int32", default=0)
        replica_directory_id: UUID = wire("uuid", "2+", default=ZERO_UUID)
        log_end_offset: int = wire("int64", default=0)
        last_fetch_timestamp: int = wire("int64", "1+", default=-1)
        last_caught_up_timestamp: int = wire("int64", "1+", default=-1)

    class PartitionData(Struct):
        """Who leads one partition, who votes and who watches."""

        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", "2+", nullable="2+", default="")
        leader_id: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)
        high_watermark: int = wire("int64", default=0)
        current_voters: list[DescribeQuorumResponse.ReplicaState] = wire(
            "[]ReplicaState", default=[]
        )
        observers: list[DescribeQuorumResponse.ReplicaState] = wire("[]ReplicaState", default=[])

    class TopicData(Struct):
        """The answers for one topic."""

        topic_name: str = wire("string", default="")
        partitions: list[DescribeQuorumResponse.PartitionData] = wire("[]PartitionData", default=[])

    class Listener(Struct):
        """Where a listener of a voter is reached."""

        name: str = wire("string", "2+", default="")
        host: str = wire("string", "2+", default="")
        port: int = wire("uint16", "2+", default=0)

    class Node(Struct):
        """The listeners of one voter."""

        node_id: int = wire("int32", "2+", default=0)
        listeners: list[DescribeQuorumResponse.Listener] = wire("[]Listener", "2+", default=[])

    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", "2+", nullable="2+", default="")
    topics: list[DescribeQuorumResponse.TopicData] = wire("[]TopicData", default=[])
    nodes: list[DescribeQuorumResponse.Node] = wire("[]Node", "2+", default=[])
