"""Transactions that have an epoch each (KIP-890): what ends them, and who their producer is then.

The expected codes are those of Apache Kafka 4.3.1, which was asked.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kbroker.coordinator.transaction.decisions import (
    TransactionEntry,
    ended_with_epoch,
    needs_next_producer_id,
)
from kbroker.coordinator.transaction.producer import Producer
from kbroker.coordinator.transaction.records import read_transaction, transaction_record
from kbroker.coordinator.transaction.transaction import (
    LAST_EPOCH,
    NOT_STARTED,
    WITH_EPOCHS,
    WITHOUT_EPOCHS,
    Transaction,
    TransactionState,
)
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from tests.fakes.brokers.transaction_broker import (
    A,
    B,
    TransactionBroker,
    code_of,
    log_of,
    turns,
)

S = TransactionState
ID, NEXT_ID, EPOCH = 7, 8, 3
NOW_MS = 300
COMMIT, ABORT = True, False
FENCED, INVALID = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE
NONE = ErrorCode.NONE


def transaction(state: S, *, epoch: int = EPOCH, **fields: Any) -> Transaction:
    is_open = state in {S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT}
    values = {
        "transactional_id": "x",
        "producer": Producer(ID, epoch),
        "timeout_ms": 60_000,
        "state": state,
        "partitions": frozenset({A}) if is_open else frozenset(),
        "start_ms": NOT_STARTED if state is S.EMPTY else 100,
        "update_ms": 200,
    }
    return Transaction(**{**values, **fields})


def outcome(
    kept: Transaction, producer: Producer, *, is_commit: bool
) -> Transaction | ErrorCode | None:
    try:
        return ended_with_epoch(TransactionEntry(kept), producer, NOW_MS, is_commit=is_commit)
    except KafkaError as error:
        return error.code


@pytest.mark.parametrize("is_commit", [COMMIT, ABORT])
def test_an_open_transaction_ends_and_its_epoch_with_it(is_commit: bool) -> None:
    decided = outcome(transaction(S.ONGOING), Producer(ID, EPOCH), is_commit=is_commit)

    assert isinstance(decided, Transaction)
    assert decided.state is (S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT)
    assert (decided.producer, decided.last_epoch) == (Producer(ID, EPOCH + 1), EPOCH)
    assert (decided.partitions, decided.start_ms, decided.update_ms) == ({A}, 100, NOW_MS)
    assert decided.client_version == WITH_EPOCHS
    assert decided.completed(400).producer == Producer(ID, EPOCH + 1)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_an_abort_of_nothing_ends_an_epoch(state: S) -> None:
    decided = outcome(transaction(state), Producer(ID, EPOCH), is_commit=ABORT)

    assert isinstance(decided, Transaction)
    assert (decided.state, decided.producer) == (S.PREPARE_ABORT, Producer(ID, EPOCH + 1))
    assert (decided.partitions, decided.start_ms) == (frozenset(), NOW_MS)


@pytest.mark.parametrize(
    ("state", "epoch", "is_commit", "code"),
    [
        (S.EMPTY, EPOCH, COMMIT, INVALID),
        (S.COMPLETE_COMMIT, EPOCH, COMMIT, INVALID),
        (S.COMPLETE_ABORT, EPOCH, COMMIT, INVALID),
        # another one has come since, or it has begun the next one
        (S.EMPTY, EPOCH - 1, ABORT, FENCED),
        (S.ONGOING, EPOCH - 1, ABORT, FENCED),
        (S.ONGOING, EPOCH - 1, COMMIT, FENCED),
        (S.ONGOING, EPOCH + 1, COMMIT, FENCED),
        (S.COMPLETE_COMMIT, EPOCH - 2, COMMIT, FENCED),
        (S.COMPLETE_COMMIT, EPOCH + 1, COMMIT, FENCED),
        (S.PREPARE_COMMIT, EPOCH - 1, COMMIT, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_what_is_asked_out_of_turn_is_answered_as_kafka_does(
    state: S, epoch: int, is_commit: bool, code: ErrorCode | None
) -> None:
    assert outcome(transaction(state), Producer(ID, epoch), is_commit=is_commit) is code


@pytest.mark.parametrize(
    ("state", "is_commit", "code"),
    [
        (S.COMPLETE_COMMIT, COMMIT, None),
        (S.COMPLETE_COMMIT, ABORT, INVALID),
        (S.COMPLETE_ABORT, ABORT, None),
        (S.COMPLETE_ABORT, COMMIT, INVALID),
    ],
)
def test_who_asks_again_is_told_again_but_not_of_an_end_in_the_first_protocol(
    state: S, is_commit: bool, code: ErrorCode | None
) -> None:
    own = transaction(state, client_version=WITH_EPOCHS)
    of_another = transaction(state, client_version=WITHOUT_EPOCHS)

    assert outcome(own, Producer(ID, EPOCH - 1), is_commit=is_commit) is code
    assert outcome(of_another, Producer(ID, EPOCH - 1), is_commit=is_commit) is FENCED


def test_another_producer_id_is_unknown() -> None:
    kept = transaction(S.ONGOING)
    assert outcome(kept, Producer(ID + 1, EPOCH), is_commit=COMMIT) is (
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )


def test_the_last_epoch_of_a_producer_id_leads_to_the_next_one() -> None:
    kept = TransactionEntry(transaction(S.ONGOING, epoch=LAST_EPOCH))
    producer = Producer(ID, LAST_EPOCH)

    without = ended_with_epoch(kept, producer, NOW_MS, is_commit=COMMIT)
    assert without is not None
    assert needs_next_producer_id(without)
    decided = ended_with_epoch(kept, producer, NOW_MS, is_commit=COMMIT, next_producer_id=NEXT_ID)
    assert decided is not None
    assert not needs_next_producer_id(decided)

    assert decided.producer == Producer(ID, LAST_EPOCH + 1), "of the markers"
    assert decided.next_producer == Producer(NEXT_ID, 0)
    over = decided.completed(400)
    assert (over.producer, over.previous_producer_id, over.last_epoch) == (
        Producer(NEXT_ID, 0),
        ID,
        LAST_EPOCH,
    )
    assert outcome(over, producer, is_commit=COMMIT) is None
    assert outcome(over, producer, is_commit=ABORT) is INVALID
    assert outcome(over, Producer(ID, LAST_EPOCH - 1), is_commit=COMMIT) is (
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )


def test_nobody_with_the_epoch_of_no_producer_is_told_one() -> None:
    kept = transaction(S.COMPLETE_COMMIT, epoch=0)
    assert outcome(kept, Producer(ID, -1), is_commit=COMMIT) is FENCED


def test_an_epoch_that_only_fences_is_never_told() -> None:
    """The broker has aborted what took too long under the last epoch."""
    kept = transaction(S.COMPLETE_ABORT, epoch=LAST_EPOCH + 1)
    assert outcome(kept, Producer(ID, LAST_EPOCH), is_commit=ABORT) is FENCED


def test_the_log_tells_what_follows_an_end_from_level_1_on() -> None:
    decided = transaction(
        S.PREPARE_COMMIT, epoch=LAST_EPOCH + 1, client_version=WITH_EPOCHS, next_producer_id=NEXT_ID
    )
    for level in (1, 2):
        _, value = transaction_record(decided, level)
        assert value is not None
        read = read_transaction("x", value)
        assert (read.next_producer, read.client_version) == (Producer(NEXT_ID, 0), WITH_EPOCHS)
    _, value = transaction_record(decided, 0)
    assert value is not None
    assert value[:2] == b"\0\0"
    assert read_transaction("x", value).next_producer == Producer(ID, LAST_EPOCH + 1)


# ---- the coordinator


async def ended(broker: TransactionBroker, producer: Producer, *, is_commit: bool) -> Producer:
    return await broker.coordinator.end_with_epoch("x", producer, is_commit=is_commit)


async def joined(
    broker: TransactionBroker, producer: Producer, *partitions: TopicPartition
) -> None:
    await broker.coordinator.add_partitions("x", producer, partitions, client_version=WITH_EPOCHS)


async def test_each_transaction_has_its_epoch_and_its_markers_the_next_one() -> None:
    broker = TransactionBroker(level=2)
    producer = await broker.init()
    for epoch, is_commit in enumerate((COMMIT, ABORT, COMMIT)):
        await joined(broker, producer, A, B)
        producer = await ended(broker, producer, is_commit=is_commit)
        await turns()
        assert producer == (1000, epoch + 1)

    assert [(each.producer, each.is_commit) for each in broker.markers.sent] == [
        (Producer(1000, 1), COMMIT),
        (Producer(1000, 2), ABORT),
        (Producer(1000, 3), COMMIT),
    ]
    assert {each.client_version for each in broker.written()[1:] if each} == {WITH_EPOCHS}


async def test_a_producer_whose_answer_was_lost_is_told_again() -> None:
    broker = TransactionBroker(level=2)
    producer = await broker.init()
    await joined(broker, producer, A)
    first = await ended(broker, producer, is_commit=COMMIT)
    await turns()

    assert await ended(broker, producer, is_commit=COMMIT) == first == (1000, 1)
    assert await code_of(ended(broker, producer, is_commit=ABORT)) is INVALID
    assert broker.markers.sent[1:] == []


async def test_the_next_transaction_waits_until_all_partitions_know_the_end() -> None:
    broker = TransactionBroker(level=2)
    broker.markers.holds = True
    producer = await broker.init()
    await joined(broker, producer, A)
    producer = await ended(broker, producer, is_commit=COMMIT)

    assert await code_of(joined(broker, producer, A)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert await code_of(ended(broker, producer, is_commit=ABORT)) is (
        ErrorCode.CONCURRENT_TRANSACTIONS
    )
    await turns()
    broker.markers.release()
    await turns()
    assert await code_of(joined(broker, producer, A)) is NONE


def last_epoch_open() -> Transaction:
    return transaction(S.ONGOING, epoch=LAST_EPOCH, client_version=WITH_EPOCHS)


def broker_with(kept: Transaction) -> TransactionBroker:
    broker = TransactionBroker(level=2, lead=False)
    broker.lead(log_of(kept))
    return broker


async def test_a_producer_goes_on_under_the_next_id_once_all_partitions_know() -> None:
    broker = broker_with(last_epoch_open())
    await turns()
    broker.markers.holds = True

    producer = await ended(broker, Producer(ID, LAST_EPOCH), is_commit=COMMIT)
    await turns()

    assert producer == (1000, 0)
    assert [each.producer for each in broker.markers.sent] == [Producer(ID, LAST_EPOCH + 1)]
    assert await code_of(joined(broker, producer, A)) is ErrorCode.CONCURRENT_TRANSACTIONS
    broker.markers.release()
    await turns()
    await joined(broker, producer, A)
    assert await ended(broker, producer, is_commit=COMMIT) == (1000, 1)


async def test_a_coordinator_that_ends_amid_the_change_of_ids_leaves_it_in_its_log() -> None:
    broker = broker_with(last_epoch_open())
    await turns()
    broker.markers.holds = True
    told = await ended(broker, Producer(ID, LAST_EPOCH), is_commit=ABORT)
    await turns()

    after = broker.restarted()
    await turns()

    assert [each.producer for each in after.markers.sent] == [Producer(ID, LAST_EPOCH + 1)]
    assert after.coordinator.describe("x").producer == told
    assert await ended(after, Producer(ID, LAST_EPOCH), is_commit=ABORT) == told
    await joined(after, told, A)


async def test_two_who_end_at_the_last_epoch_end_it_once() -> None:
    """Both wait for a producer id; whoever comes second finds the end, and is told it."""
    broker = broker_with(last_epoch_open())
    await turns()
    broker.ids.waiting = asyncio.Event()
    ends = [
        asyncio.ensure_future(ended(broker, Producer(ID, LAST_EPOCH), is_commit=COMMIT))
        for _ in range(2)
    ]
    await turns()
    broker.ids.waiting.set()
    await turns()

    outcomes = await asyncio.gather(*ends, return_exceptions=True)
    told = {each for each in outcomes if isinstance(each, Producer)}
    refused = [each for each in outcomes if isinstance(each, KafkaError)]
    assert len(told) == 1
    assert {each.code for each in refused} <= {ErrorCode.CONCURRENT_TRANSACTIONS}
    assert broker.coordinator.describe("x").producer in told


@pytest.mark.parametrize(("level", "client_version"), [(1, WITHOUT_EPOCHS), (2, WITH_EPOCHS)])
async def test_what_takes_too_long_is_aborted_as_the_cluster_has_settled_on(
    level: int, client_version: int
) -> None:
    broker = TransactionBroker(
        level=level, transaction_abort_timed_out_transaction_cleanup_interval_ms=100
    )
    broker.coordinator.start()
    producer = await broker.init(timeout_ms=1_000)
    await joined(broker, producer, A)

    await broker.pass_time(2_000)

    kept = broker.coordinator.describe("x")
    assert (kept.state, kept.producer, kept.client_version) == (
        S.COMPLETE_ABORT,
        Producer(1000, 1),
        client_version,
    )
    if client_version == WITH_EPOCHS:
        assert await code_of(ended(broker, producer, is_commit=COMMIT)) is INVALID
        assert await ended(broker, producer, is_commit=ABORT) == (1000, 1)
    else:
        assert await code_of(ended(broker, producer, is_commit=ABORT)) is FENCED
    broker.coordinator.shutdown()


async def test_the_level_may_change_while_a_transaction_is_open() -> None:
    broker = TransactionBroker(level=0)
    producer = await broker.init()
    await broker.coordinator.add_partitions("x", producer, [A])
    broker.level = 2
    producer = await ended(broker, producer, is_commit=COMMIT)
    await turns()
    await joined(broker, producer, A)
    broker.level = 0
    await broker.end(producer)
    await turns()

    assert producer == (1000, 1)
    assert broker.coordinator.describe("x").producer == producer
    assert broker.states() == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "CompleteCommit",
        "Ongoing",
        "PrepareCommit",
        "CompleteCommit",
    ]
    again = broker.restarted()
    await turns()
    assert again.coordinator.describe("x").producer == producer
