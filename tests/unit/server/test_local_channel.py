from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from kbroker.controller.metadata_waiter import MetadataWaiter
from kbroker.model import TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kbroker.server.local_channel import LocalChannel

PARTITIONS = 50


class CountingReplicas:
    """Answers what it is asked, and notes how many partitions came at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        errors = [
            LeaderAndIsrResponse.LeaderAndIsrPartitionError(
                topic_name=topic.topic_name, partition_index=state.partition_index
            )
            for topic in request.topic_states
            for state in topic.partition_states
        ]
        self.sizes.append(len(errors))
        topic_errors = LeaderAndIsrResponse.LeaderAndIsrTopicError(partition_errors=errors)
        return LeaderAndIsrResponse(partition_errors=errors, topics=[topic_errors])

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        (topic,) = request.topic_states
        self.sizes.append(len(topic.partition_states))
        return StopReplicaResponse(
            partition_errors=[
                StopReplicaResponse.StopReplicaPartitionError(
                    topic_name=topic.topic_name, partition_index=state.partition_index
                )
                for state in topic.partition_states
            ]
        )


async def nothing(_topics: Iterable[TopicPartition]) -> None:
    return None


def send(replicas: Any, request: Any) -> tuple[Any, int]:
    """The answer, and how often others had a turn of the loop meanwhile."""

    async def run() -> tuple[Any, int]:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        answer = await LocalChannel(replicas, MetadataWaiter(), nothing).send(request)
        task.cancel()
        return answer, turns

    return asyncio.run(run())


def test_many_partitions_are_led_in_slices_and_answered_as_one() -> None:
    replicas = CountingReplicas()
    states = [
        LeaderAndIsrRequest.LeaderAndIsrPartitionState(partition_index=index)
        for index in range(PARTITIONS)
    ]
    topic = LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name="t", partition_states=states)

    answer, turns = send(replicas, LeaderAndIsrRequest(topic_states=[topic]))

    assert [e.partition_index for e in answer.partition_errors] == list(range(PARTITIONS))
    assert [len(topic.partition_errors) for topic in answer.topics] == [PARTITIONS]
    assert max(replicas.sizes) < 10
    assert turns >= len(replicas.sizes)


def test_many_partitions_are_stopped_in_slices_and_answered_as_one() -> None:
    replicas = CountingReplicas()
    states = [
        StopReplicaRequest.StopReplicaPartitionState(partition_index=index)
        for index in range(PARTITIONS)
    ]
    topic = StopReplicaRequest.StopReplicaTopicState(topic_name="t", partition_states=states)

    answer, turns = send(replicas, StopReplicaRequest(topic_states=[topic]))

    assert [e.partition_index for e in answer.partition_errors] == list(range(PARTITIONS))
    assert max(replicas.sizes) < 10
    assert turns >= len(replicas.sizes)
