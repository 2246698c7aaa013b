"""A group changes its protocol while it is in use: what a classic group is as a consumer group, and
a consumer group as a classic one (KIP-848).

Pure. Law: generation and epoch are one number, and every member keeps its id, its subscription and
the partitions that it has, so that nobody stops reading because of the change, and nobody gets what
another still reads. What cannot be kept stops it: subscriptions and assignments that cannot be
read, and what a custom assignor said to its members beside their partitions. Codes, sentences and
their order are those of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from kbroker.coordinator.consumer_group.changes import Change
from kbroker.coordinator.consumer_group.classic_members import classic_assignment, known_topics
from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.member import Member as ConsumerMember
from kbroker.coordinator.consumer_group.member import each_partition
from kbroker.coordinator.consumer_group.record_values import (
    ClassicMemberMetadata,
    ClassicProtocol,
    CurrentMemberAssignment,
    GroupMetadata,
    MemberMetadata,
    MemberState,
    Partitions,
    RecordKind,
    TargetAssignmentMetadata,
)
from kbroker.coordinator.consumer_group.step import (
    Downgrade,
    KnownTopics,
    Surroundings,
)
from kbroker.coordinator.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
    ListedTopic,
    read_assignment,
    read_subscription,
    version_or_zero,
)
from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group.member import Member
from kbroker.coordinator.group.offsets import GroupOffsets
from kbroker.errors import ErrorCode, KafkaError, ProtocolError

_Place = tuple[UUID, int]
_Claims = Mapping[_Place, int]

# ---- from classic to consumer


def upgraded(group: Group, given: Surroundings) -> list[Change]:
    """Return what makes a consumer group of a classic one, in the order of its records. Raises
    KafkaError GROUP_ID_NOT_FOUND if that is not possible.
    """
    _check_upgrade(group, given)
    try:
        members = _upgraded_members(group, given.topics)
    except ProtocolError as error:
        raise _cannot(group, "the embedded consumer protocol is malformed.") from error
    topics = {topic for each in members for topic in each.metadata.subscribed_topic_names}
    epoch = group.generation_id
    metadata = GroupMetadata(epoch, given.topics.metadata_hash(topics))
    return [
        *(Change(RecordKind.MEMBER_METADATA, each.member_id, each.metadata) for each in members),
        Change(RecordKind.GROUP_METADATA, "", metadata),
        *(
            Change(RecordKind.TARGET_ASSIGNMENT_MEMBER, each.member_id, _target(each))
            for each in members
        ),
        Change(RecordKind.TARGET_ASSIGNMENT_METADATA, "", TargetAssignmentMetadata(epoch)),
        *(
            Change(RecordKind.CURRENT_MEMBER_ASSIGNMENT, each.member_id, each.current)
            for each in members
        ),
    ]


def _check_upgrade(group: Group, given: Surroundings) -> None:
    if not given.migration.may_upgrade:
        raise _cannot(group, "online upgrade is disabled.")
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _cannot(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > given.max_size:
        raise _cannot(group, "the group size exceeds the consumer group maximum size.")


def _cannot(group: Group, why: str) -> KafkaError:
    sentence = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}"
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, sentence)


def _upgraded_members(group: Group, topics: KnownTopics) -> list[ConsumerMember]:
    protocol = group.protocol_name or group.select_protocol()  # none yet in the first join phase
    members = group.members.values()
    subscriptions = {each.member_id: read_subscription(each.metadata(protocol)) for each in members}
    assigned = {
        each.member_id: _assigned(group, each, topics) for each in members if each.assignment
    }
    claims = {
        each: _claims(it, topics) for each, it in subscriptions.items() if each not in assigned
    }
    has = assigned | _undisputed(claims, assigned.values())
    return [
        _upgraded_member(group, each, subscriptions[each.member_id], has[each.member_id])
        for each in members
    ]


def _upgraded_member(
    group: Group, member: Member, subscription: ConsumerProtocolSubscription, has: Partitions
) -> ConsumerMember:
    epoch = group.generation_id
    metadata = MemberMetadata(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic_member_metadata=ClassicMemberMetadata(
            member.session_timeout_ms,
            tuple(ClassicProtocol(name, data) for name, data in member.protocols),
        ),
    )
    current = CurrentMemberAssignment(
        member_epoch=epoch,
        previous_member_epoch=epoch,
        state=MemberState.STABLE,
        assigned_partitions={
            topic_id: dict.fromkeys(partitions, epoch) for topic_id, partitions in has.items()
        },
        partitions_pending_revocation={},
    )
    return ConsumerMember(member.member_id, metadata, current)


def _assigned(group: Group, member: Member, topics: KnownTopics) -> Partitions:
    """The partitions of topics that exist."""
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise _cannot(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch"
            " to a default assignor before re-attempting the upgrade.",
        )
    return _of_known_topics(assignment.assigned_partitions, topics)


def _claims(subscription: ConsumerProtocolSubscription, topics: KnownTopics) -> _Claims:
    """The partitions that a member says it has, with the generation in which it got them. A
    rebalance that is broken off takes all assignments back, while cooperative members go on reading
    until the next one: Kafka 4.3 would give their partitions to others at once.
    """
    owned = _of_known_topics(subscription.owned_partitions, topics)
    known = topics.topics(frozenset(owned))
    return {
        (topic_id, each): subscription.generation_id
        for topic_id, each in each_partition(owned)
        if 0 <= each < known.partition_count(topic_id)  # it may claim anything
    }


def _undisputed(
    claims: Mapping[str, _Claims], assigned: Iterable[Partitions]
) -> dict[str, Partitions]:
    """The partitions, by member, that nobody has for sure, or claims from a later generation."""
    taken = {place for partitions in assigned for place in each_partition(partitions)}
    newest: dict[_Place, tuple[int, str]] = {}
    for member_id, places in claims.items():
        for place, generation in places.items():
            newest[place] = max(newest.get(place, (generation, member_id)), (generation, member_id))
    found: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in claims}
    for (topic_id, partition), (_, member_id) in newest.items():
        if (topic_id, partition) not in taken:
            found[member_id].setdefault(topic_id, set()).add(partition)
    return dict(found)


def _of_known_topics(listed: Iterable[ListedTopic], topics: KnownTopics) -> Partitions:
    return {each: frozenset(partitions) for each, partitions in known_topics(listed, topics)}


def _target(member: ConsumerMember) -> Partitions:
    return {topic_id: frozenset(each) for topic_id, each in member.assigned.items()}


# ---- from consumer to classic


def downgraded(
    group: ConsumerGroup,
    downgrade: Downgrade,
    topics: KnownTopics,
    offsets: GroupOffsets,
    wall_ms: int,
) -> Group:
    """Return the classic group that a consumer group becomes: stable, with its last target."""
    made = Group(group.group_id, GroupState.STABLE, offsets)
    made.current_state_timestamp_ms = wall_ms
    made.generation_id = group.epoch
    made.protocol_type = CONSUMER_PROTOCOL_TYPE
    targets = {}
    for owner, member in _staying(group, downgrade):
        made.add(_downgraded_member(member))
        targets[member.member_id] = group.target(owner)
    made.protocol_name = made.select_protocol()
    made.compute_subscribed_topics()
    for each in made.members.values():
        version = version_or_zero(each.metadata(made.protocol_name))
        each.assignment = classic_assignment(targets[each.member_id], topics, version)
    return made


def _staying(group: ConsumerGroup, downgrade: Downgrade) -> Iterator[tuple[str, ConsumerMember]]:
    """The members that stay, each with the id under which its target is known."""
    joining = downgrade.joining
    replaced = None if joining is None else group.static_member(joining.instance_id or "")
    for member_id, member in group.members.items():
        if member_id not in downgrade.leaving and member is not replaced:
            yield member_id, member
    if joining is not None:
        assert replaced is not None
        yield replaced.member_id, joining


def _downgraded_member(member: ConsumerMember) -> Member:
    classic, metadata = member.metadata.classic_member_metadata, member.metadata
    assert classic is not None
    return Member(
        member_id=member.member_id,
        group_instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=[(each.name, each.metadata) for each in classic.supported_protocols],
    )
