"""Known mistakes of consumer groups, each a context manager that makes a coordinator commit it.

The simulation must find every one of them: otherwise that it finds nothing means nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from kbroker.coordinator.consumer_group import (
    heartbeat,
    reconciliation,
    removal,
    sessions,
    target_assignment,
)
from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.record_values import GroupMetadata, RecordKind
from kbroker.coordinator.consumer_group.target_assignment import Target
from kbroker.coordinator.consumer_group.topic_followers import TopicFollowers
from kbroker.coordinator.group import coordinated_consumer_group
from kbroker.coordinator.group.cluster_topics import ClusterTopics
from kbroker.coordinator.group.consumer_group_requests import ConsumerGroupRequests
from kbroker.coordinator.runtime.timeline import Timeline, TimelineDict

Mistake = Callable[[], AbstractContextManager[Any]]


def assigned_before_revoked() -> AbstractContextManager[Any]:
    """A partition counts as given up before the member says so."""
    return patch.object(reconciliation, "_owns_any", lambda _owned, _revoking: False)


def given_though_owned() -> AbstractContextManager[Any]:
    """A partition is given to a member while another has it."""
    return patch.object(reconciliation, "_is_free", lambda *_: True)


def _kept_beside(name: str) -> AbstractContextManager[Any]:
    original = ConsumerGroup.__init__

    def init(self: ConsumerGroup, *args: Any) -> None:
        original(self, *args)
        setattr(self, name, TimelineDict(Timeline()))

    return patch.object(ConsumerGroup, "__init__", init)


def owners_not_rolled_back() -> AbstractContextManager[Any]:
    """Who owns a partition does not follow a refused write."""
    return _kept_beside("owners")


def subscribers_not_rolled_back() -> AbstractContextManager[Any]:
    """How many members follow a topic does not follow a refused write."""
    return _kept_beside("topic_counts")


def static_members_not_rolled_back() -> AbstractContextManager[Any]:
    """Who has an instance id does not follow a refused write."""
    return _kept_beside("static_members")


def sessions_not_started_at_load() -> AbstractContextManager[Any]:
    """Members that were loaded are never missed."""
    return patch.object(sessions, "start", lambda _step: None)


def refused_timers_forgotten() -> AbstractContextManager[Any]:
    """A member whose end the log refuses is never missed again."""
    return patch.object(sessions, "restart", lambda _step: None)


def answered_before_stored() -> AbstractContextManager[Any]:
    """An answer that writes nothing does not wait for what it rests on."""
    return patch.object(ConsumerGroupRequests, "_when_stored", lambda _self, _group, answer: answer)


def hash_of_an_older_topic() -> AbstractContextManager[Any]:
    """The hash of a topic is not computed again when it changes."""
    return patch.object(ClusterTopics, "changed", lambda _self, _names: None)


def followers_forgotten() -> AbstractContextManager[Any]:
    """Groups do not hear of topics that change."""
    return patch.object(TopicFollowers, "of", lambda _self, _topic: [])


def removal_without_epoch() -> AbstractContextManager[Any]:
    """The partitions of a member that is gone are given to nobody."""

    def metadata(epoch: int, metadata_hash: int) -> GroupMetadata:
        return GroupMetadata(epoch - 1, metadata_hash)

    return patch.object(removal, "GroupMetadata", metadata)


def last_target_taken() -> AbstractContextManager[Any]:
    """A member goes to the new epoch with its partitions of the last one."""
    original = target_assignment.next_target

    def target(step: Any, group_epoch: int, before: Any, member: Any) -> Target:
        found = original(step, group_epoch, before, member)
        return Target(found.epoch, step.group.target(member.member_id))

    return patch.object(heartbeat, "next_target", target)


def lost_answers_not_repeated() -> AbstractContextManager[Any]:
    """An assignment is told once, and not again to a member that says everything."""
    original = heartbeat._told

    def told(assigned: Any) -> Any:
        return original(assigned) if assigned else None

    def go_on(step: Any, sent: Any) -> Any:
        before = step.group.members.get(sent.request.member_id)
        answer = original_go_on(step, sent)
        if before is not None and not any(
            kind is RecordKind.CURRENT_MEMBER_ASSIGNMENT for kind, _, _ in step.changes
        ):
            answer.assignment = None
        return answer

    original_go_on = heartbeat._go_on
    return patch.multiple(heartbeat, _told=told, _go_on=go_on)


def target_of_another_epoch() -> AbstractContextManager[Any]:
    """A target that was computed beside the loop counts though the group went on."""

    def on_computed(step: Any, job: Any, found: Any) -> None:
        step.attendance.job = None
        if found is not None:
            target_assignment.take_target(step, replace(job, epoch=step.group.epoch), found)

    return patch.object(coordinated_consumer_group, "on_computed", on_computed)


PLANTED: list[Mistake] = [
    assigned_before_revoked,
    given_though_owned,
    owners_not_rolled_back,
    subscribers_not_rolled_back,
    static_members_not_rolled_back,
    sessions_not_started_at_load,
    refused_timers_forgotten,
    answered_before_stored,
    hash_of_an_older_topic,
    followers_forgotten,
    removal_without_epoch,
    last_target_taken,
    lost_answers_not_repeated,
    target_of_another_epoch,
]
