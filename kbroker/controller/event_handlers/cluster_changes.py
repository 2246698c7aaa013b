"""ClusterChanges: the active controller's work, as one table from kinds of events to handlers.

Law: it lives as long as this broker is controller and handles one event at a time, so no event sees
half of another's change. Files with duties of their own register the events they work. A handler
may refuse a request (KafkaError) only before it has changed anything: a refusal means that nothing
happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

from kbroker.controller.event_handlers.alter_partitions import AlterPartitions
from kbroker.controller.event_handlers.broker_changes import BrokerChanges
from kbroker.controller.event_handlers.cluster_watches import ClusterWatches
from kbroker.controller.event_handlers.doubtful_elections import (
    DoubtfulElections,
    LookAtDoubts,
)
from kbroker.controller.event_handlers.feature_updates import FeatureUpdates
from kbroker.controller.event_handlers.leader_elections import (
    LeaderBalanceSettings,
    LeaderElections,
)
from kbroker.controller.event_handlers.reassignments import Reassignments
from kbroker.controller.event_handlers.state_changes import StateChanges
from kbroker.controller.event_handlers.topic_changes import TopicChanges
from kbroker.controller.event_handlers.topic_deletions import TopicDeletions
from kbroker.controller.state_machines import events
from kbroker.controller.state_machines.controller_context import ControllerContext, Replica
from kbroker.controller.state_machines.events import Event
from kbroker.controller.state_machines.feature_rules import UpdateFeatures
from kbroker.controller.state_machines.isr_change import AlterPartition
from kbroker.controller.state_machines.partition_state_machine import ElectionStrategy
from kbroker.controller.state_machines.reassignment_phases import (
    AlterPartitionReassignments,
    ListPartitionReassignments,
    PartitionReassignmentIsrChange,
    ZkPartitionReassignment,
)
from kbroker.controller.state_machines.requested_elections import (
    AutoPreferredReplicaLeaderElection,
    ElectLeaders,
    ZkPreferredElection,
)
from kbroker.controller.state_machines.unseen_returns import (
    leaders_that_returned,
    partitions_in_doubt,
    replicas_that_returned,
)
from kbroker.model import SupportedFeature
from kbroker.turns import in_turns, turn

E = TypeVar("E", bound=Event)


class EpochTooLowError(Exception):
    """Partitions of the tree were led by a controller of a higher epoch."""

    def __init__(self, epoch: int) -> None:
        super().__init__(f"there has been a controller with epoch {epoch}")
        self.epoch = epoch


class ClusterChanges:
    """The event handlers. Owned by the controller's queue."""

    def __init__(
        self,
        states: StateChanges,
        watches: ClusterWatches,
        *,
        put: Callable[[Event], object],
        delete_topic_enable: bool,
        leader_balance: LeaderBalanceSettings,
        supported_features: tuple[SupportedFeature, ...],
    ) -> None:
        self.context: ControllerContext = states.context
        self._states = states
        self._deletions = TopicDeletions(states, watches, enabled=delete_topic_enable)
        self._reassignments = Reassignments(states, watches)
        self._brokers = BrokerChanges(states, self._deletions, self._reassignments, watches)
        self._topics = TopicChanges(states, watches)
        self._alter_partitions = AlterPartitions(states, put)
        self._elections = LeaderElections(states, watches, put, leader_balance)
        self._doubts = DoubtfulElections(states, put)
        self._features = FeatureUpdates(states, supported_features)
        self._handlers: dict[type[Event], Callable[[Any], Awaitable[object]]] = {}
        self._register_all()

    @property
    def queue_size(self) -> int:
        """The number of requests that wait to be sent to brokers."""
        return self._states.channels.queue_size

    async def start(self) -> None:
        """Take over: read the cluster, set up the states, inform the brokers, end what was
        begun.

        May be called again during the reign, when the known picture may be wrong: everything is
        read again.
        """
        context = self.context
        context.forget_cluster()
        self._doubts.stop()  # a look may have been dropped
        await self._brokers.clear_notifications()
        await self._brokers.read()
        await self._topics.read()
        self._check_epoch()
        # Before anything is led: a topic half deleted must not get its first leader once more.
        await self._deletions.read()
        await turn()
        context.in_doubt.update(partitions_in_doubt(context, list(context.leadership)))
        await turn()
        returned = sorted(replicas_that_returned(context))
        context.replicas_away.update(returned)
        await turn()
        await self._states.raise_leader_epochs(list(leaders_that_returned(context)))
        self._states.send_metadata(context.live_brokers)
        await turn()
        await self._start_replicas()
        await in_turns(self._states.partitions.initialize())
        await self._states.partitions_online(
            context.partitions_needing_leader(), ElectionStrategy.OFFLINE, fresh=True
        )
        if returned:
            context.replicas_away.clear()
            await self._brokers.replicas_work(returned)
        await self._reassignments.start()
        await self._deletions.resume()
        await self._elections.start()
        await self._features.enable()
        self._doubts.watch()

    def forget_orders(self) -> None:
        """Forget the orders that were not sent to brokers, or were not answered."""
        self._states.channels.begin_anew()

    async def stop(self) -> None:
        """Another controller takes over."""
        self._elections.stop()
        self._doubts.stop()
        await self._states.channels.stop()

    def register(self, kind: type[E], handler: Callable[[E], Awaitable[object]]) -> None:
        """Let `handler` work the events of one type; its result is the event's answer."""
        assert kind not in self._handlers, kind
        self._handlers[kind] = handler

    async def on(self, event: Event) -> object:
        """Work one event; returns its answer, None for most."""
        handler = self._handlers.get(type(event))
        assert handler is not None, event
        answer = await handler(event)
        self._doubts.watch()
        return answer

    def _register_all(self) -> None:
        brokers, topics, deletions = self._brokers, self._topics, self._deletions
        self.register(events.BrokerChange, brokers.on_change)
        self.register(events.BrokerModifications, brokers.on_modification)
        self.register(events.LogDirEventNotification, brokers.on_log_dir_events)
        self.register(events.LeaderAndIsrResponseReceived, brokers.on_leader_and_isr_response)
        self.register(events.ControlledShutdown, brokers.on_controlled_shutdown)
        self.register(events.UncleanLeaderElectionEnable, self._on_unclean_election_enable)
        self.register(events.TopicChange, topics.on_topic_change)
        self.register(events.PartitionModifications, topics.on_partition_modifications)
        self.register(events.IsrChangeNotification, self._on_isr_changes)
        self.register(events.TopicDeletion, self._on_topic_deletion)
        self.register(events.TopicDeletionStopReplicaResponseReceived, deletions.on_answer)
        self.register(AlterPartition, self._alter_partitions.on)
        self.register(AlterPartitionReassignments, self._reassignments.on_request)
        self.register(ListPartitionReassignments, self._reassignments.on_list)
        self.register(ZkPartitionReassignment, self._reassignments.on_zk_request)
        self.register(PartitionReassignmentIsrChange, self._reassignments.on_isr_change)
        self.register(ElectLeaders, self._elections.on_elect_leaders)
        self.register(ZkPreferredElection, self._elections.on_zk_request)
        self.register(AutoPreferredReplicaLeaderElection, self._elections.on_balance)
        self.register(LookAtDoubts, self._doubts.on_look)
        self.register(UpdateFeatures, self._features.on_update)

    async def _on_unclean_election_enable(self, event: events.UncleanLeaderElectionEnable) -> None:
        waiting = self.context.partitions_needing_leader()
        partitions = [p for p in waiting if event.topic in (None, p.topic)]
        await self._states.partitions_online(partitions, ElectionStrategy.OFFLINE)

    def _check_epoch(self) -> None:
        """A state with a higher epoch than ours shows that the epoch was set back by hand: brokers
        would refuse all our orders.
        """
        states = self.context.leadership.values()
        highest = max((state.controller_epoch for state in states), default=0)
        if highest > self.context.epoch:
            raise EpochTooLowError(highest)

    async def _start_replicas(self) -> None:
        context = self.context
        await in_turns(self._states.replicas.initialize())
        await self._reassignments.drop_leftovers()
        await asyncio.sleep(0)
        online: list[Replica] = []
        offline: list[Replica] = []
        await in_turns(self._sort_replicas(online, offline))
        await self._states.all_replicas_online(
            r for r in online if not context.is_queued_for_deletion(r.topic_partition.topic)
        )
        await self._states.replicas_offline(offline, fresh=True)

    def _sort_replicas(self, online: list[Replica], offline: list[Replica]) -> Iterator[None]:
        for replica in self.context.all_replicas():
            (online if self.context.is_replica_online(replica) else offline).append(replica)
            yield

    async def _on_topic_deletion(self, event: events.TopicDeletion) -> None:
        await self._deletions.on_topic_deletion(event)
        await self._reassignments.drop_deleted()

    async def _on_isr_changes(self, event: events.IsrChangeNotification) -> None:
        for partition in sorted(await self._topics.on_isr_changes(event)):
            await self._reassignments.on_isr_change(PartitionReassignmentIsrChange(partition))
