"""Reassignment: how the replicas of a partition change from one set to another (KIP-455).

While it moves, a partition's replicas are the target's followed by those that leave; `adding` and
`removing` say which are which. So the assignment alone shows origin and target, and a new
controller goes on from where the last one stopped.

Pure. The phases, after the assignment above has been written down:

    A  some of the target is not in sync: a new leader epoch for all old and new replicas, and the
       new ones start to copy. Phase B comes when the ISR has grown to hold the target.
    B  the target leads and is all there is; what leaves is taken out of the ISR and deleted; then
       the plain assignment is written down.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kbroker.controller.state_machines.controller_context import ControllerContext
from kbroker.controller.state_machines.events import Event
from kbroker.model import ReplicaAssignment, TopicPartition


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignments(Event):
    """Move partitions to these replicas; None means back to their origin.

    The answer has for each partition None or the KafkaError that refused it.
    """

    targets: dict[TopicPartition, tuple[int, ...] | None]


class ListPartitionReassignments(Event):
    """Somebody asks which partitions move. The answer is the assignment of each."""

    __slots__ = ()


class ZkPartitionReassignment(Event):
    """/admin/reassign_partitions came, went or changed."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PartitionReassignmentIsrChange(Event):
    """The ISR of a partition that moves has changed: perhaps its target is in sync now."""

    topic_partition: TopicPartition


def is_being_reassigned(assignment: ReplicaAssignment) -> bool:
    return bool(assignment.adding_replicas or assignment.removing_replicas)


def origin_replicas(assignment: ReplicaAssignment) -> tuple[int, ...]:
    return _without(assignment.replicas, assignment.adding_replicas)


def target_replicas(assignment: ReplicaAssignment) -> tuple[int, ...]:
    return _without(assignment.replicas, assignment.removing_replicas)


def reassign_to(assignment: ReplicaAssignment, target: Sequence[int]) -> ReplicaAssignment:
    """The assignment of a partition on its way to `target`, no matter where it was going before."""
    origin = origin_replicas(assignment)
    every = tuple(dict.fromkeys((*target, *origin)))
    return ReplicaAssignment(
        replicas=every,
        adding_replicas=_without(every, origin),
        removing_replicas=_without(every, target),
    )


def reassigned(
    assignment: ReplicaAssignment, target: Sequence[int] | None
) -> ReplicaAssignment | None:
    """The assignment on the way to a target (None: the origin); None if nothing moves."""
    if target is not None:
        return reassign_to(assignment, target)
    if is_being_reassigned(assignment):
        return reassign_to(assignment, origin_replicas(assignment))
    return None


def refused_target(
    assignment: ReplicaAssignment, target: Sequence[int], live: Collection[int]
) -> str | None:
    """The reason why a partition cannot move to `target`, in Kafka 3.9's words; None if it can."""
    shown = f"ArrayBuffer({', '.join(map(str, target))})"
    if not target:
        return "Empty replica list specified in partition reassignment."
    if len(set(target)) != len(target):
        return f"Duplicate replica ids in partition reassignment replica list: {shown}"
    if min(target) < 0:
        return f"Invalid broker id in replica list: {shown}"
    added = reassign_to(assignment, target).adding_replicas
    if not set(added) <= set(live):
        return (
            "Replica assignment has brokers that are not alive. Replica list: "
            f"ArrayBuffer({', '.join(map(str, added))}), "
            f"live broker list: Set({', '.join(map(str, sorted(live)))})"
        )
    return None


def reassigning_partitions(context: ControllerContext) -> list[TopicPartition]:
    return [
        TopicPartition(topic, number)
        for topic, partitions in context.assignments.items()
        for number, assignment in partitions.items()
        if is_being_reassigned(assignment)
    ]


def leftovers(context: ControllerContext) -> dict[TopicPartition, list[int]]:
    """In-sync brokers that hold no replica by the assignment: it was written before they were
    dropped, and then the controller ended. If all others left the ISR before them, nobody could
    lead; so there are none if nobody else is in it.
    """
    found = {}
    for partition, state in context.leadership.items():
        assigned, isr = context.assignment(partition).replicas, state.leader_and_isr.isr
        left = [broker_id for broker_id in isr if broker_id not in assigned]
        if assigned and 0 < len(left) < len(isr):
            found[partition] = left
    return found


def _without(replicas: Sequence[int], others: Collection[int]) -> tuple[int, ...]:
    left_out = set(others)
    return tuple(b for b in replicas if b not in left_out)
