"""ShareGroupDescribe: share groups (KIP-932).

v1: flexible. The first stable version.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=77, versions="1", flexible="0+")
class ShareGroupDescribeRequest(Message):
    """The groups asked about."""

    group_ids: list[str] = wire("[]string", default=[])
    include_authorized_operations: bool = wire("bool", default=False)


@message(key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse(Message):
    class TopicPartitions(Struct):
        """Partitions of one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        topic_name: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    class Assignment(Struct):
        """The partitions that a member reads."""

        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = wire(
            "[]TopicPartitions", default=[]
        )

    class Member(Struct):
        member_id: str = wire("string", default="")
        rack_id: str | None = wire("string", nullable="0+", default=None)
        member_epoch: int = wire("int32", default=0)
        client_id: str = wire("string", default="")
        client_host: str = wire("string", default="")
        subscribed_topic_names: list[str] = wire("[]string", default=[])
        assignment: ShareGroupDescribeResponse.Assignment = wire("Assignment", default=...)

    class DescribedGroup(Struct):
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)
        group_id: str = wire("string", default="")
        group_state: str = wire("string", default="")
        group_epoch: int = wire("int32", default=0)
        assignment_epoch: int = wire("int32", default=0)
        assignor_name: str = wire("string", default="")
        members: list[ShareGroupDescribeResponse.Member] = wire("[]Member", default=[])
        authorized_operations: int = wire("int32", default=-2147483648)

    throttle_time_ms: int = wire("int32", default=0)
    groups: list[ShareGroupDescribeResponse.DescribedGroup] = wire("[]DescribedGroup", default=[])
