"""Metadata: the brokers, the controller, and who leads the partitions of which topics (KIP-4,
KIP-516).

v1: request may have null topics; response gains rack, controller_id, is_internal.
v2: response gains cluster_id.
v3: response gains throttle_time_ms.
v4: request gains allow_auto_topic_creation.
v5: response gains offline_replicas.
v6: Same bytes as v5.
v7: response gains leader_epoch.
v8: request gains include_cluster_authorized_operations, include_topic_authorized_operations;
    response gains topic_authorized_operations, cluster_authorized_operations.
v9: flexible.
v10: request gains topic_id; request may have null name; response gains topic_id.
v11: request drops include_cluster_authorized_operations; response drops
    cluster_authorized_operations. No bits about the cluster any more (see DescribeCluster).
v12: response may have null name. Topics by id.
v13: response gains error_code.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=3, versions="0-13", flexible="9+")
class MetadataRequest(Message):
    """The topics asked for: null means all (in v0 an empty list does)."""

    class MetadataRequestTopic(Struct):
        """A topic by name, or by id with a null name."""

        topic_id: UUID = wire("uuid", "10+", default=ZERO_UUID)
        name: str | None = wire("string", nullable="10+", default="")

    topics: list[MetadataRequest.MetadataRequestTopic] | None = wire(
        "[]MetadataRequestTopic", nullable="1+", default=[]
    )
    allow_auto_topic_creation: bool = wire("bool", "4+", default=True)
    include_cluster_authorized_operations: bool = wire("bool", "8-10", default=False)
    include_topic_authorized_operations: bool = wire("bool", "8+", default=False)


@message(key=3, versions="0-13", flexible="9+")
class MetadataResponse(Message):
    class MetadataResponseBroker(Struct):
        """A broker and its address on the listener that was asked."""

        node_id: int = wire("int32", default=0)
        host: str = wire("string", default="")
        port: int = wire("int32", default=0)
        rack: str | None = wire("string", "1+", nullable="1+", default=None)

    class MetadataResponsePartition(Struct):
        error_code: int = wire("int16", default=0)
        partition_index: int = wire("int32", default=0)
        leader_id: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", "7+", default=-1)
        replica_nodes: list[int] = wire("[]int32", default=[])
        isr_nodes: list[int] = wire("[]int32", default=[])
        offline_replicas: list[int] = wire("[]int32", "5+", default=[])

    class MetadataResponseTopic(Struct):
        error_code: int = wire("int16", default=0)
        name: str | None = wire("string", nullable="12+", default="")
        topic_id: UUID = wire("uuid", "10+", default=ZERO_UUID)
        is_internal: bool = wire("bool", "1+", default=False)
        partitions: list[MetadataResponse.MetadataResponsePartition] = wire(
            "[]MetadataResponsePartition", default=[]
        )
        topic_authorized_operations: int = wire("int32", "8+", default=-2147483648)

    throttle_time_ms: int = wire("int32", "3+", default=0)
    brokers: list[MetadataResponse.MetadataResponseBroker] = wire(
        "[]MetadataResponseBroker", default=[]
    )
    cluster_id: str | None = wire("string", "2+", nullable="2+", default=None)
    controller_id: int = wire("int32", "1+", default=-1)
    topics: list[MetadataResponse.MetadataResponseTopic] = wire(
        "[]MetadataResponseTopic", default=[]
    )
    cluster_authorized_operations: int = wire("int32", "8-10", default=-2147483648)
    error_code: int = wire("int16", "13+", default=0)
