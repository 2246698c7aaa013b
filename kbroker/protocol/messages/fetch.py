"""Fetch: read record batches, as a consumer or as a follower (KIP-74, KIP-227, KIP-320, KIP-392,
KIP-516).

v0: Record data in formats 0 and 1 up to v3.
v1: response gains throttle_time_ms.
v2: Same bytes as v1.
v3: request gains max_bytes.
v4: request gains isolation_level; response gains last_stable_offset, aborted_transactions. Record
    data in format 2; transactions and read_committed.
v5: request gains log_start_offset; response gains log_start_offset.
v6: Same bytes as v5.
v7: request gains session_id, session_epoch, forgotten_topics_data; response gains error_code,
    session_id. Fetch sessions (KIP-227).
v8: Same bytes as v7.
v9: request gains current_leader_epoch.
v10: Same bytes as v9; zstd is allowed.
v11: request gains rack_id; response gains preferred_read_replica. Reads from followers (KIP-392).
v12: request gains cluster_id, last_fetched_epoch; response gains diverging_epoch, current_leader,
    snapshot_id; flexible.
v13: request gains topic_id; request drops topic; response gains topic_id; response drops topic.
    Topics go by id.
v14: Same bytes as v13.
v15: request gains replica_state; request drops replica_id.
v16: response gains node_endpoints. Same bytes, but for the tagged field.
v17: request gains replica_directory_id.
v18: request gains high_watermark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.request import Piece
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=1, versions="0-18", flexible="12+")
class FetchRequest(Message):
    """The partitions to read, from which offsets, and how long to wait."""

    class ReplicaState(Struct):
        """The follower that asks, with the epoch of its registration."""

        replica_id: int = wire("int32", "15+", default=-1)
        replica_epoch: int = wire("int64", "15+", default=-1)

    class FetchPartition(Struct):
        partition: int = wire("int32", default=0, varies=True)
        current_leader_epoch: int = wire("int32", "9+", default=-1, varies=True)
        fetch_offset: int = wire("int64", default=0, varies=True)
        last_fetched_epoch: int = wire("int32", "12+", default=-1, varies=True)
        log_start_offset: int = wire("int64", "5+", default=-1)
        partition_max_bytes: int = wire("int32", default=0)
        replica_directory_id: UUID = wire("uuid", "17+", tag=0, default=ZERO_UUID)
        high_watermark: int = wire("int64", "18+", tag=1, default=9223372036854775807)

    class FetchTopic(Struct):
        topic: str = wire("string", "0-12", default="")
        topic_id: UUID = wire("uuid", "13+", default=ZERO_UUID)
        partitions: list[FetchRequest.FetchPartition] = wire("[]FetchPartition", default=[])

    class ForgottenTopic(Struct):
        """Partitions that leave the fetch session."""

        topic: str = wire("string", "7-12", default="")
        topic_id: UUID = wire("uuid", "13+", default=ZERO_UUID)
        partitions: list[int] = wire("[]int32", "7+", default=[])

    error_values: ClassVar[Mapping[str, Any]] = {"high_watermark": -1}

    cluster_id: str | None = wire("string", "12+", nullable="12+", tag=0, default=None)
    replica_id: int = wire("int32", "0-14", default=-1)
    replica_state: FetchRequest.ReplicaState = wire("ReplicaState", "15+", tag=1, default=...)
    max_wait_ms: int = wire("int32", default=0)
    min_bytes: int = wire("int32", default=0)
    max_bytes: int = wire("int32", "3+", default=2147483647)
    isolation_level: int = wire("int8", "4+", default=0)
    session_id: int = wire("int32", "7+", default=0)
    session_epoch: int = wire("int32", "7+", default=-1, varies=True)
    topics: list[FetchRequest.FetchTopic] = wire("[]FetchTopic", default=[])
    forgotten_topics_data: list[FetchRequest.ForgottenTopic] = wire(
        "[]ForgottenTopic", "7+", default=[]
    )
    rack_id: str = wire("string", "11+", default="")


@message(key=1, versions="0-18", flexible="12+")
class FetchResponse(Message):
    class EpochEndOffset(Struct):
        """The point up to which the asker's log is ours: the largest common epoch and its end."""

        epoch: int = wire("int32", "12+", default=-1)
        end_offset: int = wire("int64", "12+", default=-1)

    class LeaderIdAndEpoch(Struct):
        leader_id: int = wire("int32", "12+", default=-1)
        leader_epoch: int = wire("int32", "12+", default=-1)

    class SnapshotId(Struct):
        """The snapshot to fetch first (metadata quorum only)."""

        end_offset: int = wire("int64", default=-1)
        epoch: int = wire("int32", default=-1)

    class AbortedTransaction(Struct):
        producer_id: int = wire("int64", "4+", default=0)
        first_offset: int = wire("int64", "4+", default=0)

    class PartitionData(Struct):
        partition_index: int = wire("int32", default=0, varies=True)
        error_code: int = wire("int16", default=0)
        high_watermark: int = wire("int64", default=0, varies=True)
        last_stable_offset: int = wire("int64", "4+", default=-1, varies=True)
        log_start_offset: int = wire("int64", "5+", default=-1, varies=True)
        diverging_epoch: FetchResponse.EpochEndOffset = wire(
            "EpochEndOffset", "12+", tag=0, default=...
        )
        current_leader: FetchResponse.LeaderIdAndEpoch = wire(
            "LeaderIdAndEpoch", "12+", tag=1, default=...
        )
        snapshot_id: FetchResponse.SnapshotId = wire("SnapshotId", "12+", tag=2, default=...)
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None = wire(
            "[]AbortedTransaction", "4+", nullable="4+", default=[]
        )
        preferred_read_replica: int = wire("int32", "11+", default=-1)
        records: Piece | None = wire("records", nullable="0+", default=None, varies=True)

    class FetchableTopicResponse(Struct):
        topic: str = wire("string", "0-12", default="")
        topic_id: UUID = wire("uuid", "13+", default=ZERO_UUID)
        partitions: list[FetchResponse.PartitionData] = wire("[]PartitionData", default=[])

    class NodeEndpoint(Struct):
        """Address of a leader named in current_leader."""

        node_id: int = wire("int32", "16+", default=0)
        host: str = wire("string", "16+", default="")
        port: int = wire("int32", "16+", default=0)
        rack: str | None = wire("string", "16+", nullable="16+", default=None)

    throttle_time_ms: int = wire("int32", "1+", default=0)
    error_code: int = wire("int16", "7+", default=0)
    session_id: int = wire("int32", "7+", default=0)
    responses: list[FetchResponse.FetchableTopicResponse] = wire(
        "[]FetchableTopicResponse", default=[]
    )
    node_endpoints: list[FetchResponse.NodeEndpoint] = wire(
        "[]NodeEndpoint", "16+", tag=0, default=[]
    )
