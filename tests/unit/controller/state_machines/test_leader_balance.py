"""Leaderships go back to brokers that have lost more than their share, if they can take them."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from kbroker.controller.state_machines.controller_context import ControllerContext
from kbroker.controller.state_machines.leader_balance import unbalanced_partitions
from kbroker.model import Broker, LeaderAndIsr, ReplicaAssignment, TopicPartition
from kbroker.zk.zk_paths import PartitionStateZnode, TopicAssignment


def context_with(led_by: list[int]) -> ControllerContext:
    """Topic t with a partition for each leader given, all preferred by broker 0, all in sync."""
    context = ControllerContext()
    for broker_id in (0, 1):
        context.live_brokers[broker_id] = Broker(broker_id=broker_id, end_points=())
    partitions = {i: ReplicaAssignment(replicas=(0, 1)) for i in range(len(led_by))}
    context.set_assignment("t", TopicAssignment(topic_id=UUID(int=7), partitions=partitions))
    for number, leader in enumerate(led_by):
        state = LeaderAndIsr(leader=leader, leader_epoch=3, isr=(0, 1))
        partition = TopicPartition("t", number)
        context.leadership[partition] = PartitionStateZnode(
            leader_and_isr=state, controller_epoch=1
        )
    return context


@pytest.mark.parametrize(("lost", "is_unbalanced"), [(0, False), (1, False), (2, True), (10, True)])
def test_a_broker_may_lack_a_tenth_of_its_leaderships(lost: int, is_unbalanced: bool) -> None:
    context = context_with([1] * lost + [0] * (10 - lost))
    expected = {0: [TopicPartition("t", i) for i in range(lost)]} if is_unbalanced else {}
    assert unbalanced_partitions(context, 10) == expected


def test_only_replicas_in_sync_on_living_brokers_lead_again() -> None:
    context = context_with([1, 1])
    first = TopicPartition("t", 0)
    state = context.leadership[first].leader_and_isr
    context.leadership[first] = replace(
        context.leadership[first], leader_and_isr=replace(state, isr=(1,))
    )
    assert unbalanced_partitions(context, 10) == {0: [TopicPartition("t", 1)]}
    del context.live_brokers[0]
    assert unbalanced_partitions(context, 10) == {}


def test_nothing_is_balanced_while_a_partition_moves_or_goes() -> None:
    context = context_with([1, 1])
    context.topics_to_delete.add("t")
    assert unbalanced_partitions(context, 10) == {}
    context.topics_to_delete.clear()
    context.assignments["t"][1] = ReplicaAssignment(
        replicas=(2, 0, 1), adding_replicas=(2,), removing_replicas=(0, 1)
    )
    assert unbalanced_partitions(context, 10) == {}
