"""Known mistakes of consumer groups, each a context manager that makes a coordinator commit it.

The simulation must find every one of them: otherwise that it finds nothing means nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from kbroker.coordinator.consumer_group import (
    heartbeat,
    identity,
    reconciliation,
    removal,
    sessions,
    target_assignment,
)
from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.member import AWAY, Member
from kbroker.coordinator.consumer_group.record_values import GroupMetadata, RecordKind
from kbroker.coordinator.consumer_group.target_assignment import Target
from kbroker.coordinator.consumer_group.topic_followers import TopicFollowers
from kbroker.coordinator.group import (
    cluster_topics,
    consumer_group_commits,
    coordinated_consumer_group,
)
from kbroker.coordinator.group.cluster_topics import ClusterTopics
from kbroker.coordinator.group.coordinated_consumer_group import CoordinatedConsumerGroup
from kbroker.coordinator.runtime.effects import Reply
from kbroker.coordinator.runtime.shard import Shard
from kbroker.coordinator.runtime.timeline import Timeline, TimelineDict
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

Mistake = Callable[[], AbstractContextManager[Any]]


def assigned_before_revoked() -> AbstractContextManager[Any]:
    """A partition counts as given up before the member says so."""
    return patch.object(reconciliation, "_owns_any", lambda _owned, _revoking: False)


def given_though_owned() -> AbstractContextManager[Any]:
    """A partition is given to a member while another has it."""
    return patch.object(ConsumerGroup, "owner_epoch", lambda *_: reconciliation.UNOWNED)


def _kept_beside(name: str) -> AbstractContextManager[Any]:
    original = ConsumerGroup.__init__

    def init(self: ConsumerGroup, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
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

    def at_once(
        _self: CoordinatedConsumerGroup, correlation: object, response: Any, _refused: Any
    ) -> list[Reply]:
        return [Reply(correlation, response)]

    return patch.object(CoordinatedConsumerGroup, "_when_stored", at_once)


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
    original = heartbeat._go_on

    def go_on(step: Any, sent: Any) -> Any:
        before = step.group.members.get(sent.request.member_id)
        answer = original(step, sent)
        is_repeated = before is not None and not any(
            kind is RecordKind.CURRENT_MEMBER_ASSIGNMENT for kind, _, _ in step.changes
        )
        if is_repeated or not step.told:
            step.told = None
        return answer

    return patch.object(heartbeat, "_go_on", go_on)


def target_of_another_epoch() -> AbstractContextManager[Any]:
    """A target that was computed beside the loop counts though the group went on."""

    def on_computed(step: Any, job: Any, found: Any) -> None:
        step.attendance.job = None
        if found is not None:
            target_assignment.take_target(step, replace(job, epoch=step.group.epoch), found)

    return patch.object(coordinated_consumer_group, "on_computed", on_computed)


def old_epoch_accepted() -> AbstractContextManager[Any]:
    """A member goes on in an epoch that is over."""

    def check(member: Member, epoch: int, owned: Any) -> None:
        original(member, max(epoch, member.epoch) if epoch else epoch, owned)

    original = identity.check_epoch
    return patch.object(identity, "check_epoch", check)


@contextmanager
def timer_of_a_replaced_member_fires() -> Iterator[None]:
    """The session of a member that has left for a while ends that of its successor."""

    def replaced(step: Any, before: Member, member_id: str) -> Member:
        instances[before.member_id] = before.instance_id
        return original_place(step, before, member_id)

    def on_timer(step: Any, key: Any) -> None:
        successor = step.group.static_member(instances.get(key.member_id) or "")
        if key.member_id not in step.group.members and successor is not None:
            removal.remove_members(step, [successor])
        else:
            original(step, key)

    instances: dict[str, Any] = {}
    original, original_place = sessions.on_timer, identity.replaced_member
    with (
        patch.object(sessions, "on_timer", on_timer),
        patch.object(identity, "replaced_member", replaced),
    ):
        yield


def hash_ignores_racks() -> AbstractContextManager[Any]:
    """A topic whose replicas move to other racks stays the same."""

    def topic_hash(name: str, topic_id: Any, count: int, _racks: Any = ()) -> int:
        return original(name, topic_id, count)

    original = cluster_topics.topic_hash
    return patch.object(cluster_topics, "topic_hash", topic_hash)


def stale_commits_taken() -> AbstractContextManager[Any]:
    """A member may commit in an old epoch what it does not have any more."""
    return patch.object(consumer_group_commits, "_had", lambda *_: True)


def offsets_of_followed_topics_expire() -> AbstractContextManager[Any]:
    """Offsets expire by their age alone."""

    def expired(self: Any, now_ms: int, retention_ms: int, among: Any = None) -> Any:
        return self.offsets.expired(
            now_ms, retention_ms, lambda each: each.commit_timestamp_ms, frozenset(), among
        )

    return patch.object(CoordinatedConsumerGroup, "expired", expired)


def who_is_away_is_removed() -> AbstractContextManager[Any]:
    """A static member that leaves for a while is gone."""

    def leave(step: Any, request: Any) -> Any:
        if request.member_epoch != AWAY:
            return original(step, request)
        member = identity.known_instance(step.group, request.member_id, request.instance_id)
        removal.remove_members(step, [member])
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=AWAY)

    original = heartbeat._leave
    return patch.object(heartbeat, "_leave", leave)


def revocation_waited_for_without_end() -> AbstractContextManager[Any]:
    """A member may take as long as it likes to give partitions up."""
    return patch.object(sessions, "_on_rebalance_timer", lambda *_: None)


def overtaken_while_records_are_made() -> AbstractContextManager[Any]:
    """A write does not wait for one whose records are being made."""
    original = Shard.write_when_made

    def write(self: Shard[Any], *args: Any) -> None:
        original(self, *args)
        self._is_open = True

    return patch.object(Shard, "write_when_made", write)


def new_topics_not_matched() -> AbstractContextManager[Any]:
    """Patterns are not resolved again when topics come."""
    return patch.object(
        ClusterTopics,
        "arrivals",
        property(lambda _self: 0, lambda _self, _count: None),
        create=True,
    )


def end_of_a_group_leaves_its_target() -> AbstractContextManager[Any]:
    """A member that joins while its group is being deleted gets the target that is gone."""

    def take(self: ConsumerGroup, _name: str, value: Any) -> None:
        self._facts.pop(RecordKind.GROUP_METADATA, None)
        if value is not None:
            self._facts[RecordKind.GROUP_METADATA] = value

    return patch.object(ConsumerGroup, "_take_metadata", take)


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
    old_epoch_accepted,
    timer_of_a_replaced_member_fires,
    hash_ignores_racks,
    stale_commits_taken,
    offsets_of_followed_topics_expire,
    who_is_away_is_removed,
    revocation_waited_for_without_end,
    overtaken_while_records_are_made,
    new_topics_not_matched,
    end_of_a_group_leaves_its_target,
]
