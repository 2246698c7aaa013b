"""ClusterChanges: what an active controller does when brokers, topics or partitions come and go.

Events are dispatched by their type from one table; other files register their handlers in it.

Law: lives as long as this broker is controller, sees one event at a time. Everything it reads with
a watch it reads again when the watch fires, so a change is never missed; a change seen twice does
nothing the second time.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar
from uuid import uuid4

from kbroker.controller.machines import events
from kbroker.controller.machines.controller_context import (
    ControllerContext,
    Replica,
    ReplicaState,
)
from kbroker.controller.machines.events import Event
from kbroker.controller.machines.partition_state_machine import ElectionStrategy
from kbroker.controller.state_changes import StateChanges
from kbroker.controller.topic_deletions import TopicDeletions
from kbroker.model import ZERO_UUID, Broker, ReplicaAssignment, TopicPartition
from kbroker.zk.tree import EventType, WatchEvent
from kbroker.zk.zk_paths import ZnodeFormatError

log = logging.getLogger(__name__)

E = TypeVar("E", bound=Event)


class ClusterChanges:
    """The event handlers. Owned by the controller's queue."""

    def __init__(
        self, states: StateChanges, *, put: Callable[[Event], object], delete_topic_enable: bool
    ) -> None:
        self.context: ControllerContext = states.context
        self._states = states
        self._zk = states.zk
        self._put = put
        self._deletions = TopicDeletions(states, put, enabled=delete_topic_enable)
        self._handlers: dict[type[Event], Callable[[Any], Awaitable[object]]] = {}
        self._register_all()

    async def start(self) -> None:
        """Take over: read the cluster, set up the states, tell the brokers, end what was begun."""
        await self._read_cluster()
        context = self.context
        self._states.send_metadata(context.live_brokers)
        await self._start_replicas()
        self._states.partitions.initialize()
        await self._states.partitions_online(
            context.partitions_needing_leader(), ElectionStrategy.OFFLINE
        )
        await self._deletions.read()
        await self._zk.create_feature()

    async def stop(self) -> None:
        """Another controller takes over."""
        await self._states.channels.stop()

    def led_with_others(self, broker_id: int) -> list[TopicPartition]:
        """Partitions a broker leads that have further replicas."""
        return [
            partition
            for partition, known in self.context.leadership.items()
            if known.leader_and_isr.leader == broker_id
            and len(self.context.assignment(partition).replicas) > 1
        ]

    def register(self, kind: type[E], handler: Callable[[E], Awaitable[object]]) -> None:
        """Let `handler` work the events of one type; what it returns is the event's answer."""
        assert kind not in self._handlers, kind
        self._handlers[kind] = handler

    async def on(self, event: Event) -> object:
        """Work one event; returns its answer, None for most."""
        handler = self._handlers.get(type(event))
        assert handler is not None, event
        return await handler(event)

    def _register_all(self) -> None:
        self.register(events.BrokerChange, self._on_broker_change)
        self.register(events.TopicChange, self._on_topic_change)
        self.register(events.PartitionModifications, self._on_partition_modifications)
        self.register(events.TopicDeletion, self._on_topic_deletion)
        self.register(events.TopicDeletionStopReplicaResponseReceived, self._deletions.on_answer)
        self.register(events.LeaderAndIsrResponseReceived, self._on_leader_and_isr_response)
        self.register(events.ReplicaLeaderElection, self._on_replica_leader_election)
        self.register(events.ControlledShutdown, self._on_controlled_shutdown)

    # ---- start

    async def _read_cluster(self) -> None:
        context = self.context
        brokers = await self._zk.all_brokers(self._on_brokers_event)
        for broker in brokers:
            context.live_brokers[broker.broker_id] = broker
            self._states.channels.add_broker(broker)
        for topic in await self._zk.topics(self._on_topics_event):
            await self._read_topic(topic)
        context.leadership = await self._zk.partition_states(context.all_partitions())

    async def _start_replicas(self) -> None:
        context = self.context
        self._states.replicas.initialize()
        replicas = context.replicas_of(context.all_partitions())
        self._states.replicas_online(r for r in replicas if context.is_replica_online(r))
        await self._states.replicas_offline(
            [r for r in replicas if not context.is_replica_online(r)]
        )

    async def _read_topic(self, topic: str) -> bool:
        try:
            assignment = await self._zk.topic_assignment(topic, self._on_topic_event)
        except ZnodeFormatError as error:
            # Left alone until its node changes; the other topics must not suffer from it.
            log.error("topic left aside: %s", error)
            return False
        if assignment is None:
            return False
        if assignment.topic_id == ZERO_UUID:  # made by a Kafka older than 2.8 (KIP-516)
            assignment = replace(assignment, topic_id=uuid4())
            await self._zk.set_topic_assignment(topic, assignment, self.context.epoch_version)
        self.context.set_assignment(topic, assignment)
        return True

    # ---- brokers

    async def _on_broker_change(self, _event: events.BrokerChange) -> None:
        context = self.context
        found = {b.broker_id: b for b in await self._zk.all_brokers(self._on_brokers_event)}
        known = context.live_brokers
        gone = [b for b in known if b not in found or found[b].epoch != known[b].epoch]
        come = [b for b in found if b not in known or found[b].epoch != known[b].epoch]
        for broker_id in gone:
            await self._states.channels.remove_broker(broker_id)
            del known[broker_id]
            context.shutting_down.discard(broker_id)
        if gone:
            log.info("brokers gone: %s", gone)
            await self._on_broker_failure(gone)
        for broker_id in come:
            known[broker_id] = found[broker_id]
            self._states.channels.add_broker(found[broker_id])
        if come:
            log.info("brokers new: %s", come)
            await self._on_broker_startup([found[broker_id] for broker_id in come])

    async def _on_broker_failure(self, gone: list[int]) -> None:
        context = self.context
        replicas = context.replicas_on(gone)
        await self._replicas_failed(replicas)
        if not replicas:
            self._states.send_metadata(context.live_brokers)

    async def _replicas_failed(self, replicas: Iterable[Replica]) -> None:
        deleting: list[Replica] = []
        working: list[Replica] = []
        for replica in replicas:
            topic = replica.topic_partition.topic
            (deleting if self.context.is_queued_for_deletion(topic) else working).append(replica)
        self._states.partitions_offline(self.context.partitions_led_by_dead_brokers())
        await self._states.partitions_online(
            self.context.partitions_needing_leader(), ElectionStrategy.OFFLINE
        )
        await self._states.replicas_offline(working)
        if deleting:
            await self._deletions.fail(deleting)

    async def _on_broker_startup(self, come: list[Broker]) -> None:
        context = self.context
        ids = [broker.broker_id for broker in come]
        context.replicas_on_failed_dirs = {
            r for r in context.replicas_on_failed_dirs if r.broker_id not in ids
        }
        self._states.send_metadata(b for b in context.live_brokers if b not in ids)
        self._states.send_metadata(ids, context.leadership)
        replicas = context.replicas_on(ids)
        deleting = {
            r.topic_partition.topic
            for r in replicas
            if context.is_queued_for_deletion(r.topic_partition.topic)
        }
        self._states.replicas_online(r for r in replicas if r.topic_partition.topic not in deleting)
        await self._states.partitions_online(
            context.partitions_needing_leader(), ElectionStrategy.OFFLINE
        )
        if deleting:
            await self._deletions.retry(deleting)

    async def _on_leader_and_isr_response(self, event: events.LeaderAndIsrResponseReceived) -> None:
        context = self.context
        for partition in event.online:
            context.replicas_on_failed_dirs.discard(Replica(partition, event.broker_id))
        failed = [Replica(partition, event.broker_id) for partition in event.offline]
        new = [r for r in failed if r not in context.replicas_on_failed_dirs]
        context.replicas_on_failed_dirs.update(new)
        if new:
            await self._replicas_failed(new)

    # ---- topics

    async def _on_topic_change(self, _event: events.TopicChange | None = None) -> None:
        found = set(await self._zk.topics(self._on_topics_event))
        known = set(self.context.assignments)
        for topic in known - found:
            self.context.remove_topic(topic)
        new = [topic for topic in sorted(found - known) if await self._read_topic(topic)]
        await self._on_new_partitions(
            [partition for topic in new for partition in self.context.partitions_of(topic)]
        )

    async def _on_topic_deletion(self, _event: events.TopicDeletion) -> None:
        await self._deletions.read()

    async def _on_partition_modifications(self, event: events.PartitionModifications) -> None:
        context, topic = self.context, event.topic
        if topic not in context.assignments:
            await self._on_topic_change()  # perhaps it could not be read before
            return
        before = set(context.partitions_of(topic))
        old = dict(context.assignments[topic])
        if not await self._read_topic(topic):
            return
        if context.is_queued_for_deletion(topic):
            context.assignments[topic] = old  # a topic that is deleted does not grow any more
            return
        await self._on_new_partitions([p for p in context.partitions_of(topic) if p not in before])

    async def _on_new_partitions(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        replicas = self.context.replicas_of(partitions)
        self._states.partitions_new(partitions)
        self._states.replicas_new(replicas)
        await self._states.partitions_online(partitions, ElectionStrategy.OFFLINE)
        self._states.replicas_online(
            r for r in replicas if self.context.replica_state(r) is ReplicaState.NEW
        )

    # ---- leadership

    async def _on_replica_leader_election(self, event: events.ReplicaLeaderElection) -> None:
        context = self.context
        wanted = context.leadership if event.partitions is None else event.partitions
        moving = [p for p in wanted if self._is_led_by_another(p, context.assignment(p))]
        await self._states.partitions_online(moving, ElectionStrategy.PREFERRED)

    def _is_led_by_another(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        known = self.context.leadership.get(partition)
        return (
            known is not None
            and not self.context.is_queued_for_deletion(partition.topic)
            and assignment.replicas[:1] != (known.leader_and_isr.leader,)
        )

    async def _on_controlled_shutdown(self, event: events.ControlledShutdown) -> None:
        context, broker_id = self.context, event.broker_id
        if broker_id not in context.live_brokers:
            return
        context.shutting_down.add(broker_id)
        shared = [
            r
            for r in context.replicas_on([broker_id])
            if len(context.assignment(r.topic_partition).replicas) > 1
            and r.topic_partition in context.leadership
        ]
        led = [
            r.topic_partition
            for r in shared
            if context.leadership[r.topic_partition].leader_and_isr.leader == broker_id
        ]
        await self._states.partitions_online(led, ElectionStrategy.CONTROLLED_SHUTDOWN)
        await self._states.replicas_offline(
            [r for r in shared if self._leader(r.topic_partition) != broker_id]
        )

    def _leader(self, partition: TopicPartition) -> int:
        return self.context.leadership[partition].leader_and_isr.leader

    # ---- watches

    def _on_brokers_event(self, _event: WatchEvent) -> None:
        self._put(events.BrokerChange())

    def _on_topics_event(self, _event: WatchEvent) -> None:
        self._put(events.TopicChange())

    def _on_topic_event(self, event: WatchEvent) -> None:
        if event.type is not EventType.DELETED:
            self._put(events.PartitionModifications(event.path.rpartition("/")[2]))
