"""Equal shares for members who all read the same topics.

Pure. Law: shares differ by one partition at most. Within that a member keeps what it has, and what
moves goes to members with too little, in their order; those who have more already keep the larger
shares. Where all are equal, tables of Java decide, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple
from uuid import UUID

from kbroker.coordinator.consumer_group.assignors.assignor import (
    Assignment,
    AssignorError,
    GroupSpec,
    Topics,
)
from kbroker.coordinator.consumer_group.assignors.previous_owners import (
    Held,
    previous_assignments,
)
from kbroker.java_hash import copied_set_order, hash_map_order, uuid_hash
from kbroker.wording import uuid_text

Place = tuple[UUID, int]  # a partition of a topic

_NUMBER: Final = attrgetter("int")  # orders ids as they do, and faster


class _Kept(NamedTuple):
    """The part of its assignment that a member keeps."""

    assignment: Assignment
    room: int  # for so many more, up to the share that it was measured by


def assign_equally(spec: GroupSpec, topics: Topics) -> dict[str, Assignment]:
    """The new targets of a group with members. Raises AssignorError."""
    topic_ids = next(iter(spec.members.values())).topic_ids
    in_order = copied_set_order(sorted(topic_ids, key=_NUMBER), uuid_hash)
    for topic_id in in_order:
        if topics.partition_count(topic_id) < 0:
            raise unknown_topic(topic_id)
    previous, held = previous_assignments(spec.members, topics)
    moving = list(_free(in_order, held, topics))
    all_kept = _kept_of_all(previous, topic_ids, _total(topic_ids, topics), moving)
    left = iter(moving)
    return {
        member_id: _filled(kept.assignment, list(islice(left, kept.room)))
        for member_id, kept in zip(spec.members, all_kept, strict=True)
    }


def unknown_topic(topic_id: UUID) -> AssignorError:
    """An error about a topic of which nothing is known; such a topic is not subscribed to."""
    return AssignorError(
        f"Members are subscribed to topic {uuid_text(topic_id)} which doesn't exist in the topic"
        " metadata."
    )


def _total(topic_ids: Collection[UUID], topics: Topics) -> int:
    return sum(map(topics.partition_count, topic_ids))


def _free(in_order: list[UUID], held: Held, topics: Topics) -> Iterator[Place]:
    for topic_id in in_order:
        owned = held.get(topic_id, set())
        for partition in range(topics.partition_count(topic_id)):
            if partition not in owned:
                yield topic_id, partition


def _kept_of_all(
    previous: list[Assignment], topic_ids: frozenset[UUID], total: int, moving: list[Place]
) -> list[_Kept]:
    """Leave members their shares; partitions beyond them go to the end of `moving`."""
    share, larger = divmod(total, len(previous))
    found = []
    for members_left, assignment in zip(range(len(previous), 0, -1), previous, strict=True):
        has_larger = larger > 0
        kept, room = _kept(assignment, topic_ids, share + has_larger, moving)
        if has_larger and room and members_left > larger:
            # Perhaps one of those who follow has that many: it would lose a partition for nothing.
            room -= 1
            has_larger = False
        larger -= has_larger
        found.append(_Kept(kept, room))
    return found


def _kept(
    assignment: Assignment, topic_ids: frozenset[UUID], room: int, moving: list[Place]
) -> _Kept:
    if topic_ids.issuperset(assignment):
        size = sum(map(len, assignment.values()))
        if size <= room:
            return _Kept(assignment, room - size)
    kept = {}
    for topic_id in hash_map_order(sorted(assignment, key=_NUMBER), 16, uuid_hash):
        if topic_id not in topic_ids:
            continue
        partitions = assignment[topic_id]
        if len(partitions) > room:
            in_order = copied_set_order(sorted(partitions), int)
            moving += ((topic_id, partition) for partition in in_order[room:])
            partitions = frozenset(in_order[:room])
        room -= len(partitions)
        if partitions:
            kept[topic_id] = partitions
    return _Kept(kept, room)


def _filled(assignment: Assignment, more: list[Place]) -> Assignment:
    if not more:
        return assignment
    by_topic: dict[UUID, set[int]] = {}
    for topic_id, partition in more:
        by_topic.setdefault(topic_id, set()).add(partition)
    added = {
        topic_id: assignment.get(topic_id, frozenset()) | partitions
        for topic_id, partitions in by_topic.items()
    }
    return {**assignment, **added}
