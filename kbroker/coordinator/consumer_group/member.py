"""A member of a consumer group: what it said of itself, and how far it is on its way to its target.

Pure. Members are values: a change makes another one, which takes its place in the group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kbroker.coordinator.consumer_group.record_values import (
    ClassicProtocol,
    CurrentMemberAssignment,
    MemberMetadata,
    MemberState,
    PartitionEpochs,
    ResolvedRegularExpression,
)

JOINING = 0  # the epoch of who joins
LEFT = -1  # of who leaves, and of a member whose assignment is not in the log any more
AWAY = -2  # of a static member that has left for a while

NOTHING: PartitionEpochs = {}
_NEW_METADATA = MemberMetadata(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    subscribed_topic_names=frozenset(),
    subscribed_topic_regex="",
    rebalance_timeout_ms=-1,
    server_assignor=None,
)
_NEW_ASSIGNMENT = CurrentMemberAssignment(
    member_epoch=JOINING,
    previous_member_epoch=-1,
    state=MemberState.STABLE,
    assigned_partitions=NOTHING,
    partitions_pending_revocation=NOTHING,
)
NO_ASSIGNMENT = _NEW_ASSIGNMENT._replace(member_epoch=LEFT)

OwnedPartitions = Mapping[UUID, Collection[int]]
"""The partitions that a member says it has."""


class Member(NamedTuple):
    """A member under its id."""

    member_id: str
    metadata: MemberMetadata = _NEW_METADATA
    current: CurrentMemberAssignment = _NEW_ASSIGNMENT

    @property
    def epoch(self) -> int:
        return self.current.member_epoch

    @property
    def instance_id(self) -> str | None:
        return self.metadata.instance_id

    @property
    def assigned(self) -> PartitionEpochs:
        """The partitions it has, with the epoch in which it got each."""
        return self.current.assigned_partitions

    @property
    def revoking(self) -> PartitionEpochs:
        """The partitions that it has to give up."""
        return self.current.partitions_pending_revocation

    @property
    def pattern(self) -> str:
        """The pattern of topics that it subscribes to, empty for none."""
        return self.metadata.subscribed_topic_regex or ""

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.metadata.classic_member_metadata is not None

    @property
    def classic_protocols(self) -> Sequence[ClassicProtocol]:
        """The protocols that it supports if it speaks the classic protocol, its favourite first."""
        classic = self.metadata.classic_member_metadata
        return () if classic is None else classic.supported_protocols

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it has all of its target, and nothing else."""
        current = self.current
        return current.member_epoch == target_epoch and current.state is MemberState.STABLE

    def topic_names(self, resolved: Mapping[str, ResolvedRegularExpression]) -> frozenset[str]:
        """The topics it subscribes to, also those that do not exist. A pattern that is not resolved
        yet names none.
        """
        names = self.metadata.subscribed_topic_names
        pattern = self.pattern
        found = resolved.get(pattern) if pattern else None
        return names if found is None else names | found.topics

    def has(self, topic_id: UUID, partition: int) -> bool:
        """Whether it has a partition, or has not given it up yet."""
        return any(partition in had.get(topic_id, ()) for had in (self.assigned, self.revoking))

    def has_within(self, owned: OwnedPartitions | None) -> bool:
        """Whether all partitions that it says it has are its own; false if it does not say."""
        if owned is None:
            return False
        assigned = self.assigned
        return all(
            topic_id in assigned and all(each in assigned[topic_id] for each in partitions)
            for topic_id, partitions in owned.items()
        )


def each_partition(partitions: Mapping[UUID, Iterable[int]]) -> Iterable[tuple[UUID, int]]:
    return ((topic_id, each) for topic_id, numbers in partitions.items() for each in numbers)
