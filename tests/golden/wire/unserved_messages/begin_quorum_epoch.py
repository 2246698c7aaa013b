"""BeginQuorumEpoch: a new leader of the metadata quorum makes itself known (KIP-595, KIP-853).

v1: request gains voter_id, voter_directory_id, leader_endpoints; response gains node_endpoints;
    flexible.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochRequest(Message):
    """The leader and its epoch, by partition."""

    class PartitionData(Struct):
        """Who leads one partition."""

        partition_index: int = wire("int32", default=0)
        voter_directory_id: UUID = wire("uuid", "1+", default=ZERO_UUID)
        leader_id: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)

    class TopicData(Struct):
        """Partitions of one topic."""

        topic_name: str = wire("string", default="")
        partitions: list[BeginQuorumEpochRequest.PartitionData] = wire(
            "[]PartitionData", default=[]
        )

    class LeaderEndpoint(Struct):
        """Where a listener of the leader is reached."""

        name: str = wire("string", "1+", default="")
        host: str = wire("string", "1+", default="")
        port: int = wire("uint16", "1+", default=0)

    cluster_id: str | None = wire("string", nullable="0+", default=None)
    voter_id: int = wire("int32", "1+", default=-1)
    topics: list[BeginQuorumEpochRequest.TopicData] = wire("[]TopicData", default=[])
    leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint] = wire(
        "[]LeaderEndpoint", "1+", default=[]
    )


@message(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochResponse(Message):
    """Whether the voter follows."""

    class PartitionData(Struct):
        """The answer for one partition."""

        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        leader_id: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)

    class TopicData(Struct):
        """The answers for one topic."""

        topic_name: str = wire("string", default="")
        partitions: list[BeginQuorumEpochResponse.PartitionData] = wire(
            "[]PartitionData", default=[]
        )

    class NodeEndpoint(Struct):
        """Address of a leader named in the answer."""

        node_id: int = wire("int32", "1+", default=0)
        host: str = wire("string", "1+", default="")
        port: int = wire("uint16", "1+", default=0)

    error_code: int = wire("int16", default=0)
    topics: list[BeginQuorumEpochResponse.TopicData] = wire("[]TopicData", default=[])
    node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint] = wire(
        "[]NodeEndpoint", "1+", tag=0, default=[]
    )
