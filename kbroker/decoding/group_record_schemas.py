"""The layouts of all records of groups that are neither classic ones nor offsets, by kind. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kbroker.coordinator.consumer_group.record_reading import SCHEMAS as OF_CONSUMER_GROUPS
from kbroker.coordinator.group.unserved_records import KINDS
from kbroker.decoding.share_group_records import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataValue,
)
from kbroker.decoding.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyValue,
)
from kbroker.protocol.schema import Message, message, wire


@message(key=None, versions="0")
class OfGroup(Message):
    """A key that names a group."""

    group_id: str = wire("string", default="")


@message(key=None, versions="0")
class OfMember(Message):
    """A key that names a member of a group."""

    group_id: str = wire("string", default="")
    member_id: str = wire("string", default="")


class RecordSchema(NamedTuple):
    """A kind of record: Kafka's name of it, and what its key and value are."""

    name: str
    key: type[Message]
    value: type[Message] | None  # None: not known


_OTHERS: dict[int, tuple[type[Message], type[Message] | None]] = {
    9: (OfGroup, None),
    10: (OfMember, ShareGroupMemberMetadataValue),
    11: (OfGroup, ShareGroupMetadataValue),
    12: (OfGroup, ShareGroupTargetAssignmentMetadataValue),
    13: (OfMember, ShareGroupTargetAssignmentMemberValue),
    14: (OfMember, ShareGroupCurrentMemberAssignmentValue),
    15: (OfGroup, ShareGroupStatePartitionMetadataValue),
    17: (OfGroup, StreamsGroupMetadataValue),
    18: (OfGroup, None),
    19: (OfMember, StreamsGroupMemberMetadataValue),
    20: (OfGroup, StreamsGroupTargetAssignmentMetadataValue),
    21: (OfMember, StreamsGroupTargetAssignmentMemberValue),
    22: (OfMember, StreamsGroupCurrentMemberAssignmentValue),
    23: (OfGroup, StreamsGroupTopologyValue),
}

SCHEMAS: dict[int, RecordSchema] = {
    **{
        int(kind): RecordSchema(key.__name__.removesuffix("Key"), key, value)
        for kind, (key, value) in OF_CONSUMER_GROUPS.items()
    },
    **{kind: RecordSchema(KINDS[kind], *layout) for kind, layout in _OTHERS.items()},
}
"""By the first two bytes of a key."""
