"""Consumer groups as ConsumerGroupDescribe shows them.

Pure. Law: people see what is stored. A member has what it was given and what it has still to give
up; topics that do not exist any more are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from kbroker.coordinator.consumer_group.consumer_group import NO_PARTITIONS, ConsumerGroup
from kbroker.coordinator.consumer_group.member import Member
from kbroker.coordinator.consumer_group.record_values import Partitions
from kbroker.coordinator.consumer_group.step import KnownTopics
from kbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse

_CLASSIC, _CONSUMER = 0, 1  # types of members


def described(
    group: ConsumerGroup, topics: KnownTopics, default_assignor: str
) -> ConsumerGroupDescribeResponse.DescribedGroup:
    """Return a group with its members."""
    counts = {
        name: count
        for name in group.assignor_counts.stored_keys()
        if (count := group.assignor_counts.stored(name)) is not None
    }
    return ConsumerGroupDescribeResponse.DescribedGroup(
        group_id=group.group_id,
        group_state=group.stored_state.value,
        group_epoch=group.stored_metadata.epoch,
        assignment_epoch=group.stored_target_metadata.assignment_epoch,
        assignor_name=max(counts, key=lambda name: counts[name]) if counts else default_assignor,
        members=[_member(group, topics, member) for member in group.stored_members()],
    )


def _member(
    group: ConsumerGroup, topics: KnownTopics, member: Member
) -> ConsumerGroupDescribeResponse.Member:
    said = member.metadata
    has: dict[UUID, list[int]] = {}
    for partitions in (member.assigned, member.revoking):
        for topic_id, epochs in partitions.items():
            has.setdefault(topic_id, []).extend(epochs)
    target: Partitions = group.targets.stored(member.member_id) or NO_PARTITIONS
    return ConsumerGroupDescribeResponse.Member(
        member_id=member.member_id,
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        member_epoch=member.epoch,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=list(said.subscribed_topic_names),
        subscribed_topic_regex=said.subscribed_topic_regex,
        assignment=_assignment(has, topics),
        target_assignment=_assignment(target, topics),
        member_type=_CLASSIC if member.is_classic else _CONSUMER,
    )


def _assignment(
    partitions: Mapping[UUID, Collection[int]], topics: KnownTopics
) -> ConsumerGroupDescribeResponse.Assignment:
    return ConsumerGroupDescribeResponse.Assignment(
        topic_partitions=[
            ConsumerGroupDescribeResponse.TopicPartitions(
                topic_id=topic_id, topic_name=name, partitions=list(indexes)
            )
            for topic_id, indexes in partitions.items()
            if (name := topics.topic_name(topic_id)) is not None
        ]
    )
