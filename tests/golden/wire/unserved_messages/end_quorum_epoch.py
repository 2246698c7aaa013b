"""EndQuorumEpoch: a leader of the metadata quorum steps down (KIP-595, KIP-853).

v1: request gains preferred_candidates, leader_endpoints; request drops preferred_successors;
    response gains node_endpoints; flexible.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochRequest(Message):
    """The leader that goes, and who should follow it, by partition."""

    class ReplicaInfo(Struct):
        """A candidate, by id and directory."""

        candidate_id: int = wire("int32", "1+", default=0)
        candidate_directory_id: UUID = wire("uuid", "1+", default=ZERO_UUID)

    class PartitionData(Struct):
        """Who leads one partition no longer; the successors, the best first."""

        partition_index: int = wire("int32", default=0)
        leader_id: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)
        preferred_successors: list[int] = wire("[]int32", "0", default=[])
        preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo] = wire(
            "[]ReplicaInfo", "1+", default=[]
        )

    class TopicData(Struct):
        """Partitions of one topic."""

        topic_name: str = wire("string", default="")
        partitions: list[EndQuorumEpochRequest.PartitionData] = wire("[]PartitionData", default=[])

    class LeaderEndpoint(Struct):
        """Where a listener of the leader is reached."""

        name: str = wire("string", "1+", default="")
        host: str = wire("string", "1+", default="")
        port: int = wire("uint16", "1+", default=0)

    cluster_id: str | None = wire("string", nullable="0+", default=None)
    topics: list[EndQuorumEpochRequest.TopicData] = wire("[]TopicData", default=[])
    leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint] = wire(
        "[]LeaderEndpoint", "1+", default=[]
    )


@message(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochResponse(Message):
    """Whether the voter has taken note."""

    class PartitionData(Struct):
        """The answer for one partition."""

        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        leader_id: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)

    class TopicData(Struct):
        """The answers for one topic."""

        topic_name: str = wire("string", default="")
        partitions: list[EndQuorumEpochResponse.PartitionData] = wire("[]PartitionData", default=[])

    class NodeEndpoint(Struct):
        """Address of a leader named in the answer."""

        node_id: int = wire("int32", "1+", default=0)
        host: str = wire("string", "1+", default="")
        port: int = wire("uint16", "1+", default=0)

    error_code: int = wire("int16", default=0)
    topics: list[EndQuorumEpochResponse.TopicData] = wire("[]TopicData", default=[])
    node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint] = wire(
        "[]NodeEndpoint", "1+", tag=0, default=[]
    )
