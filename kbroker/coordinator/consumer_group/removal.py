"""The end of members of a consumer group: those who leave, are fenced, or were not heard of.

Pure. The group gets a new epoch, and the next heartbeat of whoever is left a target without them.
If only members of the classic protocol are left, the group becomes one of that protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from kbroker.coordinator.consumer_group.changes import removal_of_member
from kbroker.coordinator.consumer_group.consumer_group import counted
from kbroker.coordinator.consumer_group.member import Member
from kbroker.coordinator.consumer_group.record_values import GroupMetadata, RecordKind
from kbroker.coordinator.consumer_group.step import ConsumerStep, Downgrade


def remove_members(step: ConsumerStep, members: Sequence[Member]) -> None:
    """Take members out, with the patterns that nobody else subscribes to."""
    group = step.group
    leaving = frozenset(member.member_id for member in members)
    if may_become_classic(step, leaving, len(group.members) - len(leaving)):
        step.downgrade = Downgrade(leaving)
        return
    for member in members:
        step.changes += removal_of_member(member.member_id)
    patterns = Counter(member.pattern for member in members if member.pattern)
    ended = [
        pattern for pattern, count in patterns.items() if group.pattern_counts.get(pattern) == count
    ]
    for pattern in ended:
        step.change(RecordKind.REGULAR_EXPRESSION, None, pattern)
    metadata_hash = step.given.topics.metadata_hash(_topics_without(step, members, ended))
    step.change(RecordKind.GROUP_METADATA, GroupMetadata(group.epoch + 1, metadata_hash))


def may_become_classic(step: ConsumerStep, without: Collection[str], size: int) -> bool:
    """Whether the group may change to the classic protocol, once it is of that size: all members
    but those `without` speak it.
    """
    given, classic = step.given, []
    if not given.migration.may_downgrade or not 0 < size <= given.classic.group_max_size:
        return False
    for member_id, member in step.group.members.items():
        if member_id not in without:
            if not member.is_classic:
                return False
            classic.append(member)
    protocols = [{name for name, _ in each.classic_protocols} for each in classic]
    return not protocols or bool(set.intersection(*protocols))


def _topics_without(
    step: ConsumerStep, members: Sequence[Member], ended: Sequence[str]
) -> set[str]:
    """The topics that those who stay subscribe to."""
    group = step.group
    names = [(topic, -1) for each in members for topic in each.metadata.subscribed_topic_names]
    resolved = [group.resolved[pattern] for pattern in ended if pattern in group.resolved]
    by_pattern = [(topic, -1) for each in resolved for topic in each.topics]
    return {
        *counted(group.topic_counts, *names),
        *counted(group.pattern_topics, *by_pattern),
    }
