"""PartitionStateMachine: a partition's moves, and the writes for its leader.

    NonExistent -> New -> Online <-> Offline -> NonExistent

Pure: `initial_writes` and `election_writes` say what to write; the shell writes it with the
expected versions and hands the outcome to `written`, which alone makes a partition Online.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum

from kbroker.controller.state_machines.controller_context import (
    ControllerContext,
    PartitionState,
    Replica,
)
from kbroker.controller.state_machines.partition_leader_election import (
    Elected,
    elect_controlled_shutdown,
    elect_offline,
    elect_preferred,
    elect_reassigned,
)
from kbroker.controller.state_machines.request_batch import RequestBatch
from kbroker.model import NO_LEADER, RECOVERING, LeaderAndIsr, TopicPartition
from kbroker.zk.zk_paths import PartitionStateWrite, PartitionStateZnode

VALID_PREVIOUS: dict[PartitionState, frozenset[PartitionState]] = {
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.OFFLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
}


class ElectionStrategy(Enum):
    """The reason for which a leader is chosen."""

    OFFLINE = "offline"
    REASSIGN = "reassign"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"  # as offline, and allowed to lose records
    CONTROLLED_SHUTDOWN = "controlled shutdown"


class PartitionStateMachine:
    """Moves partitions. Owned by the controller's queue."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def allowed(
        self, partitions: Iterable[TopicPartition], target: PartitionState
    ) -> list[TopicPartition]:
        """The partitions that may move to `target`; the others stay where they are."""
        return [p for p in partitions if self._context.partition_state(p) in VALID_PREVIOUS[target]]

    def transition_to(self, partition: TopicPartition, target: PartitionState) -> None:
        """Make one move; a forbidden one is a bug."""
        current = self._context.partition_state(partition)
        assert current in VALID_PREVIOUS[target], f"{partition}: {current} -> {target}"
        if target is PartitionState.NON_EXISTENT:
            self._context.partition_states.pop(partition, None)
        else:
            self._context.partition_states[partition] = target

    def initialize(self) -> Iterator[None]:
        """States of all partitions as a new controller finds them, in small steps."""
        context = self._context
        for partition in context.all_partitions():
            yield
            known = context.leadership.get(partition)
            if known is None:
                state = PartitionState.NEW
            elif context.is_replica_online(Replica(partition, known.leader_and_isr.leader)):
                state = PartitionState.ONLINE
            else:
                state = PartitionState.OFFLINE
            context.partition_states[partition] = state

    def initial_writes(self, partitions: Iterable[TopicPartition]) -> list[PartitionStateWrite]:
        """First leaders of new partitions: the first living replica leads, all of them are in sync.

        A partition without a living replica gets none and stays New.
        """
        writes = []
        for partition in partitions:
            assignment = self._context.assignment(partition)
            live = [
                b
                for b in assignment.replicas
                if self._context.is_replica_online(Replica(partition, b))
            ]
            if live:
                state = LeaderAndIsr(leader=live[0], leader_epoch=0, isr=tuple(live))
                writes.append(PartitionStateWrite(topic_partition=partition, leader_and_isr=state))
        return writes

    def election_writes(
        self,
        partitions: Iterable[TopicPartition],
        strategy: ElectionStrategy,
        allow_unclean: Callable[[str], bool],
    ) -> list[PartitionStateWrite]:
        """New leaders of partitions that have had one.

        Partitions without a possible leader are left out.
        """
        elected = {p: self._elect(p, strategy, allow_unclean) for p in partitions}
        return self.chosen_writes({p: e for p, e in elected.items() if e is not None})

    def chosen_writes(self, chosen: Mapping[TopicPartition, Elected]) -> list[PartitionStateWrite]:
        """The same for leaders that have been chosen."""
        writes = []
        for partition, elected in chosen.items():
            state = self._context.leadership[partition].leader_and_isr
            writes.append(
                PartitionStateWrite(
                    topic_partition=partition,
                    leader_and_isr=LeaderAndIsr(
                        leader=elected.leader,
                        leader_epoch=state.leader_epoch + 1,
                        isr=elected.isr,
                        leader_recovery_state=(
                            RECOVERING if elected.unclean else state.leader_recovery_state
                        ),
                    ),
                    expected_version=state.partition_epoch,
                )
            )
        return writes

    def written(
        self,
        writes: Iterable[PartitionStateWrite],
        versions: Mapping[TopicPartition, int | None],
        batch: RequestBatch,
    ) -> list[TopicPartition]:
        """Take over the written states and inform the replicas.

        Returns partitions whose node had another version.
        """
        conflicts = []
        for write in writes:
            partition = write.topic_partition
            version = versions[partition]
            if version is None:
                conflicts.append(partition)
                continue
            self._count_unclean(write)
            remember(self._context, write, version)
            is_new = self._context.partition_state(partition) is PartitionState.NEW
            self.transition_to(partition, PartitionState.ONLINE)
            replicas = self._context.assignment(partition).replicas
            live = [b for b in replicas if b in self._context.live_brokers]
            batch.add_leader_and_isr(live, partition, is_new=is_new)
        return conflicts

    def _count_unclean(self, write: PartitionStateWrite) -> None:
        known = self._context.leadership.get(write.topic_partition)
        leader = write.leader_and_isr.leader
        if known is not None and known.leader_and_isr.isr and leader != NO_LEADER:
            is_unclean = leader not in known.leader_and_isr.isr
            self._context.unclean_elections.value += is_unclean

    def _elect(
        self,
        partition: TopicPartition,
        strategy: ElectionStrategy,
        allow_unclean: Callable[[str], bool],
    ) -> Elected | None:
        context = self._context
        assignment = context.assignment(partition)
        isr = context.leadership[partition].leader_and_isr.isr
        live = [b for b in assignment.replicas if context.is_replica_online(Replica(partition, b))]
        if strategy is ElectionStrategy.PREFERRED:
            return elect_preferred(assignment.replicas, isr, live)
        if strategy is ElectionStrategy.REASSIGN:
            target = [b for b in assignment.replicas if b not in assignment.removing_replicas]
            return elect_reassigned(target, isr, live)
        if strategy is ElectionStrategy.CONTROLLED_SHUTDOWN:
            registered = [b for b in assignment.replicas if b in context.live_brokers]
            return elect_controlled_shutdown(
                assignment.replicas, isr, registered, context.shutting_down
            )
        is_unclean = strategy is ElectionStrategy.UNCLEAN or allow_unclean(partition.topic)
        return elect_offline(assignment.replicas, isr, live, is_unclean)


def remember(context: ControllerContext, write: PartitionStateWrite, version: int) -> None:
    """Put a written state into the context, with the version its node has now.

    It keeps the transaction of the state before: a new state makes no replica safer that returned
    since.
    """
    known = context.leadership.get(write.topic_partition)
    state = replace(write.leader_and_isr, partition_epoch=version)
    context.leadership[write.topic_partition] = PartitionStateZnode(
        leader_and_isr=state,
        controller_epoch=context.epoch,
        zxid=known.zxid if known is not None else _newest_registration(context, state.isr),
    )


def remember_read(
    context: ControllerContext, found: Mapping[TopicPartition, PartitionStateZnode]
) -> None:
    """Put states that were read into the context; one written here keeps its transaction."""
    for partition, read in found.items():
        known = context.leadership.get(partition)
        version = read.leader_and_isr.partition_epoch
        if known is not None and known.leader_and_isr.partition_epoch == version:
            read = replace(read, zxid=known.zxid)
        context.leadership[partition] = read


def vouch(context: ControllerContext, partition: TopicPartition) -> None:
    """The leader has named the in-sync replicas: they have caught up since they registered."""
    known = context.leadership[partition]
    newest = _newest_registration(context, known.leader_and_isr.isr)
    context.leadership[partition] = replace(known, zxid=max(known.zxid, newest))


def _newest_registration(context: ControllerContext, broker_ids: Iterable[int]) -> int:
    live = context.live_brokers
    return max((live[broker_id].epoch for broker_id in broker_ids if broker_id in live), default=0)
