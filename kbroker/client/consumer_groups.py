"""Consumer groups: their names, members and committed offsets, and changes to those.

Covers both protocols: a group that DescribeGroups does not know may be one of KIP-848, which has a
request of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import ask_coordinator
from kbroker.client.topic_rows import by_topic, rows_of
from kbroker.errors import ErrorCode, KafkaError, ProtocolError
from kbroker.model import TopicPartition
from kbroker.protocol.codec import decode
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.schema import Message, Struct, message, wire

# In these groups kbroker's own jobs keep how far they are.
OF_JOBS = ("kbroker-restore-", "kbroker-mirror-", "kbroker-rules-")
_RECONCILING = "Reconciling"
_UNKNOWN_STATE = "Dead"  # what a coordinator says of a group it has never heard of
_CONSUMER_PROTOCOLS = ("consumer", "")
_PROTOCOLS = {0: "classic", 1: "consumer"}  # by the type of a member
_VERSION_BYTES = 2
# Of a group that `is_not_served`.
MEMBERS_NOT_SAID = (
    "the cluster does not serve its protocol now, and does not say who its members are"
)


@message(key=None, versions="0")
class _Assignment(Message):
    """The assignment that the leader of a classic group gives a member; every version begins so."""

    class Topic(Struct):
        name: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    topics: list[_Assignment.Topic] = wire("[]Topic", default=[])


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOnTheWay:
    """The progress of a member whose coordinator assigns (KIP-848): the protocol that it speaks,
    empty if the broker does not say, its epoch, the partitions that it is to have, and what it
    subscribes to: topics by their names, and a pattern, empty if it has none.
    """

    protocol: str
    epoch: int
    target: tuple[TopicPartition, ...]
    topics: tuple[str, ...] = ()
    pattern: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group, with the partitions assigned to it; `way` in groups of KIP-848."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    partitions: tuple[TopicPartition, ...] = ()
    way: MemberOnTheWay | None = None


class GroupEpochs(NamedTuple):
    """The epoch of a group of KIP-848, and that of its target: the group's if it is computed."""

    group: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """A group. `committed` holds the next offset of each partition that it reads or has offsets
    for (None: nothing is committed); `coordinator` is the id of a broker; `strategy` names the
    assignor, empty if none was chosen; `epochs` are those of a group of KIP-848, None if members of
    the classic protocol assign. Of a group whose protocol `is_not_served`, because the cluster has
    left its level of group.version, only the state and the offsets are known.
    """

    name: str
    state: str
    members: tuple[GroupMember, ...] = ()
    committed: Mapping[TopicPartition, int | None]
    coordinator: int = -1
    strategy: str = ""
    epochs: GroupEpochs | None = None
    is_not_served: bool = False

    @property
    def owners(self) -> dict[TopicPartition, GroupMember]:
        return {place: member for member in self.members for place in member.partitions}

    @property
    def surplus(self) -> list[tuple[GroupMember, list[TopicPartition]]]:
        """Members that hold a group of KIP-848 up, each with the partitions that it has still to
        give up.
        """
        if self.state != _RECONCILING:
            return []
        found = [
            (member, [place for place in member.partitions if place not in member.way.target])
            for member in self.members
            if member.way is not None
        ]
        return [(member, places) for member, places in found if places]

    @property
    def member_count(self) -> int | None:
        """How many members there are; None if the cluster knows no such group, or does not say."""
        return None if self.state == _UNKNOWN_STATE or self.is_not_served else len(self.members)

    @property
    def is_unknown(self) -> bool:
        """Whether the cluster knows neither members nor offsets of the group."""
        return self.state == _UNKNOWN_STATE and not self.committed


def listed_groups(links: ClusterLinks) -> list[ListGroupsResponse.ListedGroup]:
    """Return the groups of all brokers, sorted by name. Raises OSError if no broker answers."""
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
    """Read a group with its members and offsets; `is_unknown` if there is none.

    Raises OSError and KafkaError.
    """
    found = _described(links, name)
    owned = dict.fromkeys(place for member in found.members for place in member.partitions)
    return replace(found, committed=owned | committed_offsets(links, name))


def commit_offsets(
    links: ClusterLinks, name: str, offsets: Mapping[TopicPartition, int], note: str = ""
) -> dict[TopicPartition, ErrorCode]:
    """Set offsets of a group without members, each with this note, and return what came of each.

    Raises OSError, KafkaError.
    """
    from kbroker.protocol.messages.offset_commit import OffsetCommitRequest

    rows = {
        place: OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=place.partition, committed_offset=offset, committed_metadata=note
        )
        for place, offset in offsets.items()
    }
    topics = [
        OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=partitions)
        for topic, partitions in by_topic(rows).items()
    ]
    request = OffsetCommitRequest(group_id=name, topics=topics)
    _, answer = ask_coordinator(links, name, request)
    return {place: ErrorCode(row.error_code) for place, row in rows_of(answer.topics)}


def delete_group(links: ClusterLinks, name: str) -> ErrorCode:
    """Delete a group without members, and return what came of it. Raises OSError, KafkaError."""
    from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest

    request = DeleteGroupsRequest(groups_names=[name])
    _, answer = ask_coordinator(links, name, request)
    code = ErrorCode(answer.results[0].error_code)
    # If the first answer got lost, the first request may have deleted it.
    is_gone = code == ErrorCode.GROUP_ID_NOT_FOUND and links.is_repeated(request)
    return ErrorCode.NONE if is_gone else code


def delete_offsets(
    links: ClusterLinks, name: str, places: Iterable[TopicPartition]
) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
    """Delete the offsets that a group has committed for these partitions.

    Returns what came of the request as a whole, and if that is fine, of each partition. Raises
    OSError, KafkaError.
    """
    from kbroker.protocol.messages.offset_delete import OffsetDeleteRequest

    rows = {
        place: OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=place.partition)
        for place in places
    }
    request = OffsetDeleteRequest(
        group_id=name,
        topics=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic, partitions=partitions)
            for topic, partitions in by_topic(rows).items()
        ],
    )
    _, answer = ask_coordinator(links, name, request)
    codes = {place: ErrorCode(row.error_code) for place, row in rows_of(answer.topics)}
    return ErrorCode(answer.error_code), codes


def lag(committed: int | None, end: int | None) -> int | None:
    """Count the offsets between what is committed and the end, as Kafka's own tools do."""
    return None if committed is None or end is None else max(0, end - committed)


def epochs_shown(epochs: GroupEpochs) -> str:
    """Return the epoch of a group, with that of its target if this is not computed yet.

    >>> epochs_shown(GroupEpochs(5, 5)), epochs_shown(GroupEpochs(6, 5))
    ('5', '6 (target of epoch 5)')
    """
    of_target = "" if epochs.target == epochs.group else f" (target of epoch {epochs.target})"
    return f"{epochs.group}{of_target}"


def _described(links: ClusterLinks, name: str) -> ConsumerGroup:
    """Describe a group, without what it has committed."""
    coordinator, answer = ask_coordinator(links, name, DescribeGroupsRequest(groups=[name]))
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
    """Return the partitions assigned to a classic member; none if it still waits for them, or if
    the bytes have another layout.
    """
    try:
        found, _ = decode(_Assignment, 0, assignment, _VERSION_BYTES)
    except ProtocolError:
        return ()
    return tuple(
        sorted(TopicPartition(t.name, number) for t in found.topics for number in t.partitions)
    )


def _of_new_protocol(links: ClusterLinks, name: str) -> ConsumerGroup | None:
    """Describe a group of KIP-848; None if there is none."""
    from kbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    request = ConsumerGroupDescribeRequest(group_ids=[name])
    try:
        coordinator, answer = ask_coordinator(links, name, request)
    except KafkaError:  # the broker has no such groups
        return None
    (group,) = answer.groups
    code = ErrorCode(group.error_code)
    if code == ErrorCode.UNSUPPORTED_VERSION:
        return _not_served(links, name, coordinator)
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    if code:
        raise KafkaError(code, f"group {name}")
    return ConsumerGroup(
        name=name,
        state=group.group_state,
        members=tuple(_new_member(member) for member in group.members),
        committed={},
        coordinator=coordinator,
        strategy=group.assignor_name,
        epochs=GroupEpochs(group.group_epoch, group.assignment_epoch),
    )


def _not_served(links: ClusterLinks, name: str, coordinator: int) -> ConsumerGroup | None:
    """Return what the list of groups says of one that no request describes; None if it is not
    there.
    """
    for listed in listed_groups(links):
        if listed.group_id == name and listed.group_state:
            return ConsumerGroup(
                name=name,
                state=listed.group_state,
                committed={},
                coordinator=coordinator,
                is_not_served=True,
            )
    return None


def _new_member(member: Any) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        instance_id=member.instance_id,
        partitions=_places(member.assignment),
        way=MemberOnTheWay(
            protocol=_PROTOCOLS.get(member.member_type, ""),
            epoch=member.member_epoch,
            target=_places(member.target_assignment),
            topics=tuple(sorted(member.subscribed_topic_names)),
            pattern=member.subscribed_topic_regex or "",
        ),
    )


def _places(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, number)
            for topic in assignment.topic_partitions
            for number in topic.partitions
        )
    )


def committed_entries(links: ClusterLinks, name: str) -> dict[TopicPartition, Any]:
    """Return the rows of OffsetFetch for what a group has committed: `committed_offset`, and
    `metadata`, a note. Raises OSError, KafkaError.
    """
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name, topics=None)
    request = OffsetFetchRequest(group_id=name, topics=None, groups=[wanted])
    _, answer = ask_coordinator(links, name, request)
    group = answer.groups[0] if answer.groups else answer  # one of many from version 8 on
    if group.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        raise KafkaError(ErrorCode(group.error_code), f"offsets of group {name}")
    return dict(rows_of(group.topics))


def committed_offsets(links: ClusterLinks, name: str) -> dict[TopicPartition, int | None]:
    """Return what a group has committed; nothing if it is unknown. Raises OSError, KafkaError."""
    return {
        place: entry.committed_offset if entry.committed_offset >= 0 else None
        for place, entry in committed_entries(links, name).items()
    }
