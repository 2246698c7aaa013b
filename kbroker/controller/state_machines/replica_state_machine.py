"""ReplicaStateMachine: a replica's moves, and the brokers that learn of them.

    NonExistent -> New -> Online <-> Offline -> DeletionStarted -> DeletionSuccessful -> NonExistent
                             Offline, DeletionStarted -> DeletionIneligible -> Online, Offline

Pure: a replica that goes offline has to leave the ISR first; `isr_writes` says what to write for
that, and the shell calls `offline` with the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from kbroker.controller.state_machines.controller_context import (
    ControllerContext,
    Replica,
    ReplicaState,
)
from kbroker.controller.state_machines.partition_state_machine import remember
from kbroker.controller.state_machines.reassignment_phases import leftovers
from kbroker.controller.state_machines.request_batch import RequestBatch
from kbroker.model import NO_LEADER, LeaderAndIsr, TopicPartition
from kbroker.zk.zk_paths import PartitionStateWrite

_S = ReplicaState
VALID_PREVIOUS: dict[ReplicaState, frozenset[ReplicaState]] = {
    _S.NEW: frozenset({_S.NON_EXISTENT}),
    _S.ONLINE: frozenset({_S.NEW, _S.ONLINE, _S.OFFLINE, _S.DELETION_INELIGIBLE}),
    _S.OFFLINE: frozenset({_S.NEW, _S.ONLINE, _S.OFFLINE, _S.DELETION_INELIGIBLE}),
    _S.DELETION_STARTED: frozenset({_S.OFFLINE}),
    _S.DELETION_SUCCESSFUL: frozenset({_S.DELETION_STARTED}),
    _S.DELETION_INELIGIBLE: frozenset({_S.OFFLINE, _S.DELETION_STARTED}),
    _S.NON_EXISTENT: frozenset({_S.DELETION_SUCCESSFUL}),
}


class ReplicaStateMachine:
    """Moves replicas. Owned by the controller's queue."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def allowed(self, replicas: Iterable[Replica], target: ReplicaState) -> list[Replica]:
        """The replicas that may move to `target`; the others stay where they are."""
        return [r for r in replicas if self._context.replica_state(r) in VALID_PREVIOUS[target]]

    def transition_to(self, replica: Replica, target: ReplicaState) -> None:
        """Make one move; a forbidden one is a bug."""
        current = self._context.replica_state(replica)
        assert current in VALID_PREVIOUS[target], f"{replica}: {current} -> {target}"
        if target is ReplicaState.NON_EXISTENT:
            self._context.replica_states.pop(replica, None)
        else:
            self._context.replica_states[replica] = target

    def initialize(self) -> Iterator[None]:
        """States of all replicas as a new controller finds them, in small steps.

        A replica on a dead broker starts as ineligible for deletion: nobody can be asked to delete
        it now. Leftovers of a move are replicas until they are dropped.
        """
        context = self._context
        left = [Replica(p, b) for p, ids in leftovers(context).items() for b in ids]
        for replica in chain(context.all_replicas(), left):
            online = context.is_replica_online(replica)
            context.replica_states[replica] = _S.ONLINE if online else _S.DELETION_INELIGIBLE
            yield

    def new(self, replicas: Iterable[Replica], batch: RequestBatch) -> None:
        """Replicas of new partitions, or added to old ones: those learn their leader at once."""
        for replica in self.allowed(replicas, _S.NEW):
            known = self._context.leadership.get(replica.topic_partition)
            # One that an unclean election has chosen has its order to lead already.
            if known is not None and known.leader_and_isr.leader != replica.broker_id:
                batch.add_leader_and_isr([replica.broker_id], replica.topic_partition, is_new=True)
            self.transition_to(replica, _S.NEW)

    def online(self, replicas: Iterable[Replica], batch: RequestBatch) -> None:
        """Replicas whose broker works: one that comes back learns its leader."""
        for replica in self.allowed(replicas, _S.ONLINE):
            is_back = self._context.replica_state(replica) is not _S.NEW
            if is_back and replica.topic_partition in self._context.leadership:
                batch.add_leader_and_isr([replica.broker_id], replica.topic_partition)
            self.transition_to(replica, _S.ONLINE)

    def isr_writes(self, broker_id: int, replicas: Iterable[Replica]) -> list[PartitionStateWrite]:
        """States to write for replicas of one broker that go offline.

        The last one in sync stays in the ISR.
        """
        writes = []
        for partition, _ in replicas:
            known = self._context.leadership.get(partition)
            if known is None or broker_id not in known.leader_and_isr.isr:
                continue
            state = known.leader_and_isr
            left = tuple(b for b in state.isr if b != broker_id)
            writes.append(
                PartitionStateWrite(
                    topic_partition=partition,
                    leader_and_isr=LeaderAndIsr(
                        leader=NO_LEADER if state.leader == broker_id else state.leader,
                        leader_epoch=state.leader_epoch + 1,
                        isr=left or state.isr,
                        leader_recovery_state=state.leader_recovery_state,
                    ),
                    expected_version=state.partition_epoch,
                )
            )
        return writes

    def stop(self, replicas: Iterable[Replica], batch: RequestBatch) -> None:
        """Order the brokers of replicas that go offline to stop serving them."""
        for replica in replicas:
            batch.add_stop_replica(replica.broker_id, replica.topic_partition, delete=False)

    def shrunk(
        self,
        broker_id: int,
        writes: Iterable[PartitionStateWrite],
        versions: Mapping[TopicPartition, int | None],
        batch: RequestBatch,
    ) -> list[TopicPartition]:
        """Take over ISRs written without `broker_id`, and inform the others.

        Returns partitions that were in conflict.
        """
        context = self._context
        conflicts = []
        for write in writes:
            partition = write.topic_partition
            version = versions[partition]
            if version is None:
                conflicts.append(partition)
                continue
            remember(context, write, version)
            if not context.is_queued_for_deletion(partition.topic):
                others = [b for b in context.assignment(partition).replicas if b != broker_id]
                batch.add_leader_and_isr(others, partition)
        return conflicts

    def offline(self, replicas: Iterable[Replica], batch: RequestBatch) -> None:
        """Replicas that no longer work, after their ISRs have been written.

        All brokers learn of them, even if no ISR has changed: a broker that has stopped had left
        its ISRs before.
        """
        context = self._context
        for replica in replicas:
            topic, _ = partition = replica.topic_partition
            if partition not in context.leadership or not context.is_queued_for_deletion(topic):
                batch.add_update_metadata(context.live_brokers, (partition,))
            self.transition_to(replica, _S.OFFLINE)

    def deletion_started(self, replicas: Iterable[Replica], batch: RequestBatch) -> None:
        """Ask the brokers to delete these replicas."""
        for replica in self.allowed(replicas, _S.DELETION_STARTED):
            self.transition_to(replica, _S.DELETION_STARTED)
            batch.add_stop_replica(replica.broker_id, replica.topic_partition, delete=True)

    def move(self, replicas: Iterable[Replica], target: ReplicaState) -> None:
        """A move that no broker needs to know of."""
        for replica in self.allowed(replicas, target):
            self.transition_to(replica, target)
            if target is _S.NON_EXISTENT:
                self._context.remove_replica(replica)
