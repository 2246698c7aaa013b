"""The target of a consumer group: who is to have which partition in an epoch.

Pure. Law: a target is for one epoch of the group, and computed of the members and topics of that
moment; of a large group that happens beside the loop, and its result counts only if the group is
still in that epoch and nothing of it was refused. Until a target is there members keep to the last.
Only members whose target is another one get a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from kbroker.coordinator.consumer_group.assignors.assignor import (
    Assignment,
    AssignorError,
    GroupSpec,
    MemberSpec,
    SubscriptionType,
    order_of_members,
)
from kbroker.coordinator.consumer_group.consumer_group import (
    NO_PARTITIONS,
    ConsumerGroup,
    counted,
)
from kbroker.coordinator.consumer_group.member import Member
from kbroker.coordinator.consumer_group.record_values import (
    Partitions,
    RecordKind,
    TargetAssignmentMetadata,
)
from kbroker.coordinator.consumer_group.step import (
    ConsumerStep,
    Counts,
    CountsAfter,
    FailedTarget,
    TargetJob,
    TargetNeededError,
)
from kbroker.coordinator.runtime.effects import Compute
from kbroker.errors import ErrorCode, KafkaError
from kbroker.java_hash import hash_map_order, java_hash, timeline_map_order

TOO_LARGE = "it is larger than a batch of the log may be"
_FIRST_WAIT_MS, _LONGEST_WAIT_MS = 1_000, 60_000
_NO_NAMES: frozenset[str] = frozenset()


class Target(NamedTuple):
    """The epoch and the partitions that one member is to reach."""

    epoch: int
    partitions: Partitions


def last_target(step: ConsumerStep, member: Member) -> Target:
    """The target that the log has for a member; a static one takes over that of who had its id."""
    group = step.group
    owner = member.member_id
    if member.instance_id is not None:
        owner = group.static_members.get(member.instance_id, "")
    return Target(group.target_metadata.assignment_epoch, group.target(owner))


def next_target(step: ConsumerStep, group_epoch: int, before: Member, member: Member) -> Target:
    """The target of `member`, which was `before` until now; a new one if the group is in another
    epoch, and the last one is older than the assignment interval. Raises KafkaError
    UNKNOWN_SERVER_ERROR if the assignor fails, and TargetNeededError from a step that can wait.
    """
    group = step.group
    is_there = group.target_metadata.assignment_epoch >= group_epoch
    if is_there or step.attendance.job is not None or not _is_due(step):
        return last_target(step, member)
    failed = step.attendance.failed
    if failed is not None and step.now.monotonic_ms < failed.not_before_ms:
        return _target_for_now(step, member, group_epoch, failed)
    job = _job(step, group_epoch, before, member)
    found = _found(step, job)
    if found is None:
        return last_target(step, member)
    take_target(step, job, found)
    return Target(group_epoch, found.get(member.member_id, NO_PARTITIONS))


def _found(step: ConsumerStep, job: TargetJob) -> Mapping[str, Assignment] | None:
    """The target of each member; None if the members keep to the last one for now."""
    computed = step.computed
    if job.is_own and computed is not None:
        if not computed.job.is_as(job):
            return None  # the next heartbeat finds the group at rest, perhaps
        if isinstance(computed.found, AssignorError):
            raise _refusal(job.epoch, computed.found)
        return computed.found
    if job.is_own and step.can_wait:
        raise TargetNeededError(job)
    if job.is_own or _size(job) >= step.given.large_target:
        step.attendance.job = job
        step.effects.append(Compute(job.assign, job))
        return None
    try:
        return job.assign()
    except AssignorError as error:
        raise _refusal(job.epoch, error) from error


def _target_for_now(
    step: ConsumerStep, member: Member, group_epoch: int, failed: FailedTarget
) -> Target:
    """The last target of who has one; who has none is refused rather than left to wait."""
    group = step.group
    before = group.static_members.get(member.instance_id or "", member.member_id)
    if failed.reason is None or before in group.targets:
        return last_target(step, member)
    raise _refusal(group_epoch, failed.reason)


def target_failed(step: ConsumerStep, reason: str | None) -> None:
    """A target that was computed beside the loop came to nothing: the next one waits, longer each
    time.
    """
    before = step.attendance.failed
    times = 1 if before is None else before.times + 1
    wait_ms = min(_FIRST_WAIT_MS * 2 ** (times - 1), _LONGEST_WAIT_MS)
    step.attendance.failed = FailedTarget(reason, times, step.now.monotonic_ms + wait_ms)


def _refusal(epoch: int, reason: object) -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        f"Failed to compute a new target assignment for epoch {epoch}: {reason}",
    )


def take_target(step: ConsumerStep, job: TargetJob, found: Mapping[str, Assignment]) -> None:
    """Write a target: what is new in it, and its epoch."""
    group = step.group
    for member_id in job.spec.members:
        target = found.get(member_id, NO_PARTITIONS)
        if group.targets.get(member_id) != target:
            step.change(RecordKind.TARGET_ASSIGNMENT_MEMBER, target, member_id)
    step.assignor = job.assignor.name
    metadata = TargetAssignmentMetadata(job.epoch, step.now.wall_ms)
    step.change(RecordKind.TARGET_ASSIGNMENT_METADATA, metadata)


def on_computed(step: ConsumerStep, job: TargetJob, found: Mapping[str, Assignment] | None) -> None:
    """A target was computed beside the loop; None if its assignor failed. If the group has gone on
    meanwhile it needs another one.
    """
    group, attendance = step.group, step.attendance
    if attendance.job is not job:
        return  # nobody waits for it any more
    attendance.job = None
    if found is None:
        target_failed(step, "its assignor has failed")
        return
    if group.target_metadata.assignment_epoch >= group.epoch:
        return
    if group.epoch == job.epoch:
        take_target(step, job, found)
    elif group.members:
        kind = subscription_type(step, None, None)
        again = _make_job(step, group.epoch, dict(group.members.items()), kind)
        attendance.job = again
        step.effects.append(Compute(again.assign, again))


def subscription_type(
    step: ConsumerStep, before: Member | None, after: Member | None
) -> SubscriptionType:
    """Whether all members subscribe to the same, once `before` has become `after`."""
    group = step.group
    names, patterns = counts_after(step, before, after)
    count = len(group.members)
    if after is not None and after.member_id not in group.members:
        replaced = after.instance_id is not None and after.instance_id in group.static_members
        count += not replaced
    if not patterns:
        is_same = all(each == count for each in names.values())
    else:
        is_same = not names and next(iter(patterns.values())) == count
    return SubscriptionType.HOMOGENEOUS if is_same else SubscriptionType.HETEROGENEOUS


def counts_after(step: ConsumerStep, before: Member | None, after: Member | None) -> Counts:
    """How many members subscribe to each topic by its name, and to each pattern, after a change."""
    known = step.counts
    if known is None or known.before is not before or known.after is not after:
        known = step.counts = CountsAfter(before, after, _counts(step.group, before, after))
    return known.counts


def _counts(group: ConsumerGroup, before: Member | None, after: Member | None) -> Counts:
    old = _NO_NAMES if before is None else before.metadata.subscribed_topic_names
    new = _NO_NAMES if after is None else after.metadata.subscribed_topic_names
    come, counts = new - old, group.topic_counts
    names = dict.fromkeys(come, 1)
    names.update(counts.items())
    for topic in come:
        if topic in counts:
            names[topic] += 1
    patterns = [
        (member.pattern, by)
        for member, by in ((before, -1), (after, 1))
        if member is not None and member.pattern
    ]
    gone = ((topic, -1) for topic in old - new)
    return counted(names, *gone), counted(group.pattern_counts, *patterns)


def _is_due(step: ConsumerStep) -> bool:
    """Whether the last target is old enough. One of the future was computed by another clock, or
    before this one was set back: nobody waits for that time to come.
    """
    last_ms = step.group.target_metadata.assignment_timestamp_ms
    interval_ms = step.settings.assignment_interval_ms
    return not last_ms or not interval_ms or not 0 <= step.now.wall_ms - last_ms < interval_ms


def _job(step: ConsumerStep, epoch: int, before: Member, member: Member) -> TargetJob:
    group = step.group
    members = dict(group.members.items())
    if member.instance_id is not None:  # it takes over from whoever has its instance id
        owner = group.static_members.get(member.instance_id, member.member_id)
        if owner != member.member_id:
            del members[owner]
    members[member.member_id] = member
    kind = subscription_type(step, before, member)
    return _make_job(step, epoch, members, kind, before)


def _make_job(
    step: ConsumerStep,
    epoch: int,
    members: Mapping[str, Member],
    kind: SubscriptionType,
    before: Member | None = None,
) -> TargetJob:
    group, given = step.group, step.given
    ids = _TopicIds(step)
    specs = {}
    known = [each for each in members if each in group.members]
    joining = next((each for each in members if each not in group.members), None)
    for member_id in order_of_members(known, joining):
        member = members[member_id]
        owner = member_id
        if member.instance_id is not None:
            owner = group.static_members.get(member.instance_id, member_id)
        specs[member_id] = MemberSpec(
            instance_id=member.instance_id,
            rack_id=member.metadata.rack_id,
            topic_ids=ids.of(member),
            assigned=group.target(owner),  # type: ignore[arg-type]  # sets, as they are read so
        )
    name = _preferred(step, before, None if before is None else members.get(before.member_id))
    assignor = given.assignors.get(name) if name else None
    return TargetJob(
        epoch=epoch,
        assignor=assignor or given.assignors.default,
        spec=GroupSpec(specs, kind),
        topics=given.topics.topics(ids.of_all()),
    )


class _TopicIds:
    """The ids of topics that members subscribe to; most members have the same."""

    def __init__(self, step: ConsumerStep) -> None:
        self._resolved = step.group.resolved
        self._topic_ids = step.given.topics.topic_ids
        self._known: dict[frozenset[str], frozenset[UUID]] = {}

    def of(self, member: Member) -> frozenset[UUID]:
        names = member.topic_names(self._resolved)
        found = self._known.get(names)
        if found is None:
            found = self._known[names] = self._topic_ids(names)
        return found

    def of_all(self) -> frozenset[UUID]:
        """The ids of the topics that anybody subscribes to who was asked for."""
        return frozenset[UUID]().union(*self._known.values())


def _preferred(step: ConsumerStep, before: Member | None, after: Member | None) -> str | None:
    """The assignor that most members ask for; of several, the first in the copy that Kafka makes of
    its table.
    """
    changes = [
        (member.metadata.server_assignor, by)
        for member, by in ((before, -1), (after, 1))
        if member is not None and member.metadata.server_assignor is not None
    ]
    known = step.group.assignor_counts
    counts = counted(known, *changes)
    if len(counts) <= 1:
        return next(iter(counts), None)
    come = dict.fromkeys([*timeline_map_order(known, java_hash), *counts])
    in_order = [name for name in hash_map_order(come, len(known), java_hash) if name in counts]
    return max(in_order, key=lambda name: counts[name], default=None)


def _size(job: TargetJob) -> int:
    """About how much work it is."""
    return len(job.spec.members) + job.topics.all_partitions
