"""ConsumerGroupHeartbeat: join, go on, leave.

Pure. Law: the four things of a heartbeat happen in this order, each with its records: the member is
made or changed; the group gets a new epoch if its subscriptions or their topics have changed; a new
target is computed for it; the member goes a step towards its target. What a member has not said
again holds on; its assignment is told when it is another one, or if the member has said everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

from kbroker.coordinator.consumer_group.identity import (
    dynamic_member,
    known_instance,
    known_member,
    static_member,
)
from kbroker.coordinator.consumer_group.member import (
    AWAY,
    JOINING,
    LEFT,
    NOTHING,
    Member,
    OwnedPartitions,
)
from kbroker.coordinator.consumer_group.reconciliation import Towards, reconciled
from kbroker.coordinator.consumer_group.record_values import (
    GroupMetadata,
    MemberMetadata,
    MemberState,
    RecordKind,
)
from kbroker.coordinator.consumer_group.removal import remove_members
from kbroker.coordinator.consumer_group.sessions import keep_alive, watch_revocation
from kbroker.coordinator.consumer_group.step import ConsumerStep
from kbroker.coordinator.consumer_group.subscribed_patterns import (
    Visible,
    take_pattern,
    topics_of_patterns,
)
from kbroker.coordinator.consumer_group.target_assignment import (
    Target,
    counts_after,
    next_target,
)
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_NOT_SAID = -1  # a rebalance time-out that holds on


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Heartbeat:
    """A ConsumerGroupHeartbeat with what the shell knows about it."""

    request: ConsumerGroupHeartbeatRequest
    client_id: str
    client_host: str
    new_member_id: str  # to be used if the member has none yet
    visible: Visible | None = None  # None: the member may see all topics
    owned: OwnedPartitions | None = None  # the partitions it says it has; None if it does not say


def add_owned(
    owned: dict[UUID, list[int]], given: Iterable[ConsumerGroupHeartbeatRequest.TopicPartitions]
) -> None:
    """Add partitions that a member says it has, by topic id."""
    for topic in given:
        owned.setdefault(topic.topic_id, []).extend(topic.partitions)


def heartbeat(step: ConsumerStep, sent: Heartbeat) -> ConsumerGroupHeartbeatResponse:
    """A member joins, is alive, or goes. Raises KafkaError. The answer lacks the assignment that
    the member is to be told of, which is left in the step.
    """
    if sent.request.member_epoch in (LEFT, AWAY):
        return _leave(step, sent.request)
    return _go_on(step, sent)


def answer_at_rest(
    step: ConsumerStep, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> ConsumerGroupHeartbeatResponse | None:
    """The answer to a member that says nothing new while its group has nothing to do; None if it is
    not sure to be that of `heartbeat`, which would move the session of the member and nothing else.
    """
    group, attendance, epoch = step.group, step.attendance, request.member_epoch
    member = group.members.get(request.member_id)
    session = attendance.sessions.get(request.member_id)
    deadline_ms = step.now.monotonic_ms + step.settings.session_timeout_ms
    if (
        member is None
        or session is None
        or session.timer_ms is None
        or deadline_ms < session.timer_ms
        or epoch <= JOINING
        or request.topic_partitions is not None
        or not _says_nothing(request, client_id, client_host, member.metadata)
        or not member.is_reconciled_to(epoch)
        or not group.is_at_rest_in(epoch)
        or attendance.must_look_at_topics
        or epoch < attendance.looked_at_epoch
    ):
        return None
    session.deadline_ms = deadline_ms
    return ConsumerGroupHeartbeatResponse(
        member_id=request.member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=step.settings.heartbeat_interval_ms,
    )


def _go_on(step: ConsumerStep, sent: Heartbeat) -> ConsumerGroupHeartbeatResponse:
    request, owned = sent.request, sent.owned
    check_size(step, request.member_id)
    before = _sender(step, sent, owned)
    member = before._replace(metadata=_said(before.metadata, sent))
    has_other_names = take_metadata(step, before, member)
    pattern = take_pattern(step, before, member, sent.visible)
    has_other_topics = has_other_names or pattern.is_other
    group_epoch = group_epoch_after(step, before, member, has_other_names or pattern.is_known)
    target = next_target(step, group_epoch, before, member)
    after = reconcile(step, member, target, owned, has_other_topics)
    keep_alive(step, after.member_id)
    says_all = (
        request.rebalance_timeout_ms != _NOT_SAID
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        and owned is not None
    )
    if request.member_epoch == JOINING or says_all or after.assigned != before.assigned:
        step.told = after.assigned
    return ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=step.settings.heartbeat_interval_ms,
    )


def check_size(step: ConsumerStep, member_id: str) -> None:
    """Raise KafkaError GROUP_MAX_SIZE_REACHED if there is no room for one who is not a member."""
    members, most = step.group.members, step.given.max_size
    if len(members) >= most and member_id not in members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {most} members.",
        )


def _sender(step: ConsumerStep, sent: Heartbeat, owned: OwnedPartitions | None) -> Member:
    request = sent.request
    member_id = request.member_id or sent.new_member_id
    if request.instance_id is None:
        return dynamic_member(step.group, member_id, request.member_epoch, owned)
    return static_member(step, member_id, request.member_epoch, request.instance_id, owned)


def _said(before: MemberMetadata, sent: Heartbeat) -> MemberMetadata:
    """Return what a member has said of itself by now; the same object if that is nothing new."""
    request = sent.request
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    if _says_nothing(request, sent.client_id, sent.client_host, before):
        return before
    said = MemberMetadata(
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=sent.client_id,
        client_host=sent.client_host,
        subscribed_topic_names=(
            before.subscribed_topic_names if names is None else frozenset(names)
        ),
        subscribed_topic_regex=before.subscribed_topic_regex if pattern is None else pattern,
        rebalance_timeout_ms=(
            before.rebalance_timeout_ms if timeout_ms == _NOT_SAID else timeout_ms
        ),
        server_assignor=(
            before.server_assignor if request.server_assignor is None else request.server_assignor
        ),
    )
    return before if said == before else said


def _says_nothing(
    request: ConsumerGroupHeartbeatRequest,
    client_id: str,
    client_host: str,
    before: MemberMetadata,
) -> bool:
    return (
        request.rebalance_timeout_ms == _NOT_SAID
        and before.classic_member_metadata is None  # which ends with the first such heartbeat
        and client_id == before.client_id
        and client_host == before.client_host
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rack_id is None
        and request.instance_id is None
    )


def take_metadata(step: ConsumerStep, before: Member, member: Member) -> bool:
    """Write what is new; returns whether the member subscribes to other topics by their names."""
    if member.metadata is before.metadata:
        return False
    step.change(RecordKind.MEMBER_METADATA, member.metadata, member.member_id)
    names = member.metadata.subscribed_topic_names
    return names != before.metadata.subscribed_topic_names


def group_epoch_after(
    step: ConsumerStep, before: Member, member: Member, has_other_topics: bool
) -> int:
    """The epoch of the group, a new one if its topics are others or have changed. Topics of a
    pattern that is not resolved yet are not known to be others.
    """
    group, attendance = step.group, step.attendance
    is_stale = attendance.must_look_at_topics or group.epoch < attendance.looked_at_epoch
    if not (has_other_topics or is_stale):
        return group.epoch
    names, _ = counts_after(step, before, member)
    metadata_hash = step.given.topics.metadata_hash(
        {*names, *topics_of_patterns(step, before, member)}
    )
    epoch = group.epoch
    if has_other_topics or step.needs_target or metadata_hash != group.metadata.metadata_hash:
        epoch += 1
        step.change(RecordKind.GROUP_METADATA, GroupMetadata(epoch, metadata_hash))
    attendance.must_look_at_topics = False
    attendance.looked_at_epoch = epoch
    if group.has_partition_metadata:
        step.change(RecordKind.PARTITION_METADATA, None)
    return epoch


def reconcile(
    step: ConsumerStep,
    member: Member,
    target: Target,
    owned: OwnedPartitions | None,
    has_other_topics: bool,
) -> Member:
    """Take a member a step towards its target. One that speaks the classic protocol has its time to
    join again for what it must give up.
    """
    if not has_other_topics and member.is_reconciled_to(target.epoch):
        return member
    followed = step.given.topics.topic_ids(member.topic_names(step.group.resolved))
    towards = Towards(
        epoch=target.epoch,
        target=target.partitions,
        owner_epoch=step.group.owner_epoch,
        followed=followed,
        owned=owned,
        has_other_subscription=has_other_topics,
    )
    current = reconciled(member, towards)
    if current == member.current:
        return member
    after = member._replace(current=current)
    step.change(RecordKind.CURRENT_MEMBER_ASSIGNMENT, current, after.member_id)
    if current.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
        watch_revocation(step, after)
    return after


def told(
    assigned: Iterable[tuple[UUID, Collection[int]]],
) -> list[ConsumerGroupHeartbeatResponse.TopicPartitions]:
    """Partitions as they are told to a member."""
    return [
        ConsumerGroupHeartbeatResponse.TopicPartitions(
            topic_id=topic_id, partitions=list(partitions)
        )
        for topic_id, partitions in assigned
    ]


# ---- leaving


def _leave(
    step: ConsumerStep, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """A member goes for good, or a static one for a while."""
    group = step.group
    if request.instance_id is None:
        member = known_member(group, request.member_id)
    else:
        member = known_instance(group, request.member_id, request.instance_id)
    if request.member_epoch == AWAY and request.instance_id is not None:
        away = member.current._replace(member_epoch=AWAY, partitions_pending_revocation=NOTHING)
        step.change(RecordKind.CURRENT_MEMBER_ASSIGNMENT, away, member.member_id)
    else:
        remove_members(step, [member])
    return ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )
