"""Brokers that come back, and no controller knows which records they have kept.

Pure. Law: a state node that was written before a broker registered describes an earlier life of
that broker. If a controller saw the end of that life, the broker has left the ISR, unless it was
the last in it; otherwise the broker is still in it. Its log may have lost what was not synced, so
it neither leads nor counts as in sync before it has caught up, as long as others are left. If none
are left, the replica whose log reaches furthest leads: by leader epoch, then by offset, it has all
committed records that the others have kept (the rule of Raft, section 5.4.1).

Kafka's controllers compare none of this: there, a leader that has lost its end with the power leads
on, and its followers cut off what it has lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from kbroker.controller.state_machines.controller_context import ControllerContext, Replica
from kbroker.controller.state_machines.partition_leader_election import Elected
from kbroker.log.partition.leader_epoch_cache import EpochEndOffset
from kbroker.model import NO_LEADER, TopicPartition
from kbroker.zk.zk_paths import PartitionStateWrite


def replicas_that_returned(context: ControllerContext) -> Iterator[Replica]:
    """Yield the replicas whose broker has registered again since their ISR was written.

    Those of a partition in which nobody else in sync is alive are left out: one of them has to
    lead. They are not left out while it is in doubt which one.
    """
    live = context.live_brokers
    for partition, state in context.leadership.items():
        isr = [b for b in state.leader_and_isr.isr if b in live]
        returned = [b for b in isr if live[b].epoch > state.zxid]
        if len(returned) < len(isr) or partition in context.in_doubt:
            for broker_id in returned:
                yield Replica(partition, broker_id)


def leaders_that_returned(context: ControllerContext) -> Iterator[TopicPartition]:
    """Partitions that such a replica goes on leading, while others have one of them too.

    The replica needs a new epoch: under the old one it could write other records in place of lost
    ones, and nobody could tell them apart.
    """
    for partition, state in context.leadership.items():
        leader = context.live_brokers.get(state.leader_and_isr.leader)
        if (
            leader is not None
            and leader.epoch > state.zxid
            and context.is_replica_online(Replica(partition, leader.broker_id))
            and len(context.assignment(partition).replicas) > 1
        ):
            yield partition


def partitions_in_doubt(
    context: ControllerContext, partitions: Iterable[TopicPartition]
) -> Iterator[TopicPartition]:
    """Partitions whose living in-sync replicas have all lost memory since, if there are others."""
    live = context.live_brokers
    for partition in partitions:
        state = context.leadership.get(partition)
        if state is None or len(context.assignment(partition).replicas) < 2:
            continue
        isr = [live[b] for b in state.leader_and_isr.isr if b in live]
        if isr and all(b.has_lost_memory and b.epoch > state.zxid for b in isr):
            yield partition


def keeping_doubt(
    context: ControllerContext, writes: Iterable[PartitionStateWrite]
) -> Iterator[PartitionStateWrite]:
    """The same writes. A write that leaves a partition in doubt without leader notes it, for the
    controller that may have to go on from there.
    """
    for write in writes:
        partition = write.topic_partition
        is_led = write.leader_and_isr.leader != NO_LEADER
        if is_led or not any(partitions_in_doubt(context, [partition])):
            yield write
        else:
            yield replace(write, caught_up_zxid=context.leadership[partition].zxid)


def most_advanced(
    replicas: Sequence[int], isr: Sequence[int], ends: Mapping[int, EpochEndOffset]
) -> Elected:
    """The replica whose log reaches furthest; of equal ones the first, one in sync before
    others.

    `ends` has the last leader epoch and the end of each log that is known, at least one. Nobody
    else is in sync then. A log whose records were all deleted may not know their epoch: all before
    its end was committed, so it leads if the furthest of the others ends before that.
    """

    def reach(broker_id: int) -> tuple[int, int, bool, int]:
        epoch, end_offset = ends[broker_id]
        return epoch, end_offset, broker_id in isr, -replicas.index(broker_id)

    known = [b for b in replicas if b in ends]
    telling = [b for b in known if ends[b].epoch >= 0 or not ends[b].end_offset]
    deleted = [b for b in known if b not in telling]
    furthest = [max(group, key=reach) for group in (telling, deleted) if group]
    leader = max(furthest, key=lambda b: reach(b)[1:])
    return Elected(leader, (leader,), unclean=leader not in isr)
