"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members of a consumer group that speak the
classic protocol, while it changes from one protocol to the other (KIP-848).

Pure. Law: a classic member goes the same way to its target as any other. Its generation is its
epoch, it never leads, and its JoinGroup and SyncGroup wait for nobody. Heartbeat makes it join
again as often as there is a step to be taken: it gives up partitions by leaving them out of what it
says it owns when it joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol
from uuid import UUID

from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.heartbeat import (
    check_size,
    group_epoch_after,
    reconcile,
    take_metadata,
)
from kbroker.coordinator.consumer_group.identity import (
    known_instance,
    known_member,
    replaced_member,
)
from kbroker.coordinator.consumer_group.member import Member, OwnedPartitions
from kbroker.coordinator.consumer_group.reconciliation import UNOWNED
from kbroker.coordinator.consumer_group.record_values import (
    ClassicMemberMetadata,
    ClassicProtocol,
    MemberMetadata,
    MemberState,
)
from kbroker.coordinator.consumer_group.removal import may_become_classic, remove_members
from kbroker.coordinator.consumer_group.sessions import (
    await_join,
    joined,
    keep_classic_alive,
    synced,
)
from kbroker.coordinator.consumer_group.step import (
    ConsumerStep,
    Downgrade,
    KnownTopics,
    MigrationPolicy,
)
from kbroker.coordinator.consumer_group.subscribed_patterns import Visible, take_pattern
from kbroker.coordinator.consumer_group.target_assignment import last_target, next_target
from kbroker.coordinator.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
    ListedTopic,
    assignment_bytes,
    read_subscription,
    version_or_zero,
)
from kbroker.errors import NO_ERROR, ErrorCode, KafkaError, ProtocolError
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_FIRST_VERSION_WITH_REQUIRED_ID = 4  # of JoinGroup (KIP-394)
_NOT_SAID = -1  # a rebalance time-out that holds on


class Joining(Protocol):
    """A JoinGroup request with what the shell knows about it."""

    @property
    def request(self) -> JoinGroupRequest: ...

    @property
    def api_version(self) -> int: ...

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def new_member_id(self) -> str: ...

    @property
    def rebalance_timeout_ms(self) -> int: ...

    @property
    def visible(self) -> Visible | None: ...


class Leaving(Protocol):
    """A member that leaves: by member id, by group instance id (administrators), or both."""

    member_id: str
    group_instance_id: str | None


# ---- JoinGroup


def join(step: ConsumerStep, joining: Joining) -> JoinGroupResponse:
    """Let a member in, or a step further on its way. Raises KafkaError."""
    request, group = joining.request, step.group
    if step.given.migration is MigrationPolicy.DISABLED:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    member_id = request.member_id or joining.new_member_id
    check_size(step, member_id)
    if not _supports(group, request):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if _needs_id_first(joining):
        needed = int(ErrorCode.MEMBER_ID_REQUIRED)
        return JoinGroupResponse(error_code=needed, protocol_name=None, member_id=member_id)
    subscription = _subscription(request)
    replaced = group.static_member(request.group_instance_id or "")
    before = _sender(step, member_id, request)
    member = before._replace(metadata=_said(before.metadata, joining, subscription))
    has_other_topics = take_metadata(step, before, member)
    pattern = take_pattern(step, before, member, joining.visible)
    has_other_topics = has_other_topics or pattern.is_other
    epoch = group_epoch_after(step, before, member, has_other_topics)
    owned = _owned(step, subscription)
    if replaced is not None and _is_last_to_change(step, replaced):
        is_stale = group.target_metadata.assignment_epoch < epoch
        if not is_stale:
            target = last_target(step, member)
            member = reconcile(step, member, target, owned, has_other_topics)
        rebalances = is_stale or not _have_their_target(group, replaced)
        step.downgrade = Downgrade(joining=member, rebalances=rebalances)
    else:
        target = next_target(step, epoch, before, member)
        member = reconcile(step, member, target, owned, has_other_topics)
        joined(step, member)
    return JoinGroupResponse(
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
        member_id=member.member_id,
    )


def _supports(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Whether the member speaks the consumer protocol in a way that all classic members do."""
    names = {each.name for each in request.protocols}
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not names:
        return False
    classic = (each for each in group.members.values() if each.is_classic)
    common = [{protocol.name for protocol in each.classic_protocols} for each in classic]
    return bool(names.intersection(*common))


def _needs_id_first(joining: Joining) -> bool:
    request = joining.request
    if request.member_id or request.group_instance_id is not None:
        return False
    return joining.api_version >= _FIRST_VERSION_WITH_REQUIRED_ID


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(request.protocols[0].metadata)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error


def _sender(step: ConsumerStep, member_id: str, request: JoinGroupRequest) -> Member:
    """The member that joins; one without an id takes over from whoever has its instance id."""
    group, instance_id = step.group, request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id, Member(member_id))
    if request.member_id:
        return known_instance(group, member_id, instance_id)
    before = group.static_member(instance_id)
    return Member(member_id) if before is None else replaced_member(step, before, member_id)


def _said(
    before: MemberMetadata, joining: Joining, subscription: ConsumerProtocolSubscription
) -> MemberMetadata:
    """Return what a member has said of itself by now; the same object if that is nothing new."""
    request, timeout_ms = joining.request, joining.rebalance_timeout_ms
    protocols = tuple(ClassicProtocol(each.name, each.metadata) for each in request.protocols)
    instance_id, rack_id = request.group_instance_id, subscription.rack_id
    said = before._replace(
        instance_id=before.instance_id if instance_id is None else instance_id,
        rack_id=before.rack_id if rack_id is None else rack_id,
        client_id=joining.client_id,
        client_host=joining.client_host,
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",  # a classic member has no pattern
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == _NOT_SAID else timeout_ms,
        classic_member_metadata=ClassicMemberMetadata(request.session_timeout_ms, protocols),
    )
    return before if said == before else said


def _owned(step: ConsumerStep, subscription: ConsumerProtocolSubscription) -> OwnedPartitions:
    """The partitions that the member says it has, of topics that exist."""
    owned: dict[UUID, list[int]] = {}
    for topic_id, partitions in known_topics(subscription.owned_partitions, step.given.topics):
        owned.setdefault(topic_id, []).extend(partitions)
    return owned


def known_topics(
    listed: Iterable[ListedTopic], topics: KnownTopics
) -> Iterator[tuple[UUID, list[int]]]:
    """The topics that exist of those that a subscription or assignment lists, by their ids."""
    for each in listed:
        topic_id = topics.topic_id(each.topic)
        if topic_id is not None:
            yield topic_id, each.partitions


def _is_last_to_change(step: ConsumerStep, replaced: Member) -> bool:
    """Whether the group becomes a classic one once a classic member has replaced this one."""
    if replaced.is_classic:
        return False
    return may_become_classic(step, {replaced.member_id}, len(step.group.members))


def _have_their_target(group: ConsumerGroup, replaced: Member) -> bool:
    """Whether the others would go on with their targets in a classic group: one that waits for a
    partition has no reason there to fetch its assignment again, and one that has to give a
    partition up would not do so before somebody else reads it.
    """
    epoch = group.target_metadata.assignment_epoch
    return all(each is replaced or each.is_reconciled_to(epoch) for each in group.members.values())


# ---- SyncGroup


def sync(step: ConsumerStep, request: SyncGroupRequest) -> SyncGroupResponse:
    """Give a member its assignment. Raises KafkaError."""
    group = step.group
    member = _classic_member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    _check_protocol(member, request)
    is_behind = group.target_metadata.assignment_epoch > member.epoch
    if is_behind and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
        await_join(step, member)
        return SyncGroupResponse(error_code=int(ErrorCode.REBALANCE_IN_PROGRESS))
    synced(step, member)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=classic_assignment(member.assigned, step.given.topics, _version(member)),
    )


def _check_protocol(member: Member, request: SyncGroupRequest) -> None:
    name = member.classic_protocols[0].name if member.classic_protocols else None
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or (
        request.protocol_name not in (None, name)
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _version(member: Member) -> int:
    """The version of a member's own subscription."""
    protocols = member.classic_protocols
    return version_or_zero(protocols[0].metadata) if protocols else 0


def classic_assignment(
    partitions: Mapping[UUID, Iterable[int]], topics: KnownTopics, version: int
) -> bytes:
    """Return partitions, of topics that exist, as a classic member gets them."""
    by_name = {
        name: sorted(numbers)
        for topic_id, numbers in partitions.items()
        if (name := topics.topic_name(topic_id)) is not None
    }
    return assignment_bytes(dict(sorted(by_name.items())), version)


# ---- Heartbeat


def heartbeat(step: ConsumerStep, request: HeartbeatRequest) -> ErrorCode:
    """Prolong a session; the code says when the member has to join again. Raises KafkaError."""
    member = _classic_member(step.group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    keep_classic_alive(step, member)
    if not _has_step_to_take(step.group, member):
        return NO_ERROR
    await_join(step, member)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _has_step_to_take(group: ConsumerGroup, member: Member) -> bool:
    state = member.current.state
    if member.epoch < group.target_metadata.assignment_epoch:
        return True
    if state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member)


def _waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    """Whether somebody still has a partition that the member is to get."""
    assigned = member.assigned
    return any(
        each not in assigned.get(topic_id, ()) and group.owner_epoch(topic_id, each) != UNOWNED
        for topic_id, partitions in group.target(member.member_id).items()
        for each in partitions
    )


# ---- LeaveGroup


def leave(step: ConsumerStep, leaving: Iterable[Leaving]) -> list[ErrorCode]:
    """Remove members, also those of the new protocol; one code for each."""
    found: dict[str, Member] = {}
    codes = []
    for each in leaving:
        try:
            member = _leaving_member(step.group, each.member_id, each.group_instance_id)
        except KafkaError as refused:
            codes.append(refused.code)
        else:
            found[member.member_id] = member
            codes.append(NO_ERROR)
    if found:
        remove_members(step, list(found.values()))
    return codes


def _leaving_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    if instance_id is None:
        return known_member(group, member_id)
    if member_id:
        return known_instance(group, member_id, instance_id)
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


# ---- all of them


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    if instance_id is None:
        member = known_member(group, member_id)
    else:
        member = known_instance(group, member_id, instance_id)
    if not member.is_classic:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def _check_generation(member: Member, generation_id: int) -> None:
    if member.epoch != generation_id:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
