"""AssignReplicasToDirs: a broker tells the metadata quorum where its replicas live (KIP-858).

v0: flexible.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsRequest(Message):
    """The directories and their replicas."""

    class PartitionData(Struct):
        """One partition."""

        partition_index: int = wire("int32", default=0)

    class TopicData(Struct):
        """Partitions of one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[AssignReplicasToDirsRequest.PartitionData] = wire(
            "[]PartitionData", default=[]
        )

    class DirectoryData(Struct):
        """The replicas in one directory."""

        id: UUID = wire("uuid", default=ZERO_UUID)
        topics: list[AssignReplicasToDirsRequest.TopicData] = wire("[]TopicData", default=[])

    broker_id: int = wire("int32", default=0)
    broker_epoch: int = wire("int64", default=-1)
    directories: list[AssignReplicasToDirsRequest.DirectoryData] = wire(
        "[]DirectoryData", default=[]
    )


@message(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsResponse(Message):
    """The result for each replica."""

    class PartitionData(Struct):
        """The answer for one partition."""

        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)

    class TopicData(Struct):
        """The answers for one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[AssignReplicasToDirsResponse.PartitionData] = wire(
            "[]PartitionData", default=[]
        )

    class DirectoryData(Struct):
        """The answers for one directory."""

        id: UUID = wire("uuid", default=ZERO_UUID)
        topics: list[AssignReplicasToDirsResponse.TopicData] = wire("[]TopicData", default=[])

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    directories: list[AssignReplicasToDirsResponse.DirectoryData] = wire(
        "[]DirectoryData", default=[]
    )
