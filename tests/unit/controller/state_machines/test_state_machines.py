"""Partitions and replicas make the moves of Kafka's tables and no others."""

from __future__ import annotations

from uuid import UUID

import pytest

from kbroker.controller.state_machines.controller_context import (
    ControllerContext,
    PartitionState,
    Replica,
    ReplicaState,
)
from kbroker.controller.state_machines.partition_state_machine import (
    VALID_PREVIOUS as VALID_PREVIOUS_PARTITION,
)
from kbroker.controller.state_machines.partition_state_machine import (
    ElectionStrategy,
    PartitionStateMachine,
)
from kbroker.controller.state_machines.replica_state_machine import (
    VALID_PREVIOUS as VALID_PREVIOUS_REPLICA,
)
from kbroker.controller.state_machines.replica_state_machine import ReplicaStateMachine
from kbroker.controller.state_machines.request_batch import RequestBatch
from kbroker.controller.state_machines.topic_deletion_manager import (
    CompleteDeletion,
    RetryDeletion,
    StartDeletion,
    TopicDeletionManager,
)
from kbroker.model import Broker, EndPoint, LeaderAndIsr, ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.zk.zk_paths import PartitionStateZnode, TopicAssignment

T0 = TopicPartition("t", 0)
R1, R2 = Replica(T0, 1), Replica(T0, 2)


def context_with(*live: int, leader: int | None = None) -> ControllerContext:
    """Topic t with one partition on brokers 1 and 2."""
    context = ControllerContext()
    context.epoch = 5
    for broker_id in live:
        end_point = EndPoint(listener_name="PLAINTEXT", host="h", port=9092)
        context.live_brokers[broker_id] = Broker(broker_id=broker_id, end_points=(end_point,))
    partitions = {0: ReplicaAssignment(replicas=(1, 2))}
    context.set_assignment("t", TopicAssignment(topic_id=UUID(int=7), partitions=partitions))
    if leader is not None:
        state = LeaderAndIsr(leader=leader, leader_epoch=3, isr=(1, 2), partition_epoch=9)
        context.leadership[T0] = PartitionStateZnode(leader_and_isr=state, controller_epoch=5)
    return context


ALL_PARTITION_MOVES = [(a, b) for a in PartitionState for b in PartitionState]
ALL_REPLICA_MOVES = [(a, b) for a in ReplicaState for b in ReplicaState]


@pytest.mark.parametrize(
    ("current", "target"),
    [m for m in ALL_PARTITION_MOVES if m[0] not in VALID_PREVIOUS_PARTITION[m[1]]],
)
def test_a_forbidden_move_of_a_partition_is_left_out_and_cannot_be_forced(
    current: PartitionState, target: PartitionState
) -> None:
    context = context_with(1, 2)
    context.partition_states[T0] = current
    machine = PartitionStateMachine(context)
    assert machine.allowed([T0], target) == []
    with pytest.raises(AssertionError):
        machine.transition_to(T0, target)


@pytest.mark.parametrize(
    ("current", "target"),
    [m for m in ALL_REPLICA_MOVES if m[0] not in VALID_PREVIOUS_REPLICA[m[1]]],
)
def test_a_forbidden_move_of_a_replica_is_left_out_and_cannot_be_forced(
    current: ReplicaState, target: ReplicaState
) -> None:
    context = context_with(1, 2)
    context.replica_states[R1] = current
    machine = ReplicaStateMachine(context)
    assert machine.allowed([R1], target) == []
    with pytest.raises(AssertionError):
        machine.transition_to(R1, target)


def test_the_tables_hold_as_many_moves_as_kafkas() -> None:
    assert sum(map(len, VALID_PREVIOUS_PARTITION.values())) == 8
    assert sum(map(len, VALID_PREVIOUS_REPLICA.values())) == 14


def test_a_new_partition_is_led_by_its_first_living_replica_and_epoch_zero() -> None:
    context = context_with(2)
    context.partition_states[T0] = PartitionState.NEW
    machine = PartitionStateMachine(context)
    (write,) = machine.initial_writes([T0])
    assert write.leader_and_isr == LeaderAndIsr(leader=2, leader_epoch=0, isr=(2,))
    assert write.expected_version is None
    batch = RequestBatch(context, 1)
    assert machine.written([write], {T0: 0}, batch) == []
    assert context.partition_state(T0) is PartitionState.ONLINE
    requests = batch.build()
    assert [(b, type(r).__name__) for b, r in requests] == [
        (2, "LeaderAndIsrRequest"),
        (2, "UpdateMetadataRequest"),
    ]


def test_a_new_partition_without_living_replicas_stays_new() -> None:
    context = context_with(3)
    context.partition_states[T0] = PartitionState.NEW
    assert PartitionStateMachine(context).initial_writes([T0]) == []


def test_an_election_raises_the_epoch_and_expects_the_version_last_seen() -> None:
    context = context_with(2, leader=1)
    context.partition_states[T0] = PartitionState.OFFLINE
    machine = PartitionStateMachine(context)
    (write,) = machine.election_writes([T0], ElectionStrategy.OFFLINE, lambda topic: False)
    assert write.leader_and_isr == LeaderAndIsr(leader=2, leader_epoch=4, isr=(2,))
    assert write.expected_version == 9


def test_a_conflict_is_handed_back_and_changes_nothing() -> None:
    context = context_with(2, leader=1)
    context.partition_states[T0] = PartitionState.OFFLINE
    machine = PartitionStateMachine(context)
    writes = machine.election_writes([T0], ElectionStrategy.OFFLINE, lambda topic: False)
    batch = RequestBatch(context, 1)
    assert machine.written(writes, {T0: None}, batch) == [T0]
    assert context.partition_state(T0) is PartitionState.OFFLINE
    assert batch.build() == []


def test_the_last_replica_in_sync_stays_in_the_isr_of_a_partition_without_leader() -> None:
    context = context_with(1, leader=2)
    machine = ReplicaStateMachine(context)
    (write,) = machine.isr_writes(2, [R2])
    assert write.leader_and_isr == LeaderAndIsr(leader=-1, leader_epoch=4, isr=(1,))
    machine.shrunk(2, [write], {T0: 10}, RequestBatch(context, 1))
    (write,) = machine.isr_writes(1, [R1])
    assert write.leader_and_isr == LeaderAndIsr(leader=-1, leader_epoch=5, isr=(1,))


def test_metadata_of_a_topic_that_is_deleted_has_the_leader_that_says_so() -> None:
    context = context_with(1, leader=1)
    context.topics_to_delete.add("t")
    batch = RequestBatch(context, 1)
    batch.add_update_metadata([1], [T0])
    batch.add_stop_replica(1, T0, delete=True)
    update, stop = (request for _, request in batch.build())
    assert isinstance(update, UpdateMetadataRequest)
    assert isinstance(stop, StopReplicaRequest)
    assert update.topic_states[0].partition_states[0].leader == -2
    assert update.topic_states[0].partition_states[0].offline_replicas == [2]
    assert stop.topic_states[0].partition_states[0].leader_epoch == -2


def test_metadata_of_a_topic_that_is_deleted_has_the_epochs_kafka_gives_it() -> None:
    context = context_with(1, leader=1)
    context.topics_to_delete.add("t")
    batch = RequestBatch(context, 1)
    batch.add_update_metadata([1], [T0])
    ((_, update),) = batch.build()
    assert isinstance(update, UpdateMetadataRequest)
    state = update.topic_states[0].partition_states[0]
    assert (state.leader_epoch, state.zk_version, state.controller_epoch) == (0, 0, 5)


def test_a_broker_about_to_stop_counts_as_an_offline_replica() -> None:
    context = context_with(1, 2, leader=1)
    context.shutting_down.add(2)
    batch = RequestBatch(context, 1)
    batch.add_update_metadata([1], [T0])
    ((_, update),) = batch.build()
    assert isinstance(update, UpdateMetadataRequest)
    assert update.topic_states[0].partition_states[0].offline_replicas == [2]
    assert [broker.id for broker in update.live_brokers] == [1, 2]


def test_brokers_are_told_where_leaders_listen_for_brokers() -> None:
    context = context_with(1, 2, leader=1)
    end_points = tuple(
        EndPoint(listener_name=name, host=name.lower(), port=9092) for name in ("CLIENT", "INNER")
    )
    context.live_brokers[1] = Broker(broker_id=1, end_points=end_points)
    told = []
    for context.inter_broker_listener in ("INNER", None, "NONE"):
        batch = RequestBatch(context, 1)
        batch.add_leader_and_isr([2], T0)
        request = batch.build()[0][1]
        assert isinstance(request, LeaderAndIsrRequest)
        told.append([leader.host_name for leader in request.live_leaders])
    assert told == [["inner"], ["client"], []]


def test_an_added_replica_that_leads_already_is_told_nothing_more() -> None:
    context = context_with(1, 2, leader=2)
    batch = RequestBatch(context, 1)
    ReplicaStateMachine(context).new([R1, R2], batch)
    requests = batch.build()
    assert [n for n, request in requests if isinstance(request, LeaderAndIsrRequest)] == [1]
    assert context.replica_states[R2] is ReplicaState.NEW


def test_deletion_waits_for_answers_and_completes_when_all_have_come() -> None:
    context = context_with(1, 2, leader=1)
    manager = TopicDeletionManager(context, enabled=True)
    manager.enqueue(["t"])
    assert list(manager.due()) == [StartDeletion("t")]
    context.topics_with_deletion_started.add("t")
    context.replica_states[R1] = context.replica_states[R2] = ReplicaState.DELETION_STARTED
    assert list(manager.due()) == [None]
    context.replica_states[R1] = context.replica_states[R2] = ReplicaState.DELETION_SUCCESSFUL
    assert list(manager.due()) == [CompleteDeletion("t")]


def test_deletion_waits_for_a_dead_broker_and_is_tried_again_when_it_is_back() -> None:
    context = context_with(1, leader=1)
    manager = TopicDeletionManager(context, enabled=True)
    manager.enqueue(["t"])
    context.topics_with_deletion_started.add("t")
    context.replica_states[R1] = ReplicaState.DELETION_SUCCESSFUL
    context.replica_states[R2] = ReplicaState.DELETION_INELIGIBLE
    manager.mark_ineligible(["t"])
    manager.make_eligible(["t"])
    assert list(manager.due()) == [None]
    context.live_brokers[2] = context.live_brokers[1]
    manager.make_eligible(["t"])
    assert list(manager.due()) == [RetryDeletion("t", (R2,))]
