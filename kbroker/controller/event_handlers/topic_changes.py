"""TopicChanges: the active controller's work when topics or partitions come, go or change.

Law: as for brokers, a node read with a watch is read again when the watch fires. In the node of a
known topic only added partitions count: replicas of known partitions are changed by a reassignment,
and other edits by hand have no effect until another controller reads the node (as in Kafka). A
topic without an id gets one, unless the protocol is older than ids; one whose id was lost to an old
tool gets it back. A topic whose node was removed under the controller is forgotten, and the brokers
serve it no longer; its records stay on disk, as nobody asked to have them deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from uuid import uuid4

from kbroker.controller.event_handlers.cluster_watches import ClusterWatches
from kbroker.controller.event_handlers.state_changes import StateChanges
from kbroker.controller.state_machines import events
from kbroker.controller.state_machines.controller_context import ReplicaState
from kbroker.controller.state_machines.partition_state_machine import (
    ElectionStrategy,
    remember_read,
)
from kbroker.model import ZERO_UUID, TopicPartition
from kbroker.zk.nodes.zk_notifications import ZkNotifications
from kbroker.zk.tree import NodeTooLargeError, NoNodeError
from kbroker.zk.zk_paths import TopicAssignment

_log = logging.getLogger(__name__)


class TopicChanges:
    """The handlers of these events. Owned by the controller's queue."""

    def __init__(self, states: StateChanges, watches: ClusterWatches) -> None:
        self._states = states
        self._context = states.context
        self._zk = states.zk
        self._notifications = ZkNotifications(states.zk)
        self._watches = watches

    async def read(self) -> None:
        """Take over all topics, with the states of their partitions."""
        await self._take_over(await self._zk.topics(self._watches.topics))
        self._context.leadership = await self._zk.partition_states(self._context.all_partitions())

    async def on_topic_change(self, _event: events.TopicChange | None = None) -> None:
        """Compare the topics with those known."""
        found = set(await self._zk.topics(self._watches.topics))
        known = set(self._context.assignments)
        await self._forget(sorted(known - found))
        new = await self._take_over(sorted(found - known))
        await self.on_new_partitions(
            [partition for topic in new for partition in self._context.partitions_of(topic)]
        )

    async def on_partition_modifications(self, event: events.PartitionModifications) -> None:
        """The node of one topic was changed, or went and perhaps came back."""
        context, topic = self._context, event.topic
        found = await self._zk.topic_assignment(topic, self._watches.topic)
        if found is None:
            return  # if it is gone, its parent reports it
        known = context.assignments.get(topic)
        if known is None:
            await self.on_topic_change()  # it could not be read before
            return
        if found.topic_id not in (ZERO_UUID, context.topic_id(topic)):
            await self._forget([topic])
            await self.on_topic_change()
            return
        added = {p: a for p, a in found.partitions.items() if p not in known}
        if context.is_queued_for_deletion(topic):
            if added:  # a topic that is deleted does not grow any more
                await self._write(topic)
            return
        context.add_partitions(topic, added)
        if found.topic_id != context.topic_id(topic):
            await self._write(topic)
        await self.on_new_partitions([TopicPartition(topic, p) for p in sorted(added)])

    async def on_new_partitions(self, partitions: list[TopicPartition]) -> None:
        """Lead partitions that are in the assignments but have never been led."""
        if not partitions:
            return
        replicas = self._context.replicas_of(partitions)
        self._states.partitions_new(partitions)
        self._states.replicas_new(replicas)
        await self._states.partitions_online(partitions, ElectionStrategy.OFFLINE)
        self._states.replicas_online(
            r for r in replicas if self._context.replica_state(r) is ReplicaState.NEW
        )

    async def on_isr_changes(
        self, _event: events.IsrChangeNotification
    ) -> frozenset[TopicPartition]:
        """Brokers without AlterPartition have written ISRs: read and announce them.

        Returns the partitions.
        """
        watch = self._watches.isr_changes
        paths, named = await self._notifications.isr_changes(watch)
        known = [partition for partition in named if partition in self._context.leadership]
        remember_read(self._context, await self._zk.partition_states(known))
        if known:
            self._states.send_metadata(self._context.live_brokers, known)
        await self._notifications.delete(paths, self._context.epoch_version)
        return frozenset(known)

    # ---- inside

    async def _take_over(self, topics: list[str]) -> list[str]:
        """Read these topics; returns those that could be read."""
        taken = []
        found = await self._zk.topic_assignments(topics, self._watches.topic)
        for topic, assignment in found.items():
            self._context.set_assignment(topic, assignment)
            # One without an id was made by a Kafka older than 2.8 (KIP-516).
            if assignment.topic_id == ZERO_UUID and self._context.gives_topic_ids:
                self._context.set_assignment(topic, replace(assignment, topic_id=uuid4()))
                if not await self._write(topic):
                    self._context.set_assignment(topic, assignment)
            taken.append(topic)
        return taken

    async def _write(self, topic: str) -> bool:
        """Write a topic's facts into its node; False if they do not fit."""
        context = self._context
        assignment = TopicAssignment(
            topic_id=context.topic_id(topic), partitions=dict(context.assignments[topic])
        )
        try:
            await self._zk.set_topic_assignment(topic, assignment, context.epoch_version)
        except NodeTooLargeError as error:
            _log.error(
                "topic %s stays without an id, its node would be too large: %r", topic, error
            )
            return False
        except NoNodeError:
            pass  # gone by now, and a watch will say so
        return True

    async def _forget(self, topics: Iterable[str]) -> None:
        for topic in topics:
            _log.warning("topic %s was removed from the tree: it is no longer served", topic)
            was_queued = self._context.is_queued_for_deletion(topic)
            self._states.topic_removed(topic)
            if was_queued:
                await self._zk.delete_topic_deletions([topic], self._context.epoch_version)
