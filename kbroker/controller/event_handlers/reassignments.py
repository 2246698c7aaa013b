"""Reassignments: carries out the moves of partitions to other brokers (KIP-455).

`state_machines/reassignment_phases.py` describes the phases. Moves are requested by
AlterPartitionReassignments or, as before it, by /admin/reassign_partitions; a partition leaves that
node when it has arrived or was refused, and the node goes with the last one.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping

from kbroker.controller.event_handlers.cluster_watches import ClusterWatches
from kbroker.controller.event_handlers.state_changes import StateChanges
from kbroker.controller.state_machines.controller_context import Replica, ReplicaState
from kbroker.controller.state_machines.partition_state_machine import ElectionStrategy
from kbroker.controller.state_machines.reassignment_phases import (
    AlterPartitionReassignments,
    ListPartitionReassignments,
    PartitionReassignmentIsrChange,
    ZkPartitionReassignment,
    is_being_reassigned,
    leftovers,
    origin_replicas,
    reassigned,
    reassigning_partitions,
    refused_target,
    target_replicas,
)
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.zk.nodes.zk_admin_requests import ZkAdminRequests
from kbroker.zk.tree import TreeUnavailableError
from kbroker.zk.zk_utils import ControllerMovedError

_log = logging.getLogger(__name__)


class Reassignments:
    """Partitions on the move. Owned by the controller's queue."""

    def __init__(self, states: StateChanges, watches: ClusterWatches) -> None:
        self._states = states
        self._context = states.context
        self._requests = ZkAdminRequests(states.zk)
        self._watches = watches

    async def start(self) -> None:
        """A new controller: take up the moves that the tree asks for, and those already begun."""
        await self.drop_deleted()  # the last controller may not have got there
        taken_up = await self._work_request()
        await self._resume(p for p in reassigning_partitions(self._context) if p not in taken_up)

    async def drop_leftovers(self) -> None:
        """Finish dropping replicas that a controller left when it died in the middle of a move."""
        for partition, broker_ids in sorted(leftovers(self._context).items()):
            if not self._is_going(partition):
                _log.info("%s was moved away from %s, and they are in sync", partition, broker_ids)
                await self._drop_replicas(partition, broker_ids)

    async def resume_on(self, broker_ids: Collection[int]) -> None:
        """Brokers are back: go on with the moves to them."""
        context, ids = self._context, set(broker_ids)
        moving = {p: context.assignment(p) for p in reassigning_partitions(context)}
        to_them = {p for p, a in moving.items() if ids & set(target_replicas(a))}
        await self._resume(sorted(to_them))
        for partition, assignment in moving.items():
            # One that could not be led before may be where it should be.
            if partition not in to_them and ids & set(assignment.replicas):
                await self.on_isr_change(PartitionReassignmentIsrChange(partition))

    async def on_request(
        self, event: AlterPartitionReassignments
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begin moves, redirect them, or call them off."""
        answers: dict[TopicPartition, KafkaError | None] = {}
        moves: dict[TopicPartition, ReplicaAssignment] = {}
        live = self._context.live_broker_ids()
        for partition, target in event.targets.items():
            move = self._move(partition, target, live)
            if isinstance(move, KafkaError):
                answers[partition] = move
            else:
                moves[partition] = move
        # The latest wish counts, whichever way it came.
        await self._remove_from_request(moves)
        return answers | await self._begin(moves)

    async def on_list(
        self, _event: ListPartitionReassignments
    ) -> dict[TopicPartition, ReplicaAssignment]:
        return {p: self._context.assignment(p) for p in reassigning_partitions(self._context)}

    async def on_zk_request(self, _event: ZkPartitionReassignment) -> None:
        await self._work_request()

    async def on_isr_change(self, event: PartitionReassignmentIsrChange) -> None:
        """Perhaps the whole target is in sync now."""
        partition = event.topic_partition
        assignment = self._context.assignment(partition)
        if not is_being_reassigned(assignment) or self._is_going(partition):
            return
        if await self._is_in_sync(partition, assignment):
            await self._try(partition, assignment)

    async def drop_deleted(self) -> None:
        """Topics are to be deleted: nobody waits for their moves any more."""
        wanted = await self._requests.reassignment()
        going = [p for p in wanted or () if self._is_going(p)]
        if going:
            await self._remove_from_request(going)

    def _is_going(self, partition: TopicPartition) -> bool:
        """True for a partition that does not exist, or not for long."""
        is_there = bool(self._context.assignment(partition).replicas)
        return not is_there or self._context.is_queued_for_deletion(partition.topic)

    # ---- wishes

    async def _work_request(self) -> set[TopicPartition]:
        """Begin the moves that the node asks for; returns them."""
        wanted = await self._requests.reassignment(self._watches.reassignment)
        if wanted is None:
            return set()
        answers: dict[TopicPartition, KafkaError | None] = {}
        moves: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, target in wanted.items():
            # As in Kafka, a node may name brokers that are down: the move waits for them.
            move = self._move(partition, target, usable=target)
            if isinstance(move, KafkaError):
                answers[partition] = move
                continue
            # The node changes with each partition that has arrived: the others still move.
            current = self._context.assignment(partition)
            if not (is_being_reassigned(current) and move == current):
                moves[partition] = move
        answers |= await self._begin(moves)
        refused = {p: error for p, error in answers.items() if error is not None}
        for partition, refusal in refused.items():
            _log.warning("%s is not moved to %s: %s", partition, wanted[partition], refusal)
        if refused or not wanted:
            await self._remove_from_request(refused)
        return answers.keys() - refused.keys()

    def _move(
        self,
        partition: TopicPartition,
        target: tuple[int, ...] | None,
        usable: Collection[int],
    ) -> ReplicaAssignment | KafkaError:
        """The assignment during the move, or the reason why it cannot be made."""
        current = self._context.assignment(partition)
        refusal = None if target is None else refused_target(current, target, usable)
        if refusal is not None:
            return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, refusal)
        assignment = reassigned(current, target)
        if assignment is None:
            message = "No partition reassignment is in progress."
            return KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, message)
        return self._unless_records_go(partition, assignment)

    def _unless_records_go(
        self, partition: TopicPartition, assignment: ReplicaAssignment
    ) -> ReplicaAssignment | KafkaError:
        """Refuse moves that would delete the last good copy."""
        known = self._context.leadership.get(partition)
        if known is not None and not set(known.leader_and_isr.isr) & set(assignment.replicas):
            # Only replicas that an earlier move has added are in sync. Kafka drops them here; with
            # KRaft it refuses in these words.
            message = (
                f"Unable to revert partition assignment for {partition.topic}:"
                f"{partition.partition} because it would require an unclean leader election."
            )
            return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        return assignment

    async def _remove_from_request(self, partitions: Collection[TopicPartition]) -> None:
        """Take partitions out of the node, and with the last one the node."""
        wanted = await self._requests.reassignment()
        if wanted is None:
            return
        left = {p: target for p, target in wanted.items() if p not in partitions}
        if left != wanted or not left:
            await self._requests.set_reassignment(left, self._context.epoch_version)

    # ---- moves

    async def _begin(
        self, moves: Mapping[TopicPartition, ReplicaAssignment]
    ) -> dict[TopicPartition, KafkaError | None]:
        answers: dict[TopicPartition, KafkaError | None] = {}
        for partition, assignment in moves.items():
            if self._is_going(partition):
                message = "The partition does not exist."
                answers[partition] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
            else:
                answers[partition] = await self._try(partition, assignment)
        return answers

    async def _try(
        self, partition: TopicPartition, assignment: ReplicaAssignment
    ) -> KafkaError | None:
        try:
            await self._reassign(partition, assignment)
        except (ControllerMovedError, TreeUnavailableError):
            raise
        except Exception:
            # One partition that cannot move must not keep the others from moving.
            _log.exception("reassignment of %s failed", partition)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return None

    async def _resume(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in list(partitions):
            if not self._is_going(partition):
                await self._try(partition, self._context.assignment(partition))

    async def _reassign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        await self._write_down(partition, assignment)
        is_moving = is_being_reassigned(assignment)
        if is_moving and not await self._is_in_sync(partition, assignment):
            await self._tell_new_epoch(partition, assignment)
            self._states.replicas_new(_replicas(partition, assignment.adding_replicas))
        else:
            await self._complete(partition, assignment)

    async def _write_down(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        before = self._context.assignment(partition)
        if before == assignment:
            return
        _log.info("reassignment of %s: %s", partition, assignment)
        await self._write_assignment(partition, assignment)
        self._context.assignments[partition.topic][partition.partition] = assignment
        # Another reassignment was under way: replicas that it added may no longer be needed.
        unneeded = [b for b in before.replicas if b not in assignment.replicas]
        await self._drop_replicas(partition, unneeded)
        known = self._context.leadership.get(partition)
        if known is not None and known.leader_and_isr.leader not in assignment.replicas:
            # One of them led. Kafka leaves such a partition without a leader until it has moved.
            await self._states.partitions_online([partition], ElectionStrategy.OFFLINE)

    async def _complete(self, partition: TopicPartition, moved: ReplicaAssignment) -> None:
        self._states.replicas_online(_replicas(partition, moved.adding_replicas))
        assignment = ReplicaAssignment(replicas=target_replicas(moved))
        self._context.assignments[partition.topic][partition.partition] = assignment
        await self._move_leader(partition, assignment)
        await self._drop_replicas(partition, moved.removing_replicas)
        await self._write_assignment(partition, assignment)
        await self._remove_from_request([partition])
        self._states.send_metadata(self._context.live_brokers, [partition])
        _log.info("reassignment of %s is complete: %s", partition, assignment.replicas)

    async def _move_leader(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        known = self._context.leadership.get(partition)
        if known is None:  # no replica was alive since its creation: one may be now
            await self._states.partitions_online([partition], ElectionStrategy.OFFLINE)
            return
        leader = known.leader_and_isr.leader
        stays = leader in assignment.replicas
        if stays and self._context.is_replica_online(Replica(partition, leader)):
            # The replicas have changed although the leader has not.
            await self._tell_new_epoch(partition, assignment)
        else:
            await self._states.partitions_online([partition], ElectionStrategy.REASSIGN)

    async def _tell_new_epoch(
        self, partition: TopicPartition, assignment: ReplicaAssignment
    ) -> None:
        if not await self._states.raise_leader_epoch(partition):
            return
        batch = self._states.batch()
        batch.add_leader_and_isr(origin_replicas(assignment), partition)
        # A new replica may be made in any directory; an old one must not be made a second time.
        batch.add_leader_and_isr(assignment.adding_replicas, partition, is_new=True)
        self._states.send(batch)

    async def _drop_replicas(self, partition: TopicPartition, broker_ids: Collection[int]) -> None:
        replicas = _replicas(partition, broker_ids)
        if not replicas:
            return
        await self._states.replicas_offline(replicas)
        self._states.replicas_deletion_started(replicas)
        # As in Kafka nobody waits for the answer: a broker out of reach keeps its copy.
        self._states.replicas.move(replicas, ReplicaState.DELETION_SUCCESSFUL)
        self._states.replicas.move(replicas, ReplicaState.NON_EXISTENT)

    async def _is_in_sync(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        states = await self._states.zk.partition_states([partition])
        if partition not in states:
            return False
        return set(target_replicas(assignment)) <= set(states[partition].leader_and_isr.isr)

    async def _write_assignment(
        self, partition: TopicPartition, assignment: ReplicaAssignment
    ) -> None:
        # The topic may have grown since it was read.
        await self._states.zk.change_topic_assignment(
            partition.topic, {partition.partition: assignment}, self._context.epoch_version
        )


def _replicas(partition: TopicPartition, broker_ids: Collection[int]) -> list[Replica]:
    return [Replica(partition, broker_id) for broker_id in broker_ids]
