"""How a request waits for several partitions, and what it is told when its time is up."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.replication.partitions.produce_result import PartitionProduceResult
from kbroker.replication.waiting.delayed_operation_purgatory import DelayedOperationPurgatory
from kbroker.replication.waiting.delayed_produce import DelayedProduce
from tests.fakes.running.virtual_time import VirtualTime

T, U, V = (TopicPartition(topic, 0) for topic in "tuv")
NONE, TIMED_OUT = ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT


class Waiting(NamedTuple):
    result: PartitionProduceResult


class Request:
    """Of three partitions, the first of which was settled at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, time: VirtualTime) -> None:
        self.settled: dict[TopicPartition, ErrorCode] = {}
        self.looked_at: list[TopicPartition] = []
        self.answer = loop.create_future()
        self.purgatory = DelayedOperationPurgatory(time, time)
        results = [PartitionProduceResult(each) for each in (T, U, V)]
        pending = [Waiting(result) for result in results[1:]]
        operation = DelayedProduce(results, pending, self._is_settled, self.answer)
        self.purgatory.hold(operation, [U, V], 100, self.answer)

    def _is_settled(self, waiting: Waiting) -> bool:
        where = waiting.result.topic_partition
        self.looked_at.append(where)
        waiting.result.error_code = self.settled.get(where, NONE)
        return where in self.settled

    def settle(self, where: TopicPartition, code: ErrorCode = NONE) -> None:
        self.settled[where] = code
        self.purgatory.check_and_complete(where)

    def codes(self) -> list[ErrorCode]:
        return [result.error_code for result in self.answer.result()]


@pytest.fixture
def time():
    return VirtualTime()


@pytest.fixture
def request_(time):
    loop = asyncio.new_event_loop()
    yield Request(loop, time)
    loop.close()


def test_it_is_answered_when_the_last_partition_is_settled(request_):
    request_.settle(V, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    was_done = request_.answer.done()
    request_.settle(U)

    assert not was_done
    assert request_.codes() == [NONE, NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert len(request_.purgatory) == 0


def test_only_the_partition_that_changed_is_looked_at_and_none_that_is_settled(request_):
    request_.settle(V)
    request_.settle(V)
    request_.purgatory.check_and_complete(T)

    assert request_.looked_at == [V]


def test_its_time_being_up_is_the_error_of_what_is_still_open(request_, time):
    request_.settle(U, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    time.advance(100)

    assert request_.codes() == [NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, TIMED_OUT]


def test_nobody_is_kept_for_an_answer_that_is_not_waited_for(request_):
    request_.answer.cancel()
    request_.answer.get_loop().run_until_complete(asyncio.sleep(0))

    assert len(request_.purgatory) == 0
