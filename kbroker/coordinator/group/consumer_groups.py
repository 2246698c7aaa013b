"""ConsumerGroups: makes the groups of the consumer protocol (KIP-848) of one broker, and wakes them
when their topics change.

Law: these groups are made here alone. Whoever serves all kinds of groups imports neither this nor
the machine below it: that happens with the first heartbeat of a member, or the first record of such
a group, as most brokers meet none and would pay with megabytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping

from kbroker.coordinator.consumer_group.assignors.assignor import Assignment
from kbroker.coordinator.consumer_group.assignors.loading import assignors_named
from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.replay import ConsumerGroupReplay
from kbroker.coordinator.consumer_group.step import MigrationPolicy, Surroundings, TargetJob
from kbroker.coordinator.consumer_group.subscribed_patterns import Found
from kbroker.coordinator.consumer_group.topic_followers import TopicFollowers
from kbroker.coordinator.group.classic_group import ClassicGroup
from kbroker.coordinator.group.cluster_topics import ClusterTopics
from kbroker.coordinator.group.consumer_group_services import ConsumerGroupServices
from kbroker.coordinator.group.coordinated_consumer_group import CoordinatedConsumerGroup
from kbroker.coordinator.group.offsets import GroupOffsets
from kbroker.coordinator.group.own_targets import OwnTargets
from kbroker.coordinator.group.store import GroupShard, GroupStore
from kbroker.coordinator.group.timely_matches import timely_matches
from kbroker.coordinator.runtime.timeline import Timeline
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.turns import ENTRIES, turn

_RESOLVED_AT_ONCE = 2


class ConsumerGroups:
    """Owned by the event loop; `given` is what each of these groups is given."""

    def __init__(
        self, store: GroupStore, metadata: MetadataCache, services: ConsumerGroupServices
    ) -> None:
        """Raises ConfigError for assignors that cannot be had."""
        self.store = store
        self.own_targets = OwnTargets(store.runtime.monotonic_ms)
        # Of threads that others need too.
        self._resolving = asyncio.Semaphore(_RESOLVED_AT_ONCE)
        self.followers = TopicFollowers()
        self._topics = ClusterTopics(metadata)
        self.given = Surroundings(
            settings_of=services.settings_of,
            max_size=services.max_size,
            topics=self._topics,
            assignors=assignors_named(services.assignors),
            large_target=services.large_target,
            large_write=services.large_write,
            pattern_refresh_ms=services.pattern_refresh_ms,
            match=services.match or timely_matches,
            migration=MigrationPolicy(services.migration_policy.lower()),
            classic=store.config,
        )
        metadata.on_topics_changed = self._topics_changed

    def create(self, group_id: str) -> CoordinatedConsumerGroup:
        """A new group, as GroupStore.create."""
        home = self.store.home_of(group_id)
        made = self.made(ConsumerGroup(group_id, home.timeline), home, GroupOffsets(home.timeline))
        self.store.keep(made)
        return made

    def successor_of(self, classic: ClassicGroup) -> CoordinatedConsumerGroup:
        """Return a group that may take the place of a classic one, whose offsets it has."""
        home = classic.home
        return self.made(ConsumerGroup(classic.group_id, home.timeline), home, classic.offsets)

    def made(
        self, group: ConsumerGroup, home: GroupShard, offsets: GroupOffsets
    ) -> CoordinatedConsumerGroup:
        """Return a group, also one that was loaded, which the store does not have yet."""
        return CoordinatedConsumerGroup(group, home, offsets, self)

    async def resolved(self, resolve: Callable[[], Awaitable[Found]]) -> Found:
        """Return the topics of patterns, once it is their turn; what will be asked of many topics
        at once is known then.
        """
        async with self._resolving:
            found = await resolve()
            await self.learn(frozenset[str]().union(*found.values()))
            return found

    @property
    def topics_known(self) -> int:
        """The number of topics of the cluster."""
        return self._topics.count

    async def learn(self, names: frozenset[str]) -> None:
        """Learn what will be asked of these topics at once, if they are many, with turns for others
        in between.
        """
        if len(names) > ENTRIES:
            for _ in self._topics.learning(names):
                await turn()

    def follow(self, topics: Iterable[str], group_id: str) -> None:
        """A group is to hear of changes of topics."""
        added = self.followers.follow(topics, group_id)
        if added:
            self.store.runtime.run_sliced(self._look_at(2 * added), "topics of groups")

    def _look_at(self, least: int) -> Iterator[None]:
        for topic, follower in self.followers.to_look_at(least):
            self._woken_by(topic, follower)
            yield

    def own_target(self, group_id: str, job: TargetJob) -> Awaitable[Mapping[str, Assignment]]:
        """The target of each member, from an assignor of the operator's. Raises AssignorError."""
        return self.own_targets.compute(group_id, job)

    def replay(self, timeline: Timeline) -> ConsumerGroupReplay:
        """Return what reads their records."""
        return ConsumerGroupReplay(timeline)

    def _topics_changed(self, topics: Collection[str]) -> None:
        """Topics have come or gone, or have another id, other partitions or racks: groups that
        subscribe to them look at that with their next heartbeat.
        """
        self._topics.changed(topics)
        for topic in topics:
            for group_id in self.followers.of(topic):
                woken = self._woken_by(topic, group_id)
                if woken is not None:
                    woken.attendance.must_look_at_topics = True

    def _woken_by(self, topic: str, group_id: str) -> CoordinatedConsumerGroup | None:
        """The group, if it is here and subscribes to the topic; any other is let go."""
        found = self.store.find(group_id)
        if isinstance(found, CoordinatedConsumerGroup) and not found.has_left(topic):
            return found
        self.followers.leave(topic, group_id)
        return None
