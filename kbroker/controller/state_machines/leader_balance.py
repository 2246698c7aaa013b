"""Leader balance: which partitions should go back to their preferred leaders by themselves
(auto.leader.rebalance.enable).

Pure. Law: a broker gets its leaderships back if more than leader.imbalance.per.broker.percentage of
those it should have are elsewhere. It gets only those it can take over now, because an election of
a replica that is offline or out of sync would fail. Nothing happens while partitions move, as in
Kafka.
"""

from __future__ import annotations

from collections import defaultdict

from kbroker.controller.state_machines.controller_context import ControllerContext, Replica
from kbroker.controller.state_machines.reassignment_phases import reassigning_partitions
from kbroker.model import TopicPartition


def unbalanced_partitions(
    context: ControllerContext, percentage: int
) -> dict[int, list[TopicPartition]]:
    """By broker, the partitions that it should lead again."""
    if reassigning_partitions(context):
        return {}
    preferred: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition in context.leadership:
        replicas = context.assignment(partition).replicas
        if replicas and not context.is_queued_for_deletion(partition.topic):
            preferred[replicas[0]].append(partition)
    unbalanced = {}
    for broker_id, partitions in preferred.items():
        lost = [p for p in partitions if context.leadership[p].leader_and_isr.leader != broker_id]
        if len(lost) * 100 > percentage * len(partitions):
            electable = [p for p in lost if _can_lead(context, p, broker_id)]
            if electable:
                unbalanced[broker_id] = electable
    return unbalanced


def _can_lead(context: ControllerContext, partition: TopicPartition, broker_id: int) -> bool:
    isr = context.leadership[partition].leader_and_isr.isr
    return broker_id in isr and context.is_replica_online(Replica(partition, broker_id))
