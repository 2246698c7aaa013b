"""BrokerChanges: the active controller's work when brokers come, go, change or are about to stop,
and when one of their log directories fails or works again.

Law: a node read with a watch is read again when the watch fires, so a change is never missed; a
change seen twice does nothing the second time. A broker with another registration than before (its
epoch shows that) has died and come back, however quickly. The facts are those of
KafkaController.scala (onBrokerStartup, onBrokerFailure, onBrokerUpdate, doControlledShutdown,
onBrokerLogDirFailure).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kbroker.controller.event_handlers.cluster_watches import ClusterWatches
from kbroker.controller.event_handlers.reassignments import Reassignments
from kbroker.controller.event_handlers.state_changes import StateChanges
from kbroker.controller.event_handlers.topic_deletions import TopicDeletions
from kbroker.controller.state_machines import events
from kbroker.controller.state_machines.controller_context import Replica
from kbroker.controller.state_machines.partition_state_machine import ElectionStrategy
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import UNKNOWN_BROKER_EPOCH, Broker, TopicPartition
from kbroker.zk import zk_paths
from kbroker.zk.nodes.zk_notifications import ZkNotifications

_log = logging.getLogger(__name__)


class BrokerChanges:
    """The handlers of these events. Owned by the controller's queue."""

    def __init__(
        self,
        states: StateChanges,
        deletions: TopicDeletions,
        reassignments: Reassignments,
        watches: ClusterWatches,
    ) -> None:
        self._states = states
        self._context = states.context
        self._zk = states.zk
        self._notifications = ZkNotifications(states.zk)
        self._deletions = deletions
        self._reassignments = reassignments
        self._watches = watches

    async def read(self) -> None:
        """Take over the registered brokers, and open a channel to each."""
        context = self._context
        found = await self._registered()
        bounced = [b for b, known in context.live_brokers.items() if _differs(known, found.get(b))]
        self._forget_past(bounced)
        context.live_brokers = found
        await self._states.channels.set_brokers(found.values())

    async def clear_notifications(self) -> None:
        """Remove news from before this reign: everything that they announce is read again."""
        epoch_version = self._context.epoch_version
        paths, _ = await self._notifications.log_dir_events(self._watches.log_dir_events)
        await self._notifications.delete(paths, epoch_version)
        paths, _ = await self._notifications.isr_changes(self._watches.isr_changes)
        await self._notifications.delete(paths, epoch_version)

    # ---- brokers come and go

    async def on_change(self, _event: events.BrokerChange | None = None) -> None:
        """Compare the registrations with those known."""
        context = self._context
        found = await self._registered()
        known = context.live_brokers
        gone = [b for b in known if _differs(known[b], found.get(b))]
        come = [b for b in found if _differs(found[b], known.get(b))]
        for broker_id in gone:
            await self._states.channels.remove_broker(broker_id)
            del known[broker_id]
        if gone:
            _log.info("brokers gone: %s", gone)
            self._forget_past(gone)
            await self._on_failure(gone)
        for broker_id in come:
            known[broker_id] = found[broker_id]
            self._states.channels.add_broker(found[broker_id])
        if come:
            _log.info("brokers new: %s", come)
            await self._on_startup(come)
        for broker_id in found.keys() & known.keys():
            self._update(found[broker_id])

    async def on_modification(self, event: events.BrokerModifications) -> None:
        """The node of a registered broker has changed."""
        found = await self._zk.broker(event.broker_id, self._watches.broker)
        known = self._context.live_brokers.get(event.broker_id)
        if _differs(found, known):
            await self.on_change()
        elif found is not None:
            self._update(found)

    def _update(self, broker: Broker) -> None:
        """Announce other end points, or another rack, of the same registration."""
        if self._context.live_brokers[broker.broker_id] != broker:
            _log.info("broker %d has changed: %s", broker.broker_id, broker)
            self._context.live_brokers[broker.broker_id] = broker
            self._states.channels.update_broker(broker)
            self._states.send_metadata(self._context.live_brokers)

    async def _registered(self) -> dict[int, Broker]:
        """All registered brokers; one whose node was spoilt by hand stays what it was."""
        watches = self._watches
        brokers = await self._zk.all_brokers(watches.brokers, watches.broker)
        found = {broker.broker_id: broker for broker in brokers}
        for broker_id, known in self._context.live_brokers.items():
            if broker_id not in found:
                stat = await self._zk.tree.exists(zk_paths.broker_path(broker_id))
                if stat is not None and stat.czxid == known.epoch:
                    found[broker_id] = known
        return found

    def _forget_past(self, gone: Iterable[int]) -> None:
        """Forget the brokers' earlier lives, which prove nothing about the next one."""
        context, ids = self._context, set(gone)
        context.shutting_down -= ids
        context.replicas_on_failed_dirs = {
            r for r in context.replicas_on_failed_dirs if r.broker_id not in ids
        }

    async def _on_failure(self, gone: list[int]) -> None:
        await self._replicas_failed(self._context.replicas_on(gone))

    async def _replicas_failed(self, replicas: Iterable[Replica]) -> None:
        """Replicas no longer work: others lead, if there are any, and topics wait to be deleted."""
        deleting: list[Replica] = []
        working: list[Replica] = []
        for replica in replicas:
            topic = replica.topic_partition.topic
            (deleting if self._context.is_queued_for_deletion(topic) else working).append(replica)
        self._states.partitions_offline(self._context.partitions_led_by_dead_brokers())
        await self._states.partitions_online(
            self._context.partitions_needing_leader(), ElectionStrategy.OFFLINE
        )
        await self._states.replicas_offline(working)
        if deleting:
            await self._deletions.fail(deleting)
        if not working:  # or nobody would learn that the broker is gone
            self._states.send_metadata(self._context.live_brokers)

    async def _on_startup(self, come: list[int]) -> None:
        context = self._context
        self._states.send_metadata(b for b in context.live_brokers if b not in come)
        await self._states.send_full_metadata(come)
        await self.replicas_work(context.replicas_on(come))
        await self._reassignments.resume_on(come)

    async def replicas_work(self, replicas: list[Replica]) -> None:
        """Replicas can be used (again): they learn their leader, or become it."""
        topics = {replica.topic_partition.topic for replica in replicas}
        deleting = {topic for topic in topics if self._context.is_queued_for_deletion(topic)}
        self._states.replicas_online(r for r in replicas if r.topic_partition.topic not in deleting)
        await self._states.partitions_online(
            self._context.partitions_needing_leader(), ElectionStrategy.OFFLINE
        )
        if deleting:
            await self._deletions.retry(deleting)

    # ---- log directories

    async def on_log_dir_events(self, _event: events.LogDirEventNotification) -> None:
        """Ask brokers with news of their log directories about all their replicas."""
        watch = self._watches.log_dir_events
        paths, broker_ids = await self._notifications.log_dir_events(watch)
        if broker_ids:
            _log.info("log directories changed on brokers %s", sorted(broker_ids))
            replicas = self._context.replicas_on(broker_ids)
            topics = {replica.topic_partition.topic for replica in replicas}
            deleting = {topic for topic in topics if self._context.is_queued_for_deletion(topic)}
            self._states.replicas_online(
                r for r in replicas if r.topic_partition.topic not in deleting
            )
            if deleting:
                await self._deletions.retry(deleting)
        await self._notifications.delete(paths, self._context.epoch_version)

    async def on_leader_and_isr_response(self, event: events.LeaderAndIsrResponseReceived) -> None:
        """A broker reports which of its replicas work.

        One that works again may lead at once; Kafka lets it wait until a broker starts.
        """
        context = self._context
        if not context.is_registered(event.broker_id, event.broker_epoch):
            return
        failed_before = context.replicas_on_failed_dirs
        mended = [r for p in event.online if (r := Replica(p, event.broker_id)) in failed_before]
        failed = [
            r for p in event.offline if (r := Replica(p, event.broker_id)) not in failed_before
        ]
        context.replicas_on_failed_dirs = (failed_before | set(failed)) - set(mended)
        if failed:
            _log.warning("broker %d cannot use %d replicas", event.broker_id, len(failed))
            await self._replicas_failed(sorted(failed))
        if mended:
            _log.info("broker %d can use %d replicas again", event.broker_id, len(mended))
            await self.replicas_work(sorted(mended))

    # ---- controlled shutdown

    async def on_controlled_shutdown(
        self, event: events.ControlledShutdown
    ) -> list[TopicPartition]:
        """Move leaderships away from a broker that is about to stop.

        Returns the partitions it still leads though they have other replicas. Raises
        BROKER_NOT_AVAILABLE for one that is not registered, STALE_BROKER_EPOCH for an earlier life.
        """
        context, broker_id = self._context, event.broker_id
        broker = context.live_brokers.get(broker_id)
        if broker is None:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker_id} does not exist."
            )
        if UNKNOWN_BROKER_EPOCH != event.broker_epoch < broker.epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"Received controlled shutdown request from an old broker epoch "
                f"{event.broker_epoch} for broker {broker_id}. Current broker epoch is "
                f"{broker.epoch}.",
            )
        context.shutting_down.add(broker_id)
        self._states.channels.expect_end(broker_id)
        shared = [r for r in context.replicas_on([broker_id]) if self._is_shared(r)]
        led = [r.topic_partition for r in shared if self._leader(r.topic_partition) == broker_id]
        followed = [r for r in shared if self._leader(r.topic_partition) != broker_id]
        await self._states.partitions_online(led, ElectionStrategy.CONTROLLED_SHUTDOWN)
        await self._states.replicas_offline(followed)
        if not context.live_broker_ids():  # all brokers stop: nobody is left to wait for
            return []
        return sorted(p for p in led if self._leader(p) == broker_id)

    def _is_shared(self, replica: Replica) -> bool:
        partition = replica.topic_partition
        return (
            len(self._context.assignment(partition).replicas) > 1
            and partition in self._context.leadership
            and not self._context.is_queued_for_deletion(partition.topic)
        )

    def _leader(self, partition: TopicPartition) -> int:
        return self._context.leadership[partition].leader_and_isr.leader


def _differs(one: Broker | None, other: Broker | None) -> bool:
    """True unless both are the same registration of a broker."""
    return one is None or other is None or one.epoch != other.epoch
