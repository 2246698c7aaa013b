"""What is said of thousands of partitions is said in pieces, and others run between them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from kbroker.controller.event_handlers.state_changes import StateChanges
from kbroker.controller.state_machines.controller_context import ControllerContext, ReplicaState
from kbroker.model import Broker, EndPoint, LeaderAndIsr, ReplicaAssignment
from kbroker.replication.controller_requests.request_shapes import ControlRequest
from kbroker.zk.zk_paths import PartitionStateZnode, TopicAssignment
from tests.fakes.running.loop_turns import counting_turns

BROKERS = 3


class RecordingChannels:
    """Notes in which turn of the loop each request was queued."""

    def __init__(self) -> None:
        self.turn = 0
        self.queued: list[tuple[int, str]] = []

    def send(self, requests: Iterable[tuple[int, ControlRequest]]) -> None:
        for _, request in requests:
            self.queued.append((self.turn, type(request).__name__))


def context_of(partitions: int) -> ControllerContext:
    context = ControllerContext()
    for broker_id in range(BROKERS):
        end_point = EndPoint(listener_name="PLAINTEXT", host=f"b{broker_id}", port=9092)
        context.live_brokers[broker_id] = Broker(broker_id=broker_id, end_points=(end_point,))
    held = {p: ReplicaAssignment(replicas=(p % BROKERS,)) for p in range(partitions)}
    context.set_assignment("t", TopicAssignment(topic_id=UUID(int=1), partitions=held))
    for partition in context.all_partitions():
        leader = partition.partition % BROKERS
        context.leadership[partition] = PartitionStateZnode(
            leader_and_isr=LeaderAndIsr(leader=leader, leader_epoch=0, isr=(leader,)),
            controller_epoch=1,
        )
    return context


def states_of(context: ControllerContext, channels: RecordingChannels) -> StateChanges:
    nobody: Any = None
    return StateChanges(
        context,
        nobody,
        channels,  # type: ignore[arg-type]
        broker_id=0,
        unclean_by_default=lambda: False,
    )


async def test_a_new_controller_looks_at_its_partitions_a_few_in_each_turn() -> None:
    context = context_of(3_000)
    states = states_of(context, RecordingChannels())

    assert len(list(states.replicas.initialize())) == 3_000
    assert len(list(states.partitions.initialize())) == 3_000
    _, turns = await counting_turns(states.all_replicas_online(list(context.all_replicas())))

    # Of 1,024 replicas to be online, 256 partitions of each request, and the requests.
    assert turns >= 2 + 3 * (1_000 // 256) + 3_000 // 256 + 2 * BROKERS


async def test_a_new_controller_queues_one_request_per_turn() -> None:
    context, channels = context_of(60), RecordingChannels()
    states = states_of(context, channels)
    replicas = context.replicas_of(context.all_partitions())
    list(states.replicas.initialize())
    working = asyncio.create_task(states.all_replicas_online(replicas))
    while not working.done():
        channels.turn += 1
        await asyncio.sleep(0)

    turns = [turn for turn, _ in channels.queued]
    assert len(set(turns)) == len(turns)
    names = [name for _, name in channels.queued]
    assert names == ["LeaderAndIsrRequest"] * BROKERS + ["UpdateMetadataRequest"] * BROKERS
    assert {states.context.replica_state(r) for r in replicas} == {ReplicaState.ONLINE}
