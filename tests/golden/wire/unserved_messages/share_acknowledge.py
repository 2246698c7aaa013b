"""ShareAcknowledge: say what has been done with records of a share group (KIP-932, KIP-1222).

v1: flexible. The first stable version.
v2: request gains is_renew_ack; response gains acquisition_lock_timeout_ms.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest(Message):
    """The records and what was done with them."""

    class AcknowledgementBatch(Struct):
        """The state of a range of offsets: 0 gap, 1 accept, 2 release, 3 reject, 4 renew."""

        first_offset: int = wire("int64", default=0)
        last_offset: int = wire("int64", default=0)
        acknowledge_types: list[int] = wire("[]int8", default=[])

    class AcknowledgePartition(Struct):
        partition_index: int = wire("int32", default=0)
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = wire(
            "[]AcknowledgementBatch", default=[]
        )

    class AcknowledgeTopic(Struct):
        """Partitions of one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = wire(
            "[]AcknowledgePartition", default=[]
        )

    group_id: str | None = wire("string", nullable="0+", default=None)
    member_id: str | None = wire("string", nullable="0+", default="")
    share_session_epoch: int = wire("int32", default=0)
    is_renew_ack: bool = wire("bool", "2+", default=False)
    topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = wire("[]AcknowledgeTopic", default=[])


@message(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse(Message):
    """The result for each partition."""

    class LeaderIdAndEpoch(Struct):
        """The current leader of the partition."""

        leader_id: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)

    class PartitionData(Struct):
        """The answer for one partition."""

        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = wire(
            "LeaderIdAndEpoch", default=...
        )

    class ShareAcknowledgeTopicResponse(Struct):
        """The answers for one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[ShareAcknowledgeResponse.PartitionData] = wire(
            "[]PartitionData", default=[]
        )

    class NodeEndpoint(Struct):
        """Address of a leader named in current_leader."""

        node_id: int = wire("int32", default=0)
        host: str = wire("string", default="")
        port: int = wire("int32", default=0)
        rack: str | None = wire("string", nullable="0+", default=None)

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = wire("int32", "2+", default=0)
    responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = wire(
        "[]ShareAcknowledgeTopicResponse", default=[]
    )
    node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint] = wire("[]NodeEndpoint", default=[])
