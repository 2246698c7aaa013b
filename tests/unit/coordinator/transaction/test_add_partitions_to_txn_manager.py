"""How a leader asks coordinators whether partitions take part in transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kbroker.coordinator.transaction.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from kbroker.coordinator.transaction.participation import Codes, Participation
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TRANSACTION_STATE_TOPIC, TopicPartition
from kbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kbroker.replication.metadata_cache import MetadataCache
from tests.fakes.clusters.replication_cluster import partition_metadata, update_metadata

pytestmark = pytest.mark.virtual_time

OWN, OTHER = 0, 1
TIMEOUT_MS = 30_000
A, B = TopicPartition("t", 0), TopicPartition("t", 1)
PRODUCER = Producer(5, 1)
NONE, ABORTABLE = ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE
_Response = AddPartitionsToTxnResponse
_PartitionResult = _Response.AddPartitionsToTxnPartitionResult


def asked(name: str, *partitions: TopicPartition, producer: Producer = PRODUCER) -> Participation:
    return Participation(name, producer, partitions or (A,))


class Coordinator:
    """Another broker: A takes part in each transaction, and no other partition."""

    def __init__(self) -> None:
        self.requests: list[AddPartitionsToTxnRequest] = []
        self.error: Exception | None = None
        self.code = NONE
        self.gate = asyncio.Event()
        self.gate.set()
        self.shape: Callable[[Any], Any] = lambda response: response

    async def send(self, request: Any, *, timeout_ms: float) -> Any:
        self.requests.append(request)
        async with asyncio.timeout(timeout_ms / 1000):
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.shape(_Response(error_code=self.code, results_by_transaction=_results(request)))

    def close(self) -> None:
        self.gate.set()


def _results(request: Any) -> list[Any]:
    return [
        _Response.AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=[
                _Response.AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        _PartitionResult(
                            partition_index=index,
                            partition_error_code=NONE if index == 0 else ABORTABLE,
                        )
                        for index in topic.partitions
                    ],
                )
                for topic in transaction.topics
            ],
        )
        for transaction in request.transactions
    ]


class Broker:
    """Its own partition of __transaction_state is 0, that of ids with a capital letter 1."""

    def __init__(self) -> None:
        self.other = Coordinator()
        self.own_error: ErrorCode | None = None
        self.metadata = MetadataCache(OWN)
        self.lead(OWN, OTHER)
        self.manager = AddPartitionsToTxnManager(
            self, self.metadata, lambda _broker: self.other, lambda: True, TIMEOUT_MS
        )

    def lead(self, *leaders: int) -> None:
        states = [
            (TRANSACTION_STATE_TOPIC, partition_metadata(index, leader=leader))
            for index, leader in enumerate(leaders)
        ]
        self.metadata.update(update_metadata(*states))

    def partition_for(self, transactional_id: str) -> int:
        return int(transactional_id[0].isupper())

    def verify(self, _name: str, _producer: Producer, partitions: Any) -> Codes:
        if self.own_error is not None:
            raise KafkaError(self.own_error)
        return {each: NONE if each == A else ABORTABLE for each in partitions}

    async def ask(self, question: Participation) -> Codes:
        answer = self.manager.verify(question)
        assert not isinstance(answer, dict), "another broker coordinates it"
        return await answer


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_its_own_transactions_it_knows_at_once() -> None:
    broker = Broker()

    assert broker.manager.verify(asked("x", A, B)) == {A: NONE, B: ABORTABLE}
    broker.own_error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.manager.verify(asked("x", A, B)) == dict.fromkeys((A, B), broker.own_error)
    assert broker.other.requests == []


async def test_others_are_asked_and_nothing_is_added() -> None:
    broker = Broker()

    assert await broker.ask(asked("X", A, B)) == {A: NONE, B: ABORTABLE}

    (request,) = broker.other.requests
    (transaction,) = request.transactions
    assert transaction.verify_only
    assert (transaction.producer_id, transaction.producer_epoch) == PRODUCER
    assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("t", [0, 1])]


async def test_what_comes_while_one_question_is_asked_goes_together() -> None:
    broker = Broker()
    broker.other.gate.clear()
    waiting = [asyncio.ensure_future(broker.ask(asked(name))) for name in ("X", "Y", "Z", "Y")]
    await turns()
    broker.other.gate.set()

    assert await asyncio.gather(*waiting) == [{A: NONE}] * 4

    names = [[each.transactional_id for each in r.transactions] for r in broker.other.requests]
    assert names in (
        [["X"], ["Y", "Z"], ["Y"]],  # of one id there is one question in a request
        [["X", "Y", "Z"], ["Y"]],
    )


async def test_nobody_waits_longer_than_the_timeout_for_a_coordinator_that_says_nothing() -> None:
    broker = Broker()
    broker.other.gate.clear()
    began = asyncio.get_running_loop().time()

    answers = await asyncio.gather(*(broker.ask(asked(name)) for name in ("X", "X", "X")))

    assert answers == [{A: ErrorCode.NETWORK_EXCEPTION}] * 3
    assert asyncio.get_running_loop().time() - began == pytest.approx(TIMEOUT_MS / 1000)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConnectionResetError(), ErrorCode.NETWORK_EXCEPTION),
        (TimeoutError(), ErrorCode.NETWORK_EXCEPTION),
        (KafkaError(ErrorCode.UNSUPPORTED_VERSION), NONE),  # too old to know the question
    ],
)
async def test_a_question_without_an_answer_has_a_code(error: Exception, code: ErrorCode) -> None:
    broker = Broker()
    broker.other.error = error

    assert await broker.ask(asked("X", A, B)) == {A: code, B: code}


async def test_a_refusal_of_the_request_is_one_of_each_partition() -> None:
    broker = Broker()
    broker.other.code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    assert await broker.ask(asked("X")) == {A: ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


async def test_a_partition_that_is_missing_in_the_answer_is_not_verified() -> None:
    broker = Broker()

    def drop(response: Any) -> Any:
        del response.results_by_transaction[0].topic_results[0].results_by_partition[0]
        return response

    broker.other.shape = drop

    assert await broker.ask(asked("X", A, B)) == {A: ErrorCode.NETWORK_EXCEPTION, B: ABORTABLE}


async def test_a_code_that_is_none_is_no_answer() -> None:
    broker = Broker()

    def spoil(response: Any) -> Any:
        results = response.results_by_transaction[0].topic_results[0].results_by_partition
        results[0].partition_error_code = 12345
        return response

    broker.other.shape = spoil

    assert await broker.ask(asked("X")) == {A: ErrorCode.NETWORK_EXCEPTION}


async def test_without_a_coordinator_nobody_is_asked() -> None:
    broker = Broker()
    broker.lead(OWN, -1)
    assert broker.manager.verify(asked("X")) == {A: ErrorCode.COORDINATOR_NOT_AVAILABLE}

    broker.lead(OWN, 7)  # which is not alive

    assert broker.manager.verify(asked("X")) == {A: ErrorCode.COORDINATOR_NOT_AVAILABLE}


async def test_whoever_waits_at_the_end_has_no_answer() -> None:
    broker = Broker()
    broker.other.gate.clear()
    waiting = asyncio.ensure_future(broker.ask(asked("X")))
    await turns()

    broker.manager.close()

    assert await waiting == {A: ErrorCode.NETWORK_EXCEPTION}
