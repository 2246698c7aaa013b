"""What waits for a broker is merged while everything else goes on, and stays in order."""

from __future__ import annotations

import asyncio

import pytest

from kbroker.controller.channels.request_queue import MERGE_ABOVE, RequestQueue
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.replication.controller_requests.request_shapes import ControlRequest
from kbroker.turns import turns

PARTITIONS = 3_000


def request(number: int, partitions: int = 1) -> ControlRequest:
    """The one of that number."""
    states = [
        UpdateMetadataRequest.UpdateMetadataPartitionState(partition_index=p, leader_epoch=number)
        for p in range(partitions)
    ]
    topic = UpdateMetadataRequest.UpdateMetadataTopicState(topic_name="t", partition_states=states)
    return UpdateMetadataRequest(broker_epoch=number, topic_states=[topic])


async def numbers_of(queue: RequestQueue) -> list[int]:
    """All that wait, which are taken out."""
    numbers = []
    while (taken := await queue.take()) is not None:
        numbers.append(taken.broker_epoch)
    return numbers


@pytest.fixture
def queue() -> RequestQueue:
    return RequestQueue()


@pytest.fixture
async def merging(queue: RequestQueue) -> asyncio.Task[None]:
    """Requests 1 and 2, for very many partitions, are on their way to be one."""
    for number in (1, 2):
        queue.put(request(number, PARTITIONS))
    task = asyncio.create_task(queue.merge())
    for _ in range(4):
        await asyncio.sleep(0)
    assert turns().given > 0
    assert len(queue) == 2
    return task


async def test_very_many_partitions_are_merged_in_turns(
    queue: RequestQueue, merging: asyncio.Task[None]
) -> None:
    await merging

    assert turns().given > 5
    assert await numbers_of(queue) == [2]


async def test_none_leaves_while_they_are_merged(
    queue: RequestQueue, merging: asyncio.Task[None]
) -> None:
    first = await queue.take()

    assert first is not None
    assert first.broker_epoch == 2
    assert len(queue) == 0
    await merging


async def test_what_comes_meanwhile_waits_behind(
    queue: RequestQueue, merging: asyncio.Task[None]
) -> None:
    queue.put(request(3))

    assert await numbers_of(queue) == [2, 3]
    await merging


async def test_what_is_put_back_meanwhile_is_the_first_to_be_merged(
    queue: RequestQueue, merging: asyncio.Task[None]
) -> None:
    queue.put_back(request(0))

    await merging
    await queue.merge()

    assert await numbers_of(queue) == [2]


async def test_what_is_put_back_is_sent_first_if_nobody_merges(
    queue: RequestQueue, merging: asyncio.Task[None]
) -> None:
    queue.put_back(request(0))

    assert await numbers_of(queue) == [0, 1, 2]
    await merging


async def test_what_is_dropped_meanwhile_does_not_come_back(
    queue: RequestQueue, merging: asyncio.Task[None]
) -> None:
    queue.clear()
    queue.put(request(3))

    await merging

    assert await numbers_of(queue) == [3]


async def test_what_was_merged_is_not_merged_again(queue: RequestQueue) -> None:
    for number in (1, 2):
        queue.put(request(number, PARTITIONS))
    await queue.merge()
    taken = await queue.take()
    assert taken is not None
    queue.put_back(taken)
    given = turns().given

    await queue.merge()

    assert turns().given == given
    assert await numbers_of(queue) == [2]


async def test_very_many_requests_are_merged_by_themselves(queue: RequestQueue) -> None:
    for number in range(MERGE_ABOVE + 1):
        queue.put(request(number))

    assert await numbers_of(queue) == [MERGE_ABOVE]


async def test_nothing_is_merged_after_the_end(
    queue: RequestQueue, merging: asyncio.Task[None]
) -> None:
    queue.stop()

    await merging

    assert len(queue) == 2
