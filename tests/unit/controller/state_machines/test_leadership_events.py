"""Which events lie in the states that the controller writes."""

from __future__ import annotations

from uuid import UUID

import pytest

from kbroker.controller.state_machines.controller_context import ControllerContext
from kbroker.controller.state_machines.leadership_events import elections, shrunk_isrs
from kbroker.controller.state_machines.partition_state_machine import ElectionStrategy
from kbroker.model import (
    NO_LEADER,
    Broker,
    EndPoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from kbroker.zk.zk_paths import PartitionStateWrite, PartitionStateZnode, TopicAssignment

T0 = TopicPartition("t", 0)


def context_of(leader: int, isr: tuple[int, ...], live: tuple[int, ...]) -> ControllerContext:
    context = ControllerContext()
    for broker_id in live:
        end_point = EndPoint(listener_name="PLAINTEXT", host="h", port=9092)
        context.live_brokers[broker_id] = Broker(broker_id=broker_id, end_points=(end_point,))
    held = {0: ReplicaAssignment(replicas=(1, 2, 3))}
    context.set_assignment("t", TopicAssignment(topic_id=UUID(int=1), partitions=held))
    context.leadership[T0] = PartitionStateZnode(
        leader_and_isr=LeaderAndIsr(leader=leader, leader_epoch=4, isr=isr), controller_epoch=1
    )
    return context


def write(leader: int, isr: tuple[int, ...]) -> PartitionStateWrite:
    state = LeaderAndIsr(leader=leader, leader_epoch=5, isr=isr)
    return PartitionStateWrite(topic_partition=T0, leader_and_isr=state)


@pytest.mark.parametrize(
    ("strategy", "before", "leader", "cause"),
    [
        (ElectionStrategy.OFFLINE, 1, 2, "leader_lost"),
        (ElectionStrategy.OFFLINE, NO_LEADER, 2, "leader_back"),
        (ElectionStrategy.OFFLINE, 1, 9, "unclean"),
        (ElectionStrategy.UNCLEAN, NO_LEADER, 9, "unclean"),
        (ElectionStrategy.PREFERRED, 2, 1, "preferred"),
        (ElectionStrategy.REASSIGN, 1, 2, "reassigned"),
        (ElectionStrategy.CONTROLLED_SHUTDOWN, 1, 2, "leader_stops"),
        (None, NO_LEADER, 2, "longest_log"),
    ],
)
def test_an_election_says_who_leads_now_and_why(
    strategy: ElectionStrategy | None, before: int, leader: int, cause: str
) -> None:
    context = context_of(before, (1, 2, 3), (1, 2, 3))

    (event,) = elections(context, [write(leader, (2, 3))], {T0: 1}, strategy)

    assert (event.name, event.cause) == ("leader_changed", cause)
    assert event.fields()["leader_before"] == before
    assert event.fields()["isr"] == "2,3"


def test_no_event_comes_of_a_leader_that_stays_a_write_that_fails_or_a_topic_that_goes() -> None:
    context = context_of(1, (1, 2, 3), (1, 2, 3))
    strategy = ElectionStrategy.OFFLINE

    assert list(elections(context, [write(1, (1, 2))], {T0: 1}, strategy)) == []
    assert list(elections(context, [write(2, (2, 3))], {T0: None}, strategy)) == []
    context.topics_to_delete.add("t")
    assert list(elections(context, [write(2, (2, 3))], {T0: 1}, strategy)) == []


@pytest.mark.parametrize(
    ("live", "stopping", "cause"),
    [
        ((1, 2), set(), "broker_lost"),
        ((1, 2, 3), {3}, "broker_stops"),
        ((1, 2, 3), set(), "moved_away"),
    ],
)
def test_an_isr_that_loses_a_broker_says_why(
    live: tuple[int, ...], stopping: set[int], cause: str
) -> None:
    context = context_of(1, (1, 2, 3), live)
    context.shutting_down |= stopping

    (event,) = shrunk_isrs(context, 3, [write(1, (1, 2))], {T0: 1})

    assert (event.name, event.cause) == ("isr_shrunk", cause)
    assert "broker 3 is" in event.sentence()


def test_a_leader_that_goes_with_nobody_to_follow_it_leaves_none() -> None:
    context = context_of(1, (1,), (2, 3))

    (event,) = shrunk_isrs(context, 1, [write(NO_LEADER, (1,))], {T0: 1})

    assert (event.name, event.cause) == ("leader_changed", "nobody_left")
