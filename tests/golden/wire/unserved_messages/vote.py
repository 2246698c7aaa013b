"""Vote: a candidate for the lead of the metadata quorum asks for votes (KIP-595, KIP-853, KIP-996).

v0: flexible.
v1: request gains voter_id, replica_directory_id, voter_directory_id; response gains node_endpoints.
v2: request gains pre_vote.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=52, versions="0-2", flexible="0+")
class VoteRequest(Message):
    """The candidate and the end of its log, by partition."""

    class PartitionData(Struct):
        """One partition's candidate; with pre_vote it asks whether it could win."""

        partition_index: int = wire("int32", default=0)
        replica_epoch: int = wire("int32", default=0)
        replica_id: int = wire("int32", default=0)
        replica_directory_id: UUID = wire("uuid", "1+", default=ZERO_UUID)
        voter_directory_id: UUID = wire("uuid", "1+", default=ZERO_UUID)
        last_offset_epoch: int = wire("int32", default=0)
        last_offset: int = wire("int64", default=0)
        pre_vote: bool = wire("bool", "2+", default=False)

    class TopicData(Struct):
        """Partitions of one topic."""

        topic_name: str = wire("string", default="")
        partitions: list[VoteRequest.PartitionData] = wire("[]PartitionData", default=[])

    cluster_id: str | None = wire("string", nullable="0+", default=None)
    voter_id: int = wire("int32", "1+", default=-1)
    topics: list[VoteRequest.TopicData] = wire("[]TopicData", default=[])


@message(key=52, versions="0-2", flexible="0+")
class VoteResponse(Message):
    """Votes given or refused."""

    class PartitionData(Struct):
        """The vote in one partition, and who leads it."""

        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        leader_id: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)
        vote_granted: bool = wire("bool", default=False)

    class TopicData(Struct):
        """The votes for one topic."""

        topic_name: str = wire("string", default="")
        partitions: list[VoteResponse.PartitionData] = wire("[]PartitionData", default=[])

    class NodeEndpoint(Struct):
        """Address of a leader named in the answer."""

        node_id: int = wire("int32", "1+", default=0)
        host: str = wire("string", "1+", default="")
        port: int = wire("uint16", "1+", default=0)

    error_code: int = wire("int16", default=0)
    topics: list[VoteResponse.TopicData] = wire("[]TopicData", default=[])
    node_endpoints: list[VoteResponse.NodeEndpoint] = wire(
        "[]NodeEndpoint", "1+", tag=0, default=[]
    )
