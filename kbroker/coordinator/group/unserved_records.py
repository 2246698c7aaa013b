"""The kinds of records of groups that kbroker keeps as they are: those of share groups (KIP-932)
and of streams groups (KIP-1071). Pure.

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


def not_taken(key: bytes) -> ProtocolError:
    """Why a group cannot make anything of a record: it is kept, or nobody knows its kind."""
    kind = version_of(key)
    if kind in KINDS:
        return KeptRecordError(KINDS[kind])
    return ProtocolError("a kind of record other than offsets and classic groups")
