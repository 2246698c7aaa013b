"""The contents of the records of consumer groups, as values. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

Partitions = Mapping[UUID, Collection[int]]
"""Partitions by the id of their topic."""

PartitionEpochs = Mapping[UUID, Mapping[int, int]]
"""The epoch in which a member got each partition, by topic id and partition."""


class RecordKind(IntEnum):
    """The first two bytes of a key."""

    GROUP_METADATA = 3
    PARTITION_METADATA = 4
    MEMBER_METADATA = 5
    TARGET_ASSIGNMENT_METADATA = 6
    TARGET_ASSIGNMENT_MEMBER = 7
    CURRENT_MEMBER_ASSIGNMENT = 8
    REGULAR_EXPRESSION = 16


class MemberState(IntEnum):
    """How far a member is on its way to its target."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127  # whatever a later version writes


class RecordKey(NamedTuple):
    """The key of a record: its kind, and the group or member that it is about."""

    kind: RecordKind
    group_id: str
    name: str = ""  # the id of a member, or a pattern, if the kind is about one


class GroupMetadata(NamedTuple):
    """The epoch of a group, and the hash of the topics that it subscribes to."""

    epoch: int
    metadata_hash: int = 0


class ClassicProtocol(NamedTuple):
    """A protocol that a classic member supports, with its subscription."""

    name: str
    metadata: bytes


class ClassicMemberMetadata(NamedTuple):
    """The session and the protocols of a member that speaks the classic protocol."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


class MemberMetadata(NamedTuple):
    """The description of a member by itself."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: frozenset[str]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic_member_metadata: ClassicMemberMetadata | None = None


class TargetAssignmentMetadata(NamedTuple):
    """The epoch of a group that its target assignment is for, and when that was computed."""

    assignment_epoch: int
    assignment_timestamp_ms: int = 0


class CurrentMemberAssignment(NamedTuple):
    """The partitions that a member has, and those that it still has to give up."""

    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned_partitions: PartitionEpochs
    partitions_pending_revocation: PartitionEpochs


class ResolvedRegularExpression(NamedTuple):
    """The topics that a pattern names, by the metadata of a version, and when that was found."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int
