from __future__ import annotations

import asyncio

import pytest

from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.replication.reads.delayed_fetch import DelayedFetch
from kbroker.replication.reads.fetch_params import FetchParams, FetchPartition
from kbroker.replication.reads.fetch_reader import FetchOutcome


class Reader:
    """Finds in every partition what is there now, and counts the partitions it has looked at."""

    def __init__(self) -> None:
        self.records = b""
        self.looked = 0

    def read(self, _params, asked_for) -> FetchOutcome:
        outcome = FetchOutcome()
        for asked in asked_for:
            self.looked += 1
            index = asked.topic_partition.partition
            data = FetchResponse.PartitionData(partition_index=index, records=self.records)
            outcome.partitions.append(data)
            outcome.available.append(len(self.records))
            outcome.available_bytes += len(self.records)
        return outcome


@pytest.fixture
def reader() -> Reader:
    return Reader()


def waiting(reader: Reader, partitions: int) -> tuple[DelayedFetch, asyncio.Future]:
    params = FetchParams(isolation=FetchIsolation.LOG_END, max_bytes=100, min_bytes=2)
    asked = [FetchPartition(TopicPartition("t", number)) for number in range(partitions)]
    future = asyncio.get_running_loop().create_future()
    operation = DelayedFetch(params, asked, reader.read(params, asked), reader.read, future)
    reader.looked = 0
    return operation, future


async def test_the_only_partition_of_a_fetch_is_read_once(reader):
    operation, future = waiting(reader, 1)
    reader.records = b"ab"

    is_done = operation.try_complete(TopicPartition("t", 0))
    operation.on_complete()

    assert (is_done, reader.looked) == (True, 1)
    assert [data.records for data in future.result()] == [b"ab"]


async def test_several_partitions_are_read_once_more_at_the_end(reader):
    operation, future = waiting(reader, 2)
    reader.records = b"ab"

    operation.try_complete(TopicPartition("t", 1))
    operation.on_complete()

    assert reader.looked == 3
    assert [data.records for data in future.result()] == [b"ab", b"ab"]


async def test_a_fetch_that_expires_gets_what_is_there_then(reader):
    operation, future = waiting(reader, 1)
    reader.records = b"a"
    operation.try_complete(TopicPartition("t", 0))

    reader.records = b"b"
    operation.on_expiration()

    assert [data.records for data in future.result()] == [b"b"]


async def test_a_partition_added_since_the_look_is_in_the_answer(reader):
    operation, future = waiting(reader, 1)
    reader.records = b"a"
    operation.try_complete(TopicPartition("t", 0))

    operation.add(FetchPartition(TopicPartition("t", 1)))
    operation.try_complete(TopicPartition("t", 1))
    operation.on_complete()

    assert [data.partition_index for data in future.result()] == [0, 1]
