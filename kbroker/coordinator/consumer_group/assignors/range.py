"""range: a run of partitions of each topic for each member.

Pure. Members stand in the same order for all topics, so that of topics with as many partitions,
read by all, a member gets the same numbers: it can join them. The order is that of instance ids,
then of member ids: static members come first and keep theirs when they come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Final
from uuid import UUID

from kbroker.coordinator.consumer_group.assignors.assignor import (
    Assignment,
    AssignorError,
    GroupSpec,
    MemberSpec,
    Topics,
)
from kbroker.coordinator.consumer_group.assignors.subscribers import subscribers_by_topic
from kbroker.java_hash import java_order


class RangeAssignor:
    """Runs of partitions, as Kafka's RangeAssignor deals them out."""

    name: Final = "range"
    setting: Final = None

    def assign(self, spec: GroupSpec, topics: Topics) -> dict[str, Assignment]:
        """Return the new target of each member. Raises AssignorError."""
        members = sorted(spec.members.items(), key=_order)
        found: list[dict[UUID, frozenset[int]]] = [{} for _ in members]
        for topic_id, places in subscribers_by_topic(spec for _, spec in members).items():
            count = topics.partition_count(topic_id)
            if count < 0:
                raise AssignorError("Member is subscribed to a non-existent topic")
            for place, partitions in zip(places, _runs(count, len(places)), strict=False):
                found[place][topic_id] = partitions
        return {member_id: its for (member_id, _), its in zip(members, found, strict=True)}


def _order(member: tuple[str, MemberSpec]) -> tuple[bool, bytes]:
    """Put static members first; ids are in the order that Java gives texts."""
    member_id, spec = member
    is_dynamic = spec.instance_id is None
    text = member_id if spec.instance_id is None else spec.instance_id
    return is_dynamic, java_order(text)


def _runs(count: int, readers: int) -> Iterator[frozenset[int]]:
    """Split the numbers below `count`; those who come too late for one get none."""
    size, larger = divmod(count, readers)
    start = 0
    for length in chain(repeat(size + 1, larger), repeat(size, readers - larger if size else 0)):
        yield frozenset(range(start, start + length))
        start += length
