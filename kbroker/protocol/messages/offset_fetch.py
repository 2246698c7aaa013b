"""OffsetFetch: the offsets that consumer groups have stored (KIP-447, KIP-709, KIP-848).

v0: Offsets come from ZooKeeper.
v1: Offsets come from the coordinator.
v2: request may have null topics; response gains error_code.
v3: response gains throttle_time_ms.
v4: Same bytes as v3.
v5: response gains committed_leader_epoch.
v6: flexible.
v7: request gains require_stable.
v8: request gains groups; request drops group_id, topics; response gains groups; response drops
    topics, error_code.
v9: request gains member_id, member_epoch.
v10: request gains topic_id; request drops name; response gains topic_id; response drops name.
    Topics go by id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=9, versions="0-10", flexible="6+")
class OffsetFetchRequest(Message):
    """The groups and topics asked for; null topics mean all."""

    class OffsetFetchRequestTopic(Struct):
        """Partitions of one topic, up to v7."""

        name: str = wire("string", "0-7", default="")
        partition_indexes: list[int] = wire("[]int32", "0-7", default=[])

    class OffsetFetchRequestTopics(Struct):
        """Partitions of one topic, from v8 on."""

        name: str = wire("string", "8-9", default="")
        topic_id: UUID = wire("uuid", "10+", default=ZERO_UUID)
        partition_indexes: list[int] = wire("[]int32", "8+", default=[])

    class OffsetFetchRequestGroup(Struct):
        group_id: str = wire("string", "8+", default="")
        member_id: str | None = wire("string", "9+", nullable="9+", default=None)
        member_epoch: int = wire("int32", "9+", default=-1)
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = wire(
            "[]OffsetFetchRequestTopics", "8+", nullable="8+", default=[]
        )

    error_values: ClassVar[Mapping[str, Any]] = {"committed_offset": -1}

    group_id: str = wire("string", "0-7", default="")
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = wire(
        "[]OffsetFetchRequestTopic", "0-7", nullable="2-7", default=[]
    )
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = wire(
        "[]OffsetFetchRequestGroup", "8+", default=[]
    )
    require_stable: bool = wire("bool", "7+", default=False)


@message(key=9, versions="0-10", flexible="6+")
class OffsetFetchResponse(Message):
    """The stored offsets; -1 if there is none."""

    class OffsetFetchResponsePartition(Struct):
        """The offset of one partition, up to v7."""

        partition_index: int = wire("int32", "0-7", default=0)
        committed_offset: int = wire("int64", "0-7", default=0)
        committed_leader_epoch: int = wire("int32", "5-7", default=-1)
        metadata: str | None = wire("string", "0-7", nullable="0-7", default="")
        error_code: int = wire("int16", "0-7", default=0)

    class OffsetFetchResponseTopic(Struct):
        """Offsets of one topic, up to v7."""

        name: str = wire("string", "0-7", default="")
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = wire(
            "[]OffsetFetchResponsePartition", "0-7", default=[]
        )

    class OffsetFetchResponsePartitions(Struct):
        """The offset of one partition, from v8 on."""

        partition_index: int = wire("int32", "8+", default=0)
        committed_offset: int = wire("int64", "8+", default=0)
        committed_leader_epoch: int = wire("int32", "8+", default=-1)
        metadata: str | None = wire("string", "8+", nullable="8+", default="")
        error_code: int = wire("int16", "8+", default=0)

    class OffsetFetchResponseTopics(Struct):
        """Offsets of one topic, from v8 on."""

        name: str = wire("string", "8-9", default="")
        topic_id: UUID = wire("uuid", "10+", default=ZERO_UUID)
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = wire(
            "[]OffsetFetchResponsePartitions", "8+", default=[]
        )

    class OffsetFetchResponseGroup(Struct):
        group_id: str = wire("string", "8+", default="")
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = wire(
            "[]OffsetFetchResponseTopics", "8+", default=[]
        )
        error_code: int = wire("int16", "8+", default=0)

    throttle_time_ms: int = wire("int32", "3+", default=0)
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = wire(
        "[]OffsetFetchResponseTopic", "0-7", default=[]
    )
    error_code: int = wire("int16", "2-7", default=0)
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = wire(
        "[]OffsetFetchResponseGroup", "8+", default=[]
    )
