"""Checks of whoever commits and reads offsets of a consumer group.

Pure. Law: members in their epoch; in the one before it for partitions that they had by then
(KIP-1251), as an answer with the new one may be on its way; outsiders while the group is empty.
"""

from __future__ import annotations

from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.member import Member
from kbroker.coordinator.consumer_group.step import KnownTopics
from kbroker.coordinator.group.coordinated_group import (
    FIRST_VERSION_WITH_EPOCHS,
    Committer,
    Offsets,
)
from kbroker.errors import NO_ERROR, ErrorCode
from kbroker.model import TopicPartition


def commit_error(
    group: ConsumerGroup, topics: KnownTopics, committer: Committer, offsets: Offsets
) -> ErrorCode:
    """NONE when the committer may commit these now."""
    _, member_id, _, epoch, api_version = committer
    if epoch < 0 and not group.members:
        return NO_ERROR
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not member.is_classic and api_version < FIRST_VERSION_WITH_EPOCHS:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return NO_ERROR
    if epoch > member.epoch:
        return _stale(member)
    had_all = all(_had(member, topics, place, epoch) for place, _ in offsets)
    return NO_ERROR if had_all else _stale(member)


def _had(member: Member, topics: KnownTopics, place: TopicPartition, epoch: int) -> bool:
    """Whether a member has, or gives up, a partition that it got in `epoch` or before."""
    topic_id = topics.topic_id(place.topic)
    if topic_id is None:
        return False
    for partitions in (member.assigned, member.revoking):
        since = partitions.get(topic_id, {}).get(place.partition)
        if since is not None:
            return since <= epoch
    return False


def transactional_commit_error(
    group: ConsumerGroup, topics: KnownTopics, committer: Committer, offsets: Offsets
) -> ErrorCode:
    """NONE when a producer may commit these in its transaction. One that names no member of the
    group is trusted, as old ones name none. None of them knows STALE_MEMBER_EPOCH.
    """
    _, member_id, instance_id, epoch, _ = committer
    if epoch == -1 and not member_id and instance_id is None:
        return NO_ERROR
    error = commit_error(group, topics, committer, offsets)
    is_stale = error is ErrorCode.STALE_MEMBER_EPOCH
    return ErrorCode.ILLEGAL_GENERATION if is_stale else error


def fetch_error(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """NONE for whoever names no member, and for a member in its epoch."""
    if member_id is None and epoch < 0:
        return NO_ERROR
    member = group.members.stored(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return NO_ERROR if epoch == member.epoch else _stale(member)


def _stale(member: Member) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
