"""What the coordinator of transactions answers, and what it writes first: Kafka 3.9's decisions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kbroker.coordinator.transaction.decisions import (
    TransactionEntry,
    aborted_by_fence,
    ended,
    fence,
    initialized,
    needs_producer_id,
    new_transaction,
    verified,
    with_partitions,
)
from kbroker.coordinator.transaction.producer import NO_PRODUCER, Producer
from kbroker.coordinator.transaction.transaction import (
    NOT_STARTED,
    WITH_EPOCHS,
    WITHOUT_EPOCHS,
    Transaction,
    TransactionState,
)
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

A, B, C = (TopicPartition("t", index) for index in range(3))
ID = 7
LAST_EPOCH = 0x7FFE
S = TransactionState
STATES = [state for state in S if state not in (S.DEAD, S.PREPARE_EPOCH_FENCE)]


def transaction(
    state: TransactionState = S.EMPTY, *, epoch: int = 3, last_epoch: int = NO_PRODUCER_EPOCH
) -> Transaction:
    is_open = state not in (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
    return Transaction(
        transactional_id="x",
        producer=Producer(ID, epoch),
        last_epoch=last_epoch,
        timeout_ms=60_000,
        state=state,
        partitions=frozenset({A}) if is_open else frozenset(),
        start_ms=NOT_STARTED if state is S.EMPTY else 100,
        update_ms=200,
    )


def entry(
    state: TransactionState = S.EMPTY, *, epoch: int = 3, last_epoch: int = NO_PRODUCER_EPOCH
) -> TransactionEntry:
    return TransactionEntry(transaction(state, epoch=epoch, last_epoch=last_epoch))


def refusal(decide: object, *arguments: object, **named: object) -> ErrorCode:
    assert callable(decide)
    with pytest.raises(KafkaError) as error:
        decide(*arguments, **named)
    return error.value.code


# ---- InitProducerId


def test_a_new_id_begins_with_epoch_0() -> None:
    new = TransactionEntry(new_transaction("x", ID, 60_000, 5))

    written = initialized(new, NO_PRODUCER, 60_000, 6)

    assert written.producer == Producer(ID, 0)
    assert (written.state, written.start_ms, written.update_ms) == (S.EMPTY, NOT_STARTED, 6)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_a_producer_that_comes_again_gets_the_next_epoch(state: TransactionState) -> None:
    written = initialized(entry(state), NO_PRODUCER, 9_000, 300)

    assert written.producer == Producer(ID, 4)
    assert written.last_epoch == NO_PRODUCER_EPOCH
    assert (written.state, written.timeout_ms, written.start_ms) == (S.EMPTY, 9_000, NOT_STARTED)


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_it_waits_for_the_end_of_the_transaction_before(state: TransactionState) -> None:
    assert refusal(initialized, entry(state), NO_PRODUCER, 9_000, 300) is (
        ErrorCode.CONCURRENT_TRANSACTIONS
    )


@pytest.mark.parametrize("state", STATES)
def test_it_waits_for_what_is_on_its_way_to_the_log(state: TransactionState) -> None:
    busy = replace(entry(state), pending=transaction(S.ONGOING))
    for decide in (
        lambda: initialized(busy, NO_PRODUCER, 9_000, 300),
        lambda: with_partitions(busy, Producer(ID, 3), [A], 300),
        lambda: ended(busy, Producer(ID, 3), 300, is_commit=True),
    ):
        assert refusal(decide) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_an_open_transaction_is_fenced_and_aborted_first() -> None:
    fenced = initialized(entry(S.ONGOING), NO_PRODUCER, 9_000, 300)

    assert fenced.state is S.PREPARE_EPOCH_FENCE
    assert fenced.producer == Producer(ID, 4)
    assert fenced.partitions == {A}
    aborted = aborted_by_fence(fenced, 301, WITHOUT_EPOCHS)
    assert (aborted.state, aborted.producer, aborted.update_ms) == (
        S.PREPARE_ABORT,
        Producer(ID, 4),
        301,
    )


@pytest.mark.parametrize(
    ("client_version", "comes_again_with"), [(WITH_EPOCHS, Producer(ID, 4)), (WITHOUT_EPOCHS, None)]
)
def test_who_was_aborted_in_the_second_protocol_may_come_again_with_its_epoch(
    client_version: int, comes_again_with: Producer | None
) -> None:
    aborted = aborted_by_fence(fence(entry(S.ONGOING)), 301, client_version).completed(302)

    def begin() -> Producer:
        return initialized(TransactionEntry(aborted), Producer(ID, 3), 9_000, 400).producer

    if comes_again_with is None:
        assert refusal(begin) is ErrorCode.PRODUCER_FENCED
    else:
        assert begin() == comes_again_with


def test_an_epoch_that_only_fences_is_told_to_nobody_who_comes_again() -> None:
    kept = TransactionEntry(transaction(S.ONGOING, epoch=LAST_EPOCH))
    aborted = aborted_by_fence(fence(kept), 301, WITH_EPOCHS).completed(302)

    assert (
        refusal(
            lambda: initialized(TransactionEntry(aborted), Producer(ID, LAST_EPOCH), 9_000, 400)
        )
        is ErrorCode.PRODUCER_FENCED
    )


def test_a_fence_that_was_not_written_takes_no_second_epoch() -> None:
    failed = TransactionEntry(transaction(S.ONGOING, epoch=4), has_failed_fence=True)
    assert fence(failed).producer.epoch == 4


@pytest.mark.parametrize(
    ("expected", "epoch", "last_epoch"),
    [
        (Producer(ID, 3), 4, 3),  # it goes on after an error
        (Producer(ID, 2), 3, 2),  # it asks again for what it was given
    ],
)
def test_a_producer_that_says_who_it_was_goes_on(
    expected: Producer, epoch: int, last_epoch: int
) -> None:
    written = initialized(entry(last_epoch=2), expected, 9_000, 300)
    assert (written.producer.epoch, written.last_epoch) == (epoch, last_epoch)


@pytest.mark.parametrize("expected", [Producer(ID, 1), Producer(ID, 9), Producer(8, 3)])
def test_a_producer_that_others_have_replaced_is_fenced(expected: Producer) -> None:
    code = refusal(initialized, entry(last_epoch=2), expected, 9_000, 300)
    assert code is ErrorCode.PRODUCER_FENCED


def test_a_producer_may_say_who_it_was_to_a_coordinator_that_has_forgotten_it() -> None:
    new = TransactionEntry(new_transaction("x", ID, 60_000, 5))
    assert initialized(new, Producer(99, 5), 60_000, 6).producer == Producer(ID, 0)


@pytest.mark.parametrize(
    ("expected", "last_epoch"),
    [(NO_PRODUCER, NO_PRODUCER_EPOCH), (Producer(ID, LAST_EPOCH), LAST_EPOCH)],
)
def test_after_the_last_epoch_comes_another_producer_id(
    expected: Producer, last_epoch: int
) -> None:
    used_up = entry(S.COMPLETE_COMMIT, epoch=LAST_EPOCH)
    assert needs_producer_id(used_up, expected)

    written = initialized(used_up, expected, 9_000, 300, new_producer_id=8)

    assert written.producer == Producer(8, 0)
    assert (written.previous_producer_id, written.last_epoch) == (ID, last_epoch)
    again = TransactionEntry(written)
    if expected != NO_PRODUCER:
        assert initialized(again, expected, 9_000, 301).producer == Producer(8, 0)
    assert refusal(initialized, again, Producer(ID, 5), 9_000, 301) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("used_up", "expected"),
    [
        (entry(S.COMPLETE_COMMIT), NO_PRODUCER),
        (entry(S.ONGOING, epoch=LAST_EPOCH), NO_PRODUCER),
        (entry(S.EMPTY, epoch=LAST_EPOCH), Producer(ID, LAST_EPOCH - 1)),
    ],
)
def test_no_other_producer_id_is_needed_before(
    used_up: TransactionEntry, expected: Producer
) -> None:
    assert not needs_producer_id(used_up, expected)


# ---- partitions


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_the_first_partition_begins_a_transaction(state: TransactionState) -> None:
    written = with_partitions(entry(state), Producer(ID, 3), [A, B], 300)

    assert written is not None
    assert (written.state, written.partitions) == (S.ONGOING, {A, B})
    assert (written.start_ms, written.update_ms) == (300, 300)


def test_more_partitions_join_it_and_those_that_take_part_already_change_nothing() -> None:
    written = with_partitions(entry(S.ONGOING), Producer(ID, 3), [B], 300)

    assert written is not None
    assert (written.partitions, written.start_ms, written.update_ms) == ({A, B}, 100, 300)
    assert with_partitions(entry(S.ONGOING), Producer(ID, 3), [A], 300) is None


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_none_joins_a_transaction_that_ends(state: TransactionState) -> None:
    for decide in (
        lambda: with_partitions(entry(state), Producer(ID, 3), [A], 300),
        lambda: verified(entry(state), Producer(ID, 3), [A]),
    ):
        assert refusal(decide) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_batch_of_a_partition_that_takes_no_part_is_to_be_aborted() -> None:
    assert verified(entry(S.ONGOING), Producer(ID, 3), [A, B]) == {
        A: ErrorCode.NONE,
        B: ErrorCode.TRANSACTION_ABORTABLE,
    }


def test_while_a_partition_joins_those_that_are_stored_take_part() -> None:
    growing = replace(
        entry(S.ONGOING), pending=replace(transaction(S.ONGOING), partitions=frozenset({A, B}))
    )
    assert verified(growing, Producer(ID, 3), [A, B, C]) == {
        A: ErrorCode.NONE,
        B: ErrorCode.CONCURRENT_TRANSACTIONS,
        C: ErrorCode.TRANSACTION_ABORTABLE,
    }
    assert refusal(verified, growing, Producer(ID, 2), [A]) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("state", "pending"),
    [(S.EMPTY, S.ONGOING), (S.ONGOING, S.PREPARE_COMMIT), (S.PREPARE_ABORT, S.COMPLETE_ABORT)],
)
def test_none_is_known_to_take_part_while_a_transaction_begins_or_ends(
    state: TransactionState, pending: TransactionState
) -> None:
    busy = replace(entry(state), pending=transaction(pending))
    assert refusal(verified, busy, Producer(ID, 3), [A]) is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(
    ("producer", "code"),
    [
        (Producer(8, 3), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (Producer(ID, 2), ErrorCode.PRODUCER_FENCED),
        (Producer(ID, 4), ErrorCode.PRODUCER_FENCED),
    ],
)
def test_another_producer_is_refused(producer: Producer, code: ErrorCode) -> None:
    for decide in (
        lambda: with_partitions(entry(S.ONGOING), producer, [A], 300),
        lambda: verified(entry(S.ONGOING), producer, [A]),
        lambda: ended(entry(S.ONGOING), producer, 300, is_commit=True),
    ):
        assert refusal(decide) is code


# ---- EndTxn

_DONE, _BUSY, _INVALID = None, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("is_commit", "prepared", "completed"),
    [(True, S.PREPARE_COMMIT, S.COMPLETE_COMMIT), (False, S.PREPARE_ABORT, S.COMPLETE_ABORT)],
)
def test_a_transaction_ends_in_two_steps(
    is_commit: bool, prepared: TransactionState, completed: TransactionState
) -> None:
    written = ended(entry(S.ONGOING), Producer(ID, 3), 300, is_commit=is_commit)

    assert written is not None
    assert (written.state, written.partitions, written.update_ms) == (prepared, {A}, 300)
    over = written.completed(400)
    assert (over.state, over.partitions, over.update_ms) == (completed, frozenset(), 400)
    assert over.start_ms == 100


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (S.EMPTY, _INVALID, _INVALID),
        (S.PREPARE_COMMIT, _BUSY, _INVALID),
        (S.PREPARE_ABORT, _INVALID, _BUSY),
        (S.COMPLETE_COMMIT, _DONE, _INVALID),
        (S.COMPLETE_ABORT, _INVALID, _DONE),
    ],
)
def test_it_ends_once_and_in_one_way(
    state: TransactionState, commit: ErrorCode | None, abort: ErrorCode | None
) -> None:
    for is_commit, expected in ((True, commit), (False, abort)):
        if expected is None:
            assert ended(entry(state), Producer(ID, 3), 300, is_commit=is_commit) is None
        else:
            code = refusal(ended, entry(state), Producer(ID, 3), 300, is_commit=is_commit)
            assert code is expected


# ---- time


@pytest.mark.parametrize("state", STATES)
def test_only_an_open_transaction_times_out(state: TransactionState) -> None:
    assert transaction(state).is_timed_out(60_101) == (state is S.ONGOING)
    assert not transaction(state).is_timed_out(60_100)


@pytest.mark.parametrize("state", STATES)
def test_only_an_id_without_an_open_transaction_expires(state: TransactionState) -> None:
    assert transaction(state).is_expired(1_200, 1_000) == state.is_over
    assert not transaction(state).is_expired(1_199, 1_000)


def test_an_id_that_has_had_one_producer_id_only_has_no_previous_one() -> None:
    written = initialized(entry(), NO_PRODUCER, 9_000, 300)
    assert written.previous_producer_id == NO_PRODUCER_ID
