"""Consumer groups: which there are, who is in them, what they have committed, and changes to that.

The groups of both protocols: what DescribeGroups does not know may be a group of KIP-848, which has
a request of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import ask_coordinator, ask_coordinator_by_id
from kbroker.errors import ErrorCode, KafkaError, ProtocolError
from kbroker.model import TopicPartition
from kbroker.protocol.codec import decode
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kbroker.protocol.schema import Message, Struct, message, wire

# Groups of kbroker's jobs say how far these are: restores, mirrors, rules.
OF_JOBS = ("kbroker-restore-", "kbroker-mirror-", "kbroker-rules-")
_UNKNOWN_STATE = "Dead"  # what a coordinator says of a group it has never heard of
_CONSUMER_PROTOCOLS = ("consumer", "")
_VERSION_BYTES = 2


@message(key=None, versions="0")
class _Assignment(Message):
    """What the leader of a classic group gives a member: every version begins like this."""

    class Topic(Struct):
        """Partitions of one topic."""

        name: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    topics: list[_Assignment.Topic] = wire("[]Topic", default=[])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group, and the partitions it was given."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """A group: state, members, and the next offset to read of each partition that it reads or has
    offsets of (None: nothing is committed). `coordinator` is the id of a broker; `strategy` says
    how partitions are given to members, and is empty if nothing is.
    """

    name: str
    state: str
    members: tuple[GroupMember, ...] = ()
    committed: Mapping[TopicPartition, int | None]
    coordinator: int = -1
    strategy: str = ""

    @property
    def owners(self) -> dict[TopicPartition, GroupMember]:
        """Who reads each partition that a member was given."""
        return {place: member for member in self.members for place in member.partitions}

    @property
    def member_count(self) -> int | None:
        """None if the cluster knows no members of such a group."""
        return None if self.state == _UNKNOWN_STATE else len(self.members)

    @property
    def is_unknown(self) -> bool:
        """Whether the cluster knows neither members nor offsets of it."""
        return self.state == _UNKNOWN_STATE and not self.committed


def listed_groups(links: ClusterLinks) -> list[ListGroupsResponse.ListedGroup]:
    """The groups of all brokers by name. Raises OSError if no broker answers."""
    found = []
    failure: OSError | None = None
    answers = 0
    for broker in links.describe([]).brokers:
        try:
            answer = links.ask(broker.node_id, ListGroupsRequest())
        except OSError as error:  # gone; its groups have gone to other brokers, or soon will
            failure = error
            continue
        if answer.error_code not in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            raise KafkaError(ErrorCode(answer.error_code), f"broker {broker.node_id}")
        answers += 1
        found += answer.groups
    if not answers and failure is not None:
        raise failure
    return sorted(found, key=lambda group: str(group.group_id))


def read_group(links: ClusterLinks, name: str) -> ConsumerGroup:
    """A group with members and offsets; one that does not exist is unknown.

    Raises OSError and KafkaError.
    """
    found = _described(links, name)
    owned = dict.fromkeys(place for member in found.members for place in member.partitions)
    return replace(found, committed=owned | committed_offsets(links, name))


def commit_offsets(
    links: ClusterLinks, name: str, offsets: Mapping[TopicPartition, int], note: str = ""
) -> dict[TopicPartition, ErrorCode]:
    """Set offsets of a group without members, each with this note; what came of each. Raises
    OSError, KafkaError.
    """
    from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

    by_topic: defaultdict[str, list[OffsetCommitRequest.OffsetCommitRequestPartition]]
    by_topic = defaultdict(list)
    for (topic, number), offset in offsets.items():
        by_topic[topic].append(
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=number, committed_offset=offset, committed_metadata=note
            )
        )
    topics = [
        OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=partitions)
        for topic, partitions in by_topic.items()
    ]

    def results(answer: OffsetCommitResponse) -> dict[TopicPartition, ErrorCode]:
        return {
            TopicPartition(topic.name, entry.partition_index): ErrorCode(entry.error_code)
            for topic in answer.topics
            for entry in topic.partitions
        }

    request = OffsetCommitRequest(group_id=name, topics=topics)
    return results(ask_coordinator(links, name, request, lambda answer: results(answer).values()))


def delete_group(links: ClusterLinks, name: str) -> ErrorCode:
    """Delete a group without members; what came of it. Raises OSError, KafkaError.

    Where the answer got lost and the request was sent again, a group that is gone was deleted.
    """
    from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

    def code(answer: DeleteGroupsResponse) -> int:
        return answer.results[0].error_code

    request = DeleteGroupsRequest(groups_names=[name])
    found = ErrorCode(code(ask_coordinator(links, name, request, lambda answer: [code(answer)])))
    if found == ErrorCode.GROUP_ID_NOT_FOUND and links.is_repeated(request):
        return ErrorCode.NONE
    return found


def delete_offsets(
    links: ClusterLinks, name: str, places: Iterable[TopicPartition]
) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
    """Delete what a group has committed of these partitions: what came of it as a whole, and for
    each where that is fine. Raises OSError, KafkaError.
    """
    from kbroker.protocol.messages.offset_delete import OffsetDeleteRequest

    by_topic: defaultdict[str, list[OffsetDeleteRequest.OffsetDeleteRequestPartition]]
    by_topic = defaultdict(list)
    for topic, number in places:
        by_topic[topic].append(
            OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=number)
        )
    request = OffsetDeleteRequest(
        group_id=name,
        topics=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )
    answer = ask_coordinator(links, name, request, lambda answer: [answer.error_code])
    return ErrorCode(answer.error_code), {
        TopicPartition(topic.name, entry.partition_index): ErrorCode(entry.error_code)
        for topic in answer.topics
        for entry in topic.partitions
    }


def lag(committed: int | None, end: int | None) -> int | None:
    """Records between what is committed and the end, as Kafka's own tools count them: by offset."""
    return None if committed is None or end is None else max(0, end - committed)


def _described(links: ClusterLinks, name: str) -> ConsumerGroup:
    """A group without what is committed."""
    coordinator, answer = ask_coordinator_by_id(
        links,
        name,
        DescribeGroupsRequest(groups=[name]),
        lambda answer: [answer.groups[0].error_code],
    )
    (group,) = answer.groups
    unknown = ConsumerGroup(name=name, state=_UNKNOWN_STATE, committed={}, coordinator=coordinator)
    if group.group_state == _UNKNOWN_STATE:
        return _of_new_protocol(links, name) or unknown
    if group.error_code:
        raise KafkaError(ErrorCode(group.error_code), f"group {name}")
    reads_topics = group.protocol_type in _CONSUMER_PROTOCOLS
    return replace(
        unknown,
        state=group.group_state,
        strategy=group.protocol_data,
        members=tuple(
            _classic_member(member, reads_topics=reads_topics) for member in group.members
        ),
    )


def _classic_member(
    member: DescribeGroupsResponse.DescribedGroupMember, *, reads_topics: bool
) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        instance_id=member.group_instance_id,
        partitions=assigned_partitions(member.member_assignment) if reads_topics else (),
    )


def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions that a classic member reads; none if it waits for its assignment, or
    where its bytes have another layout.
    """
    try:
        found, _ = decode(_Assignment, 0, assignment, _VERSION_BYTES)
    except ProtocolError:
        return ()
    return tuple(
        sorted(TopicPartition(t.name, number) for t in found.topics for number in t.partitions)
    )


def _of_new_protocol(links: ClusterLinks, name: str) -> ConsumerGroup | None:
    """As `_described`, of a group of KIP-848; None if there is none."""
    from kbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    request = ConsumerGroupDescribeRequest(group_ids=[name])
    with suppress(KafkaError):  # the broker has no such groups
        coordinator, answer = ask_coordinator_by_id(
            links, name, request, lambda answer: [answer.groups[0].error_code]
        )
        (group,) = answer.groups
        if group.error_code == ErrorCode.NONE:
            return ConsumerGroup(
                name=name,
                state=group.group_state,
                members=tuple(_new_member(member) for member in group.members),
                committed={},
                coordinator=coordinator,
                strategy=group.assignor_name,
            )
    return None


def _new_member(member: Any) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        instance_id=member.instance_id,
        partitions=tuple(
            sorted(
                TopicPartition(topic.topic_name, number)
                for topic in member.assignment.topic_partitions
                for number in topic.partitions
            )
        ),
    )


def committed_entries(links: ClusterLinks, name: str) -> dict[TopicPartition, Any]:
    """Offsets that a group has committed, as OffsetFetch has them: `committed_offset`, and
    `metadata`, a note. Raises OSError, KafkaError.
    """
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name, topics=None)
    request = OffsetFetchRequest(group_id=name, topics=None, groups=[wanted])

    def group_of(answer: OffsetFetchResponse) -> Any:
        return answer.groups[0] if answer.groups else answer  # one of many from version 8 on

    answer = group_of(
        ask_coordinator(links, name, request, lambda answer: [group_of(answer).error_code])
    )
    if answer.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        raise KafkaError(ErrorCode(answer.error_code), f"offsets of group {name}")
    return {
        TopicPartition(topic.name, entry.partition_index): entry
        for topic in answer.topics
        for entry in topic.partitions
    }


def committed_offsets(links: ClusterLinks, name: str) -> dict[TopicPartition, int | None]:
    """Return what a group has committed; nothing if it is unknown. Raises OSError, KafkaError."""
    return {
        place: entry.committed_offset if entry.committed_offset >= 0 else None
        for place, entry in committed_entries(links, name).items()
    }
