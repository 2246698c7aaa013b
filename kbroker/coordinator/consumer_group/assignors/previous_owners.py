"""Previous owners: members with their targets so far.

Pure. Law: nobody begins with a partition that its topic has not, or that another holds. Targets are
like that, unless their records were damaged. Topics that are gone are left to who asks: nobody
subscribes to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from kbroker.coordinator.consumer_group.assignors.assignor import Assignment, MemberSpec, Topics

Held = dict[UUID, set[int]]


def previous_assignments(
    members: Mapping[str, MemberSpec], topics: Topics
) -> tuple[list[Assignment], Held]:
    """Return the assignment of each member, in their order, and all of them by topic."""
    held: Held = {}
    return [_rightful(member.assigned, held, topics) for member in members.values()], held


def _rightful(assigned: Assignment, held: Held, topics: Topics) -> Assignment:
    rightful = {}
    is_sound = True
    for topic_id, partitions in assigned.items():
        others = held.setdefault(topic_id, set())
        count = topics.partition_count(topic_id)
        if count >= 0 and not (others.isdisjoint(partitions) and _exist(partitions, count)):
            is_sound = False
            partitions = frozenset(range(count)).intersection(partitions) - others
        others |= partitions
        if partitions:
            rightful[topic_id] = partitions
    return assigned if is_sound else rightful


def _exist(partitions: frozenset[int], count: int) -> bool:
    return not partitions or (min(partitions) >= 0 and max(partitions) < count)
