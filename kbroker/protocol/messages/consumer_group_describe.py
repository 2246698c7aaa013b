"""ConsumerGroupDescribe: groups of the new consumer protocol (KIP-848, KIP-1099).

v0: flexible.
v1: response gains member_type.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest(Message):
    group_ids: list[str] = wire("[]string", default=[])
    include_authorized_operations: bool = wire("bool", default=False)


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse(Message):
    class TopicPartitions(Struct):
        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        topic_name: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    class Assignment(Struct):
        """Partitions that a member has or shall have."""

        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = wire(
            "[]TopicPartitions", default=[]
        )

    class Member(Struct):
        """One member; its type is 0 classic, 1 consumer, -1 unknown."""

        member_id: str = wire("string", default="")
        instance_id: str | None = wire("string", nullable="0+", default=None)
        rack_id: str | None = wire("string", nullable="0+", default=None)
        member_epoch: int = wire("int32", default=0)
        client_id: str = wire("string", default="")
        client_host: str = wire("string", default="")
        subscribed_topic_names: list[str] = wire("[]string", default=[])
        subscribed_topic_regex: str | None = wire("string", nullable="0+", default=None)
        assignment: ConsumerGroupDescribeResponse.Assignment = wire("Assignment", default=...)
        target_assignment: ConsumerGroupDescribeResponse.Assignment = wire(
            "Assignment", default=...
        )
        member_type: int = wire("int8", "1+", default=-1)

    class DescribedGroup(Struct):
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)
        group_id: str = wire("string", default="")
        group_state: str = wire("string", default="")
        group_epoch: int = wire("int32", default=0)
        assignment_epoch: int = wire("int32", default=0)
        assignor_name: str = wire("string", default="")
        members: list[ConsumerGroupDescribeResponse.Member] = wire("[]Member", default=[])
        authorized_operations: int = wire("int32", default=-2147483648)

    throttle_time_ms: int = wire("int32", default=0)
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = wire(
        "[]DescribedGroup", default=[]
    )
