"""TopicDeletions: carries out the decisions of the TopicDeletionManager."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from kbroker.controller.event_handlers.cluster_watches import ClusterWatches
from kbroker.controller.event_handlers.state_changes import StateChanges, in_parts
from kbroker.controller.state_machines import events
from kbroker.controller.state_machines.controller_context import Replica, ReplicaState
from kbroker.controller.state_machines.topic_deletion_manager import (
    CompleteDeletion,
    DeletionStep,
    RetryDeletion,
    TopicDeletionManager,
)
from kbroker.turns import ENTRIES, turn

_log = logging.getLogger(__name__)

_TOPICS_AT_ONCE = 64  # a millisecond, if they have few partitions


class TopicDeletions:
    """Deletes topics. Owned by the controller's queue."""

    def __init__(self, states: StateChanges, watches: ClusterWatches, *, enabled: bool) -> None:
        self._states = states
        self._context = states.context
        self._zk = states.zk
        self._watches = watches
        self._manager = TopicDeletionManager(states.context, enabled=enabled)

    async def read(self) -> None:
        """Take over the requested deletions."""
        context = self._context
        asked = await self._zk.topic_deletions(self._watches.deletions)
        refused = {t for t in asked if t not in context.assignments or not self._manager.enabled}
        if refused:
            _log.warning(
                "not deleted, as unknown or not allowed (delete.topic.enable): %.500s",
                sorted(refused),
            )
            await self._zk.delete_topic_deletions(sorted(refused), context.epoch_version)
        self._manager.enqueue(
            t for t in asked if t not in refused and not context.is_queued_for_deletion(t)
        )

    async def resume(self) -> None:
        await self._resume()

    async def on_topic_deletion(self, _event: events.TopicDeletion) -> None:
        """Somebody wants a topic deleted."""
        await self.read()
        await self.resume()

    async def on_answer(self, event: events.TopicDeletionStopReplicaResponseReceived) -> None:
        """A broker has deleted replicas, or could not.

        One that has registered again since is asked again.
        """
        if not self._context.is_registered(event.broker_id, event.broker_epoch):
            return
        async for some in in_parts([Replica(p, event.broker_id) for p in event.deleted]):
            self._states.replicas.move(some, ReplicaState.DELETION_SUCCESSFUL)
        if event.failed:
            await self.fail([Replica(p, event.broker_id) for p in event.failed])
        else:
            await self._resume({partition.topic for partition in event.deleted})

    async def fail(self, replicas: Iterable[Replica]) -> None:
        """Replicas cannot be deleted now: their topics wait."""
        failed = list(replicas)
        self._states.replicas.move(failed, ReplicaState.DELETION_INELIGIBLE)
        self._manager.mark_ineligible({r.topic_partition.topic for r in failed})
        await self._resume()

    async def retry(self, topics: Iterable[str]) -> None:
        """Brokers are back: try again."""
        self._manager.make_eligible(topics)
        await self._resume()

    async def _resume(self, topics: Iterable[str] | None = None) -> None:
        before: list[DeletionStep] = []
        while steps := await self._due(topics):
            if steps == before:
                _log.error("topics cannot be deleted yet, trying again: %.500s", steps)
                return
            for number, some in enumerate(self._together(steps)):
                if number:
                    await turn()
                await self._carry_out(some)
            before = steps

    async def _due(self, topics: Iterable[str] | None) -> list[DeletionStep]:
        steps: list[DeletionStep] = []
        for number, step in enumerate(self._manager.due(topics), 1):
            if step is not None:
                steps.append(step)
            if number % _TOPICS_AT_ONCE == 0:
                await turn()
        return steps

    def _together(self, steps: Iterable[DeletionStep]) -> Iterator[list[DeletionStep]]:
        """Steps of one kind for as many topics as others can wait for: alone, each write to the
        tree, and each removed log, would wait for the disk.
        """
        by_kind: dict[type[DeletionStep], list[DeletionStep]] = {}
        for step in steps:
            by_kind.setdefault(type(step), []).append(step)
        for alike in by_kind.values():
            some: list[DeletionStep] = []
            partitions = 0
            for step in alike:
                some.append(step)
                partitions += 1 + len(self._context.assignments.get(step.topic, ()))
                if partitions >= ENTRIES:
                    yield some
                    some, partitions = [], 0
            if some:
                yield some

    async def _carry_out(self, steps: Sequence[DeletionStep]) -> None:
        topics = [step.topic for step in steps]
        if isinstance(steps[0], CompleteDeletion):
            await self._complete(topics)
        elif isinstance(steps[0], RetryDeletion):
            waiting = [r for s in steps if isinstance(s, RetryDeletion) for r in s.replicas]
            await self._states.replicas_offline(waiting)
        else:
            await self._start(topics)

    async def _start(self, topics: Sequence[str]) -> None:
        context = self._context
        begun = [t for t in topics if t not in context.topics_with_deletion_started]
        if begun:
            partitions = [p for topic in begun for p in context.partitions_of(topic)]
            self._states.send_metadata(context.live_brokers, partitions)
            self._states.partitions_offline(partitions)
            self._states.partitions_gone(partitions)
            context.topics_with_deletion_started.update(begun)
        dead = {topic: self._manager.dead_replicas(topic) for topic in topics}
        going = [
            r
            for topic in topics
            for r in context.replicas_of_topic(topic)
            if r not in dead[topic]
            and context.replica_state(r) is not ReplicaState.DELETION_SUCCESSFUL
        ]
        for replicas in dead.values():
            self._states.replicas.move(replicas, ReplicaState.DELETION_INELIGIBLE)
        await self._states.replicas_offline(going)
        self._states.replicas_deletion_started(going)
        self._manager.mark_ineligible(topic for topic, replicas in dead.items() if replicas)

    async def _complete(self, topics: Sequence[str]) -> None:
        context = self._context
        for topic in topics:
            replicas = context.replicas_in_state(topic, ReplicaState.DELETION_SUCCESSFUL)
            self._states.replicas.move(replicas, ReplicaState.NON_EXISTENT)
        partitions = {topic: list(context.assignments.get(topic, ())) for topic in topics}
        await self._zk.delete_topics(partitions, context.epoch_version)
        for topic in topics:
            context.remove_topic(topic)
            _log.info("topic %s is deleted", topic)
