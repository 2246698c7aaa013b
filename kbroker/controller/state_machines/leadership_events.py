"""The events in states of partitions that the controller has written: other leaders, smaller ISRs.

Pure. Law: asked before the states are remembered, as an event compares them with those of before.
Partitions of topics that are being deleted have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kbroker.controller.state_machines.controller_context import ControllerContext, Replica
from kbroker.controller.state_machines.partition_state_machine import ElectionStrategy
from kbroker.events.event import Event
from kbroker.events.partition_events import IsrCause, IsrChange, LeaderCause, LeaderChange
from kbroker.model import NO_LEADER, LeaderAndIsr, TopicPartition
from kbroker.zk.zk_paths import PartitionStateWrite

Versions = Mapping[TopicPartition, int | None]
"""The versions of written states, None for those that could not be written."""

_CAUSES = {
    ElectionStrategy.OFFLINE: LeaderCause.LEADER_LOST,
    ElectionStrategy.REASSIGN: LeaderCause.REASSIGNED,
    ElectionStrategy.PREFERRED: LeaderCause.PREFERRED,
    ElectionStrategy.UNCLEAN: LeaderCause.LEADER_LOST,
    ElectionStrategy.CONTROLLED_SHUTDOWN: LeaderCause.LEADER_STOPS,
}


def elections(
    context: ControllerContext,
    writes: Iterable[PartitionStateWrite],
    versions: Versions,
    strategy: ElectionStrategy | None,
) -> Iterator[Event]:
    """Yield the leaders that have changed by an election; the strategy is None if those were chosen
    by the ends of their logs.
    """
    cause = LeaderCause.LONGEST_LOG if strategy is None else _CAUSES[strategy]
    for partition, before, after in _written(context, writes, versions):
        if before.leader != after.leader:
            yield _leader_change(partition, before, after, _cause(cause, before, after))


def _cause(cause: LeaderCause, before: LeaderAndIsr, after: LeaderAndIsr) -> LeaderCause:
    if after.leader not in before.isr:
        return LeaderCause.UNCLEAN
    is_back = cause is LeaderCause.LEADER_LOST and before.leader == NO_LEADER
    return LeaderCause.LEADER_BACK if is_back else cause


def shrunk_isrs(
    context: ControllerContext,
    broker_id: int,
    writes: Iterable[PartitionStateWrite],
    versions: Versions,
) -> Iterator[Event]:
    """Yield the ISRs that have lost a broker, and the leaders that went with it."""
    for partition, before, after in _written(context, writes, versions):
        if before.isr != after.isr:
            is_moving = context.is_replica_online(Replica(partition, broker_id))
            why = IsrCause.MOVED_AWAY if is_moving else IsrCause.BROKER_LOST
            if broker_id in context.shutting_down:
                why = IsrCause.BROKER_STOPS
            yield IsrChange(
                topic_partition=partition,
                before=before.isr,
                isr=after.isr,
                why=why,
                replicas=(f"broker {broker_id} is",),
            )
        if before.leader != after.leader:
            yield _leader_change(partition, before, after, LeaderCause.NOBODY_LEFT)


def _written(
    context: ControllerContext, writes: Iterable[PartitionStateWrite], versions: Versions
) -> Iterator[tuple[TopicPartition, LeaderAndIsr, LeaderAndIsr]]:
    for write in writes:
        partition = write.topic_partition
        known = context.leadership.get(partition)
        is_written = versions[partition] is not None
        if is_written and known and not context.is_queued_for_deletion(partition.topic):
            yield partition, known.leader_and_isr, write.leader_and_isr


def _leader_change(
    partition: TopicPartition, before: LeaderAndIsr, after: LeaderAndIsr, why: LeaderCause
) -> LeaderChange:
    return LeaderChange(
        topic_partition=partition,
        before=before.leader,
        leader=after.leader,
        leader_epoch=after.leader_epoch,
        isr=after.isr,
        why=why,
    )
