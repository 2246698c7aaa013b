"""Subscribers by topic.

Pure. Groups of many members have few different subscriptions: topics with the same subscribers
share one list, which is never changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from uuid import UUID

from kbroker.coordinator.consumer_group.assignors.assignor import MemberSpec


def subscribers_by_topic(members: Iterable[MemberSpec]) -> dict[UUID, list[int]]:
    """The places of those who subscribe to a topic, among `members`, in ascending order."""
    kinds: dict[frozenset[UUID], list[int]] = {}
    for place, member in enumerate(members):
        kinds.setdefault(member.topic_ids, []).append(place)
    kinds_of: dict[UUID, list[int]] = {}
    for kind, topic_ids in enumerate(kinds):
        for topic_id in topic_ids:
            kinds_of.setdefault(topic_id, []).append(kind)
    places = list(kinds.values())
    shared: dict[tuple[int, ...], list[int]] = {}
    found = {}
    for topic_id, its_kinds in kinds_of.items():
        known_by = tuple(its_kinds)
        if known_by not in shared:
            shared[known_by] = sorted(chain.from_iterable(places[kind] for kind in its_kinds))
        found[topic_id] = shared[known_by]
    return found
