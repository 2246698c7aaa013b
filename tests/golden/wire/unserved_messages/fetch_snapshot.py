"""FetchSnapshot: read a snapshot of the metadata log (KIP-630, KIP-853).

v0: flexible.
v1: request gains replica_directory_id; response gains node_endpoints.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.request import Piece
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=59, versions="0-1", flexible="0+")
class FetchSnapshotRequest(Message):
    """Which snapshots, and from which byte on."""

    class SnapshotId(Struct):
        """A snapshot, by the offset and epoch at which it ends."""

        end_offset: int = wire("int64", default=0)
        epoch: int = wire("int32", default=0)

    class PartitionSnapshot(Struct):
        """The snapshot of one partition."""

        partition: int = wire("int32", default=0)
        current_leader_epoch: int = wire("int32", default=0)
        snapshot_id: FetchSnapshotRequest.SnapshotId = wire("SnapshotId", default=...)
        position: int = wire("int64", default=0)
        replica_directory_id: UUID = wire("uuid", "1+", tag=0, default=ZERO_UUID)

    class TopicSnapshot(Struct):
        """Snapshots of one topic."""

        name: str = wire("string", default="")
        partitions: list[FetchSnapshotRequest.PartitionSnapshot] = wire(
            "[]PartitionSnapshot", default=[]
        )

    cluster_id: str | None = wire("string", nullable="0+", tag=0, default=None)
    replica_id: int = wire("int32", default=-1)
    max_bytes: int = wire("int32", default=2147483647)
    topics: list[FetchSnapshotRequest.TopicSnapshot] = wire("[]TopicSnapshot", default=[])


@message(key=59, versions="0-1", flexible="0+")
class FetchSnapshotResponse(Message):
    """Parts of the snapshots."""

    class SnapshotId(Struct):
        """A snapshot, by the offset and epoch at which it ends."""

        end_offset: int = wire("int64", default=0)
        epoch: int = wire("int32", default=0)

    class LeaderIdAndEpoch(Struct):
        """Who leads the partition now."""

        leader_id: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)

    class PartitionSnapshot(Struct):
        """A part of one snapshot; it may end within a batch."""

        index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        snapshot_id: FetchSnapshotResponse.SnapshotId = wire("SnapshotId", default=...)
        current_leader: FetchSnapshotResponse.LeaderIdAndEpoch = wire(
            "LeaderIdAndEpoch", tag=0, default=...
        )
        size: int = wire("int64", default=0)
        position: int = wire("int64", default=0)
        unaligned_records: Piece = wire("records", default=b"")

    class TopicSnapshot(Struct):
        """Parts for one topic."""

        name: str = wire("string", default="")
        partitions: list[FetchSnapshotResponse.PartitionSnapshot] = wire(
            "[]PartitionSnapshot", default=[]
        )

    class NodeEndpoint(Struct):
        """Address of a leader named in current_leader."""

        node_id: int = wire("int32", "1+", default=0)
        host: str = wire("string", "1+", default="")
        port: int = wire("uint16", "1+", default=0)

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    topics: list[FetchSnapshotResponse.TopicSnapshot] = wire("[]TopicSnapshot", default=[])
    node_endpoints: list[FetchSnapshotResponse.NodeEndpoint] = wire(
        "[]NodeEndpoint", "1+", tag=0, default=[]
    )
