"""Consumer groups as ConsumerGroupDescribe shows them.

Pure. Law: people see what is stored, all of it as it is at one moment, however long it takes to
make the answer. A member has what it was given and what it has still to give up; topics that do not
exist any more are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain, islice
from uuid import UUID

from kbroker.coordinator.consumer_group.consumer_group import NO_PARTITIONS, ConsumerGroup
from kbroker.coordinator.consumer_group.member import Member
from kbroker.coordinator.consumer_group.record_values import Partitions
from kbroker.coordinator.consumer_group.step import KnownTopics
from kbroker.java_hash import java_hash, timeline_map_order
from kbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse

_CLASSIC, _CONSUMER = 0, 1  # types of members
_BYTES_OF_MEMBER = 96  # beside its names and partitions
_BYTES_OF_TOPIC = 64
_BYTES_OF_PARTITION = 4
_SOME = 16  # members


class Description:
    """A group without its members, and these, which may be many."""

    def __init__(self, group: ConsumerGroup, topics: KnownTopics, default_assignor: str) -> None:
        self._topics = topics
        self._members = [
            (member, group.targets.stored(member.member_id) or NO_PARTITIONS)
            for member in group.stored_members()
        ]
        counts = {
            name: count
            for name in group.assignor_counts.stored_keys()
            if (count := group.assignor_counts.stored(name)) is not None
        }
        self.group = ConsumerGroupDescribeResponse.DescribedGroup(
            group_id=group.group_id,
            group_state=group.stored_state.value,
            group_epoch=group.stored_metadata.epoch,
            assignment_epoch=group.stored_target_metadata.assignment_epoch,
            assignor_name=max(
                timeline_map_order(counts, java_hash),
                key=lambda name: counts[name],
                default=default_assignor,
            ),
        )

    def topic_names(self) -> frozenset[str]:
        """The topics of which members have a partition, or shall have one."""
        topic_ids = {
            topic_id
            for member, target in self._members
            for topic_id in chain(member.assigned, member.revoking, target)
        }
        names = map(self._topics.topic_name, topic_ids)
        return frozenset(name for name in names if name is not None)

    def members(self) -> Iterator[ConsumerGroupDescribeResponse.Member]:
        """The members, each made when it is asked for."""
        return (_member(member, target, self._topics) for member, target in self._members)


def described_bytes(group: ConsumerGroup) -> int:
    """Return about how many bytes the members of a group take in the answer: what some of them take
    tells of all, as one request may ask for hundreds of large groups.
    """
    count = len(group.members)
    some = list(islice(group.members.values(), _SOME))
    size_bytes = sum(map(_bytes_of, some)) * count // max(len(some), 1)
    size_bytes += sum((len(name) + 1) * each for name, each in group.topic_counts.items())
    return size_bytes + 2 * _BYTES_OF_PARTITION * len(group.owners)  # those had, and the target


def _bytes_of(member: Member) -> int:
    topics = 2 * len(member.assigned) + len(member.revoking)
    names = len(member.member_id) + len(member.metadata.client_id)
    return _BYTES_OF_MEMBER + names + _BYTES_OF_TOPIC * topics


def _member(
    member: Member, target: Partitions, topics: KnownTopics
) -> ConsumerGroupDescribeResponse.Member:
    said = member.metadata
    has: dict[UUID, list[int]] = {}
    for partitions in (member.assigned, member.revoking):
        for topic_id, epochs in partitions.items():
            has.setdefault(topic_id, []).extend(epochs)
    return ConsumerGroupDescribeResponse.Member(
        member_id=member.member_id,
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        member_epoch=member.epoch,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=sorted(said.subscribed_topic_names),
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
                topic_id=topic_id, topic_name=name, partitions=sorted(indexes)
            )
            for topic_id, indexes in partitions.items()
            if (name := topics.topic_name(topic_id)) is not None
        ]
    )
