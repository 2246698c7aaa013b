"""ShareFetch: read records for a share group (KIP-932, KIP-1206, KIP-1222).

v1: flexible. The first stable version.
v2: request gains share_acquire_mode, is_renew_ack.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.request import Piece
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=78, versions="1-2", flexible="0+")
class ShareFetchRequest(Message):
    """The partitions to read, and acknowledgements of earlier records."""

    class AcknowledgementBatch(Struct):
        """The state of a range of offsets: 0 gap, 1 accept, 2 release, 3 reject, 4 renew."""

        first_offset: int = wire("int64", default=0)
        last_offset: int = wire("int64", default=0)
        acknowledge_types: list[int] = wire("[]int8", default=[])

    class FetchPartition(Struct):
        partition_index: int = wire("int32", default=0)
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = wire(
            "[]AcknowledgementBatch", default=[]
        )

    class FetchTopic(Struct):
        """Partitions of one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[ShareFetchRequest.FetchPartition] = wire("[]FetchPartition", default=[])

    class ForgottenTopic(Struct):
        """Partitions that leave the share session."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[int] = wire("[]int32", default=[])

    group_id: str | None = wire("string", nullable="0+", default=None)
    member_id: str | None = wire("string", nullable="0+", default="")
    share_session_epoch: int = wire("int32", default=0)
    max_wait_ms: int = wire("int32", default=0)
    min_bytes: int = wire("int32", default=0)
    max_bytes: int = wire("int32", default=2147483647)
    max_records: int = wire("int32", "1+", default=0)
    batch_size: int = wire("int32", "1+", default=0)
    share_acquire_mode: int = wire("int8", "2+", default=0)
    is_renew_ack: bool = wire("bool", "2+", default=False)
    topics: list[ShareFetchRequest.FetchTopic] = wire("[]FetchTopic", default=[])
    forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = wire(
        "[]ForgottenTopic", default=[]
    )


@message(key=78, versions="1-2", flexible="0+")
class ShareFetchResponse(Message):
    """The records, and which of them are the member's for a time."""

    class LeaderIdAndEpoch(Struct):
        """The current leader of the partition."""

        leader_id: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)

    class AcquiredRecords(Struct):
        """A range of offsets that the member holds, and how often it was delivered."""

        first_offset: int = wire("int64", default=0)
        last_offset: int = wire("int64", default=0)
        delivery_count: int = wire("int16", default=0)

    class PartitionData(Struct):
        """The answer for one partition."""

        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)
        acknowledge_error_code: int = wire("int16", default=0)
        acknowledge_error_message: str | None = wire("string", nullable="0+", default=None)
        current_leader: ShareFetchResponse.LeaderIdAndEpoch = wire("LeaderIdAndEpoch", default=...)
        records: Piece = wire("records", default=b"")
        acquired_records: list[ShareFetchResponse.AcquiredRecords] = wire(
            "[]AcquiredRecords", default=[]
        )

    class ShareFetchableTopicResponse(Struct):
        """The answers for one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[ShareFetchResponse.PartitionData] = wire("[]PartitionData", default=[])

    class NodeEndpoint(Struct):
        """Address of a leader named in current_leader."""

        node_id: int = wire("int32", default=0)
        host: str = wire("string", default="")
        port: int = wire("int32", default=0)
        rack: str | None = wire("string", nullable="0+", default=None)

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = wire("int32", "1+", default=0)
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = wire(
        "[]ShareFetchableTopicResponse", default=[]
    )
    node_endpoints: list[ShareFetchResponse.NodeEndpoint] = wire("[]NodeEndpoint", default=[])
