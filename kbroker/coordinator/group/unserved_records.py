"""The kinds of records of groups that kbroker keeps as they are: those of share groups (KIP-932)
and of streams groups (KIP-1071), and those of consumer groups (KIP-848) as long as it serves none.
Pure.

The log has them after a directory of Kafka 4 was taken over. Their keys name them, the cleaner
keeps the newest of each key as of any other, and a broker of Kafka 4 finds them again.
"""

from __future__ import annotations

from kbroker.coordinator.runtime.versioned_record import KeptRecordError, version_of
from kbroker.errors import ProtocolError

KINDS = {
    9: "ShareGroupPartitionMetadata",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    17: "StreamsGroupMetadata",
    18: "StreamsGroupPartitionMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}
"""Kafka's names, by the first two bytes of a key; 9 and 18 were written before Kafka 4.1."""

OF_CONSUMER_GROUPS = {
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    16: "ConsumerGroupRegularExpression",
}
"""Those of consumer groups, which are known here without what reads them."""


def is_of_consumer_group(key: bytes) -> bool:
    """Whether a record belongs to a consumer group. ProtocolError for bytes that are no key."""
    return version_of(key) in OF_CONSUMER_GROUPS


def not_taken(key: bytes) -> ProtocolError:
    """Why a group cannot make anything of a record: it is kept, or nobody knows its kind."""
    kind = version_of(key)
    name = KINDS.get(kind) or OF_CONSUMER_GROUPS.get(kind)
    if name is not None:
        return KeptRecordError(name)
    return ProtocolError(f"of a kind that nobody knows, {kind}")
