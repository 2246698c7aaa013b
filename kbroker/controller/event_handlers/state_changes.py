"""StateChanges: carries out the decisions of the partition and replica machines.

Law: each method is one step: it asks the machine, writes to the tree with expected versions and
fenced by the controller epoch, hands the outcome back to the machine, and sends one batch of
requests. So brokers hear only of what is in the tree. State nodes are read before they are
replaced, unless the caller has just done so (`fresh`); if one has changed since, it is read again
and the step repeated for it, a bounded number of times.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

from kbroker.controller.channels.controller_channel_manager import ControllerChannelManager
from kbroker.controller.state_machines.controller_context import (
    ControllerContext,
    PartitionState,
    Replica,
    ReplicaState,
)
from kbroker.controller.state_machines.partition_leader_election import Elected
from kbroker.controller.state_machines.partition_state_machine import (
    ElectionStrategy,
    PartitionStateMachine,
    remember,
    remember_read,
)
from kbroker.controller.state_machines.replica_state_machine import ReplicaStateMachine
from kbroker.controller.state_machines.request_batch import RequestBatch
from kbroker.controller.state_machines.unseen_returns import keeping_doubt, partitions_in_doubt
from kbroker.events.event import Note, nobody_notes
from kbroker.log.partition.leader_epoch_cache import EpochEndOffset
from kbroker.model import Broker, LeaderAndIsr, TopicPartition
from kbroker.turns import turn
from kbroker.zk import zk_paths
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from kbroker.zk.zk_paths import PartitionStateWrite
from kbroker.zk.zk_utils import ZkUtils

_log = logging.getLogger(__name__)

MAX_CONFLICT_RETRIES = 5
_AT_ONCE = 1_024  # some milliseconds; all of them share their writes to the tree
UNCLEAN_SETTING = "unclean.leader.election.enable"


T = TypeVar("T")
Versions = Mapping[TopicPartition, int | None]
LogEnds = Mapping[TopicPartition, EpochEndOffset]
AskLogEnds = Callable[[Broker, Sequence[TopicPartition]], Awaitable[LogEnds]]
"""Asks a broker how far its logs reach: the last leader epoch, and the end. A log that it does not
know is missing in the answer. Raises nothing."""


async def nobody_tells(_broker: Broker, _partitions: Sequence[TopicPartition]) -> LogEnds:
    return {}


class StateChanges:
    """The machines with their tree and their channels. Owned by the controller's queue."""

    def __init__(
        self,
        context: ControllerContext,
        zk: ZkUtils,
        channels: ControllerChannelManager,
        *,
        broker_id: int,
        unclean_by_default: Callable[[], bool],
        ask_log_ends: AskLogEnds = nobody_tells,
    ) -> None:
        self.context = context
        self.zk = zk
        self.channels = channels
        self.partitions = PartitionStateMachine(context)
        self.replicas = ReplicaStateMachine(context)
        self._broker_id = broker_id
        self._unclean_by_default = unclean_by_default
        self.ask_log_ends = ask_log_ends
        self.note: Note = nobody_notes

    def batch(self) -> RequestBatch:
        return RequestBatch(self.context, self._broker_id)

    def send(self, batch: RequestBatch) -> None:
        self.channels.send(batch.build())

    def send_metadata(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] = ()
    ) -> None:
        """Send brokers all live brokers and these partitions."""
        batch = self.batch()
        batch.add_update_metadata(broker_ids, partitions)
        self.send(batch)

    async def send_full_metadata(self, broker_ids: Iterable[int]) -> None:
        """Send brokers everything; they forget anything beyond it."""
        batch = self.batch()
        batch.add_full_metadata(broker_ids)
        await self._send_in_turns(batch)

    async def _send_in_turns(self, batch: RequestBatch) -> None:
        """Queue the gathered requests, of thousands of partitions perhaps, in turns."""
        for request in batch.build_each():
            if request is None:
                await turn()
            else:
                self.channels.send((request,))
                await asyncio.sleep(0)

    # ---- partitions

    def partitions_new(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions of a new topic, or added to one."""
        for partition in self.partitions.allowed(partitions, PartitionState.NEW):
            self.partitions.transition_to(partition, PartitionState.NEW)

    def partitions_offline(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions whose leader has died, or that are deleted."""
        for partition in self.partitions.allowed(partitions, PartitionState.OFFLINE):
            self.partitions.transition_to(partition, PartitionState.OFFLINE)

    def partitions_gone(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that are deleted."""
        for partition in self.partitions.allowed(partitions, PartitionState.NON_EXISTENT):
            self.partitions.transition_to(partition, PartitionState.NON_EXISTENT)

    async def partitions_online(
        self,
        partitions: Iterable[TopicPartition],
        strategy: ElectionStrategy,
        *,
        fresh: bool = False,
    ) -> None:
        """Give partitions a leader: their first one, or an elected one."""
        async for some in in_parts(self.partitions.allowed(partitions, PartitionState.ONLINE)):
            await self._some_online(some, strategy, fresh=fresh)

    async def _some_online(
        self, allowed: Sequence[TopicPartition], strategy: ElectionStrategy, *, fresh: bool
    ) -> None:
        new = [p for p in allowed if self.context.partition_state(p) is PartitionState.NEW]
        old = [p for p in allowed if self.context.partition_state(p) is not PartitionState.NEW]
        batch = self.batch()
        if new:
            writes = self.partitions.initial_writes(new)
            await self.zk.create_partition_paths(
                (w.topic_partition for w in writes), self.context.epoch_version
            )
            conflicts = self.partitions.written(writes, await self._write(writes), batch)
            old += await self._adopt(conflicts)
        if old:
            await self._elect(old, strategy, batch, fresh=fresh)
        await self._send_in_turns(batch)

    async def _adopt(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """New partitions whose state node exists already, made by hand or by a write whose answer
        was lost: its content holds. Returns the partitions that have one.
        """
        if not partitions:
            return []
        await self._read_again(partitions)
        known = [p for p in partitions if p in self.context.leadership]
        self.partitions_offline(known)
        if len(known) < len(partitions):
            unknown = sorted(set(partitions) - set(known))
            _log.error(
                "state nodes of %d new partitions cannot be read: %.500s", len(unknown), unknown
            )
        return known

    async def _elect(
        self,
        partitions: list[TopicPartition],
        strategy: ElectionStrategy,
        batch: RequestBatch,
        *,
        fresh: bool,
    ) -> None:
        unclean = await self._topics_with_unclean_election(partitions, strategy)
        pending = partitions
        for attempt in range(MAX_CONFLICT_RETRIES):
            if attempt or not fresh:
                await self._read_again(pending)
            if strategy is not ElectionStrategy.UNCLEAN:
                pending = self._without_doubt(pending)
            writes = self.partitions.election_writes(pending, strategy, unclean.__contains__)
            versions = await self._write(writes)
            self._note_elections(writes, versions, strategy)
            pending = self.partitions.written(writes, versions, batch)
            if not pending:
                return
        _log.error(
            "no leader elected for %d partitions, their state nodes keep changing: %.500s",
            len(pending),
            pending,
        )

    def _without_doubt(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Partitions that any in-sync replica may lead; others wait for `DoubtfulElections`."""
        in_doubt = self.context.in_doubt
        in_doubt.update(partitions_in_doubt(self.context, partitions))
        return [partition for partition in partitions if partition not in in_doubt]

    async def lead(self, chosen: Mapping[TopicPartition, Elected]) -> list[TopicPartition]:
        """Give these partitions their leaders; returns those whose state had changed: they stay."""
        batch = self.batch()
        writes = self.partitions.chosen_writes(chosen)
        versions = await self._write(writes)
        self._note_elections(writes, versions, None)
        conflicts = self.partitions.written(writes, versions, batch)
        await self._read_again(conflicts)
        await self._send_in_turns(batch)
        return conflicts

    async def _topics_with_unclean_election(
        self, partitions: Iterable[TopicPartition], strategy: ElectionStrategy
    ) -> set[str]:
        """The topics that may elect a leader out of sync. Read only if it could matter."""
        if strategy is not ElectionStrategy.OFFLINE:
            return set()
        context = self.context
        topics = {
            p.topic
            for p in partitions
            if not any(
                context.is_replica_online(Replica(p, b))
                for b in context.leadership[p].leader_and_isr.isr
            )
        }
        allowed = set()
        configs = ZkEntityConfigs(self.zk)
        found = await configs.all_overrides(zk_paths.TOPIC_CONFIGS, sorted(topics))
        for topic, overrides in found.items():
            text = overrides.get(UNCLEAN_SETTING, str(self._unclean_by_default()))
            if text.strip().lower() == "true":
                allowed.add(topic)
        return allowed

    async def raise_leader_epoch(self, partition: TopicPartition) -> bool:
        """Write a new leader epoch and no other change; False if the state cannot be written."""
        for _ in range(MAX_CONFLICT_RETRIES):
            await self._read_again([partition])
            known = self.context.leadership.get(partition)
            if known is None:
                break
            state = known.leader_and_isr
            raised = replace(state, leader_epoch=state.leader_epoch + 1)
            if (await self.change_states({partition: raised}))[partition] is not None:
                return True
        _log.error("the leader epoch of %s cannot be raised", partition)
        return False

    async def raise_leader_epochs(self, partitions: Sequence[TopicPartition]) -> None:
        """The same for many whose states were just read; what cannot be written stays."""
        wanted = {}
        for partition in partitions:
            state = self.context.leadership[partition].leader_and_isr
            wanted[partition] = replace(state, leader_epoch=state.leader_epoch + 1)
        for partition, written in (await self.change_states(wanted)).items():
            if written is None:
                await self.raise_leader_epoch(partition)

    async def change_states(
        self, wanted: Mapping[TopicPartition, LeaderAndIsr]
    ) -> dict[TopicPartition, LeaderAndIsr | None]:
        """Write states over the versions that `partition_epoch` names, and remember them.

        The value is the state with its new version, or None if the node had another one.
        """
        writes = [
            PartitionStateWrite(
                topic_partition=partition,
                leader_and_isr=state,
                expected_version=state.partition_epoch,
            )
            for partition, state in wanted.items()
        ]
        versions = await self._write(writes)
        outcome: dict[TopicPartition, LeaderAndIsr | None] = {}
        for write in writes:
            partition, version = write.topic_partition, versions[write.topic_partition]
            if version is None:
                outcome[partition] = None
            else:
                remember(self.context, write, version)
                outcome[partition] = self.context.leadership[partition].leader_and_isr
        return outcome

    # ---- replicas

    def replicas_new(self, replicas: Iterable[Replica]) -> None:
        """Replicas of new partitions."""
        batch = self.batch()
        self.replicas.new(replicas, batch)
        self.send(batch)

    def replicas_online(self, replicas: Iterable[Replica]) -> None:
        """Replicas whose broker is alive."""
        batch = self.batch()
        self.replicas.online(replicas, batch)
        self.send(batch)

    async def all_replicas_online(self, replicas: Iterable[Replica]) -> None:
        """The same for all working replicas at the start of a reign; all brokers get everything."""
        batch = self.batch()
        async for some in in_parts(list(replicas)):
            self.replicas.online(some, batch)
        batch.add_full_metadata(self.context.live_brokers)
        await self._send_in_turns(batch)

    async def replicas_offline(self, replicas: Iterable[Replica], *, fresh: bool = False) -> None:
        """Replicas that no longer work: they leave the ISR and are stopped."""
        batch = self.batch()
        allowed = sorted(
            self.replicas.allowed(replicas, ReplicaState.OFFLINE), key=lambda r: r.broker_id
        )
        for broker_id, group in groupby(allowed, key=lambda r: r.broker_id):
            async for some in in_parts(list(group)):
                await self._broker_replicas_offline(broker_id, some, batch, fresh=fresh)
        await self._send_in_turns(batch)

    async def _broker_replicas_offline(
        self, broker_id: int, replicas: Sequence[Replica], batch: RequestBatch, *, fresh: bool
    ) -> None:
        self.replicas.stop(replicas, batch)
        pending = replicas
        for attempt in range(MAX_CONFLICT_RETRIES):
            if attempt or not fresh:
                await self._read_again(replica.topic_partition for replica in pending)
            writes = self.replicas.isr_writes(broker_id, pending)
            versions = await self._write(writes)
            self._note_shrunk(broker_id, writes, versions)
            conflicts = self.replicas.shrunk(broker_id, writes, versions, batch)
            if not conflicts:
                break
            pending = [Replica(p, broker_id) for p in conflicts]
        self.replicas.offline(replicas, batch)

    def topic_removed(self, topic: str) -> None:
        """Forget a topic whose node has been removed; brokers stop it and keep its records."""
        partitions = self.context.partitions_of(topic)
        self.context.topics_to_delete.add(topic)  # brokers learn that it goes for good
        batch = self.batch()
        batch.add_update_metadata(self.context.live_brokers, partitions)
        for replica in self.context.replicas_of(partitions):
            batch.add_stop_replica(replica.broker_id, replica.topic_partition, delete=False)
        self.send(batch)
        self.context.remove_topic(topic)

    def replicas_deletion_started(self, replicas: Iterable[Replica]) -> None:
        """Ask for replicas to be deleted."""
        batch = self.batch()
        self.replicas.deletion_started(replicas, batch)
        self.send(batch)

    def _note_elections(
        self, writes: Sequence[PartitionStateWrite], versions: Versions, by: ElectionStrategy | None
    ) -> None:
        if writes:
            from kbroker.controller.state_machines.leadership_events import elections

            for event in elections(self.context, writes, versions, by):
                self.note(event)

    def _note_shrunk(
        self, broker_id: int, writes: Sequence[PartitionStateWrite], versions: Versions
    ) -> None:
        if writes:
            from kbroker.controller.state_machines.leadership_events import shrunk_isrs

            for event in shrunk_isrs(self.context, broker_id, writes, versions):
                self.note(event)

    # ---- tree

    async def _write(self, writes: list[PartitionStateWrite]) -> dict[TopicPartition, int | None]:
        return await self.zk.write_partition_states(
            keeping_doubt(self.context, writes), self.context.epoch, self.context.epoch_version
        )

    async def _read_again(self, partitions: Iterable[TopicPartition]) -> None:
        remember_read(self.context, await self.zk.partition_states(partitions))


async def in_parts(items: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """As many partitions or replicas at a time as others can wait for; they run in between."""
    for start in range(0, len(items), _AT_ONCE):
        if start:
            await turn()
        yield items[start : start + _AT_ONCE]
