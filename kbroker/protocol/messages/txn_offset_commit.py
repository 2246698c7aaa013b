"""TxnOffsetCommit: a producer commits offsets of a group within its transaction (KIP-98, KIP-447,
KIP-890, KIP-1319).

v1: Same bytes as v0.
v2: request gains committed_leader_epoch.
v3: request gains generation_id_or_member_epoch, member_id, group_instance_id; flexible.
v4: Same bytes as v3; the code TRANSACTION_ABORTABLE.
v5: Same bytes as v4. The group need not have been added to the transaction before.
v6: request gains topic_id; request drops name; response gains topic_id; response drops name. Topics
    go by id.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=28, versions="0-6", flexible="3+", served="0-5")
class TxnOffsetCommitRequest(Message):
    """The offsets; generation and member are checked if they are given."""

    class TxnOffsetCommitRequestPartition(Struct):
        partition_index: int = wire("int32", default=0)
        committed_offset: int = wire("int64", default=0)
        committed_leader_epoch: int = wire("int32", "2+", default=-1)
        committed_metadata: str | None = wire("string", nullable="0+", default="")

    class TxnOffsetCommitRequestTopic(Struct):
        name: str = wire("string", "0-5", default="")
        topic_id: UUID = wire("uuid", "6+", default=ZERO_UUID)
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = wire(
            "[]TxnOffsetCommitRequestPartition", default=[]
        )

    transactional_id: str = wire("string", default="")
    group_id: str = wire("string", default="")
    producer_id: int = wire("int64", default=0)
    producer_epoch: int = wire("int16", default=0)
    generation_id_or_member_epoch: int = wire("int32", "3+", default=-1)
    member_id: str = wire("string", "3+", default="")
    group_instance_id: str | None = wire("string", "3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = wire(
        "[]TxnOffsetCommitRequestTopic", default=[]
    )


@message(key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitResponse(Message):
    class TxnOffsetCommitResponsePartition(Struct):
        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)

    class TxnOffsetCommitResponseTopic(Struct):
        name: str = wire("string", "0-5", default="")
        topic_id: UUID = wire("uuid", "6+", default=ZERO_UUID)
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = wire(
            "[]TxnOffsetCommitResponsePartition", default=[]
        )

    throttle_time_ms: int = wire("int32", default=0)
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = wire(
        "[]TxnOffsetCommitResponseTopic", default=[]
    )
