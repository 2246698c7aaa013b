"""The decisions of a coordinator on producers' requests (KIP-98, KIP-360, KIP-588).

Pure. Law: while the last decision is on its way to the log, nothing else is decided, except that a
fence is made good: the log must show one order of things, to the next coordinator that loads it
too. Refusals are KafkaErrors with the codes of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from kbroker.coordinator.transaction.producer import NO_PRODUCER, Producer
from kbroker.coordinator.transaction.transaction import (
    LAST_EPOCH,
    WITH_EPOCHS,
    WITHOUT_EPOCHS,
    Transaction,
    TransactionState,
    is_exhausted,
)
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition


@dataclass(slots=True, eq=False, repr=False)
class TransactionEntry:
    """A transactional id as its coordinator keeps it: what the log has, and what is on its way.

    `has_failed_fence`: the epoch that is to fence a producer is taken, but the abort under it is
    not in the log, or not yet.
    """

    transaction: Transaction
    pending: Transaction | None = None
    has_failed_fence: bool = False

    def hold_off(self, fenced: Transaction) -> None:
        """Refuse the producer of an open transaction from now on, as `fence` has decided."""
        self.transaction = replace(fenced, state=TransactionState.ONGOING)
        self.has_failed_fence = True

    def take_over(self) -> None:
        """Be what was on its way: it is stored."""
        assert self.pending is not None
        self.transaction, self.pending = self.pending, None
        self.has_failed_fence = False


def new_transaction(
    transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int
) -> Transaction:
    """An id that nobody has used before, or not for long."""
    return Transaction(
        transactional_id=transactional_id,
        producer=Producer(producer_id, NO_PRODUCER_EPOCH),
        timeout_ms=timeout_ms,
        update_ms=now_ms,
    )


# ---- InitProducerId


def needs_producer_id(entry: TransactionEntry, expected: Producer) -> bool:
    """Whether a producer that comes now gets another id: the epochs of this one are used up."""
    transaction = entry.transaction
    return (
        transaction.state.is_over
        and transaction.is_epoch_exhausted
        and expected.epoch in (NO_PRODUCER_EPOCH, transaction.producer.epoch)
    )


def initialized(
    entry: TransactionEntry,
    expected: Producer,
    timeout_ms: int,
    now_ms: int,
    new_producer_id: int | None = None,
) -> Transaction:
    """Return what is to be written for a producer that comes, `expected` being who it says it was.

    In state PREPARE_EPOCH_FENCE it is not written: the open transaction is aborted under it, and
    the producer is to come again. `new_producer_id` if `needs_producer_id`.

    KafkaError: CONCURRENT_TRANSACTIONS, PRODUCER_FENCED.
    """
    transaction = entry.transaction
    if entry.pending is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if not _may_go_on(transaction, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.state.is_ending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is TransactionState.ONGOING:
        return fence(entry)
    if new_producer_id is not None:
        is_known = expected != NO_PRODUCER
        last_epoch = transaction.producer.epoch if is_known else NO_PRODUCER_EPOCH
        return transaction.begun_by(Producer(new_producer_id, 0), last_epoch, timeout_ms, now_ms)
    epoch, last_epoch = _next_epoch(transaction, expected.epoch)
    producer = transaction.producer._replace(epoch=epoch)
    return transaction.begun_by(producer, last_epoch, timeout_ms, now_ms)


def fence(entry: TransactionEntry) -> Transaction:
    """Return what an open transaction becomes so that its producer cannot go on with it."""
    transaction = entry.transaction
    epoch = transaction.producer.epoch
    return transaction.fenced(epoch if entry.has_failed_fence else epoch + 1)


def _may_go_on(transaction: Transaction, expected: Producer) -> bool:
    """A producer that says who it was is the present one, or asks again for what it was given."""
    return (
        expected == NO_PRODUCER
        or transaction.producer.epoch == NO_PRODUCER_EPOCH  # a new id, or one that had expired
        or expected.producer_id == transaction.producer.producer_id
        or (
            expected.producer_id == transaction.previous_producer_id
            and is_exhausted(expected.epoch)
        )
    )


def _next_epoch(transaction: Transaction, expected_epoch: int) -> tuple[int, int]:
    """The epoch that a producer gets, and the one to remember as its last."""
    epoch = transaction.producer.epoch
    if expected_epoch == NO_PRODUCER_EPOCH:
        return epoch + 1, NO_PRODUCER_EPOCH
    if epoch in (NO_PRODUCER_EPOCH, expected_epoch):
        return epoch + 1, epoch
    if expected_epoch == transaction.last_epoch:  # it was answered before, and has not heard it
        return epoch, transaction.last_epoch
    raise KafkaError(ErrorCode.PRODUCER_FENCED)


# ---- AddPartitionsToTxn, AddOffsetsToTxn


def with_partitions(
    entry: TransactionEntry,
    producer: Producer,
    partitions: Collection[TopicPartition],
    now_ms: int,
    client_version: int = WITHOUT_EPOCHS,
) -> Transaction | None:
    """Return what is to be written so that these take part; None if they do already.

    KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    transaction = _not_ending(entry, producer)
    is_open = transaction.state is TransactionState.ONGOING
    if is_open and transaction.partitions.issuperset(partitions):
        return None
    return transaction.with_partitions(partitions, now_ms, client_version)


def verified(
    entry: TransactionEntry, producer: Producer, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Return which partitions take part in the producer's transaction (KIP-890), so that a batch
    that came late does not become part of the next one.

    While others join, those that the log has take part; those that join are to be asked for again.
    KafkaError as `with_partitions`.
    """
    joining: Collection[TopicPartition] = ()
    if entry.pending is not None and _is_growing(entry):
        joining = entry.pending.partitions
        _check_producer(entry.transaction, producer)
    else:
        _not_ending(entry, producer)
    taking_part = entry.transaction.partitions
    return {
        partition: ErrorCode.NONE
        if partition in taking_part
        else ErrorCode.CONCURRENT_TRANSACTIONS
        if partition in joining
        else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def _is_growing(entry: TransactionEntry) -> bool:
    """Whether partitions join a transaction that is stored: what was loaded may be lost yet."""
    transaction, pending = entry.transaction, entry.pending
    is_open = transaction.state is TransactionState.ONGOING
    joins = pending is not None and pending.state is TransactionState.ONGOING
    return is_open and joins and pending is not transaction


def _not_ending(entry: TransactionEntry, producer: Producer) -> Transaction:
    transaction = entry.transaction
    if entry.pending is None or entry.pending.next_producer != producer:
        _check_producer(transaction, producer)
    if entry.pending is not None or transaction.state.is_ending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return transaction


# ---- EndTxn


def ended(
    entry: TransactionEntry, producer: Producer, now_ms: int, *, is_commit: bool
) -> Transaction | None:
    """Return what is to be written so that a transaction ends as its producer asks; None if it
    has ended so.

    KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
    INVALID_TXN_STATE.
    """
    transaction = entry.transaction
    _check_producer(transaction, producer)
    if entry.pending is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is TransactionState.ONGOING:
        return transaction.prepared(
            is_commit=is_commit, now_ms=now_ms, client_version=WITHOUT_EPOCHS
        )
    if transaction.state not in (_COMMITTED if is_commit else _ABORTED):
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    if transaction.state.is_ending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return None


_COMMITTED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT})
_ABORTED = frozenset({TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT})


def ended_with_epoch(
    entry: TransactionEntry,
    producer: Producer,
    now_ms: int,
    *,
    is_commit: bool,
    next_producer_id: int = NO_PRODUCER_ID,
) -> Transaction | None:
    """Return what is to be written so that a transaction ends, and its epoch with it; None if it
    has ended so, and its producer asks for the answer again (KIP-890).

    A producer may abort without having begun: then only its epoch ends. `next_producer_id` if
    `needs_next_producer_id`. KafkaError as `ended`.
    """
    transaction = entry.transaction
    if entry.pending is not None or transaction.state.is_ending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    asks_again = _asks_again(transaction, producer)
    if not asks_again:
        _check_producer(transaction, producer)
    elif transaction.state in _OPEN or is_beyond_producers(transaction):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    elif transaction.state in (_COMMITTED if is_commit else _ABORTED):
        return None
    if asks_again or (is_commit and transaction.state is not TransactionState.ONGOING):
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    return transaction.prepared_with_epoch(
        is_commit=is_commit, now_ms=now_ms, next_producer_id=next_producer_id
    )


def needs_next_producer_id(decided: Transaction) -> bool:
    """Whether the end of that epoch leaves the producer none of its id."""
    return is_beyond_producers(decided) and decided.next_producer_id == NO_PRODUCER_ID


def is_beyond_producers(transaction: Transaction) -> bool:
    """Whether it has the one epoch that is never given to a producer."""
    return transaction.producer.epoch > LAST_EPOCH


def _asks_again(transaction: Transaction, producer: Producer) -> bool:
    """Return whether it was this producer before its last transaction ended, and its epoch with it.
    If the end left the epoch, it is that of another producer, which has fenced this one.
    """
    if producer.epoch == NO_PRODUCER_EPOCH or transaction.client_version != WITH_EPOCHS:
        return False
    if producer.producer_id == transaction.producer.producer_id:
        return transaction.producer.epoch == producer.epoch + 1
    return producer == (transaction.previous_producer_id, LAST_EPOCH) and (
        transaction.producer.epoch == 0
    )


_OPEN = frozenset({TransactionState.ONGOING, TransactionState.EMPTY})


def aborted_by_fence(fenced: Transaction, now_ms: int, client_version: int) -> Transaction:
    """Return what is to be written for a transaction that `fence` has decided on: its epoch has
    ended with that. In the second protocol its producer may come again with that epoch.
    """
    aborted = fenced.prepared(is_commit=False, now_ms=now_ms, client_version=client_version)
    if client_version != WITH_EPOCHS or is_beyond_producers(aborted):
        return aborted
    return replace(aborted, last_epoch=aborted.producer.epoch - 1)


def _check_producer(transaction: Transaction, producer: Producer) -> None:
    if transaction.producer.producer_id != producer.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    # An id whose first record was refused has no epoch, and nobody got one.
    if producer.epoch == NO_PRODUCER_EPOCH or transaction.producer.epoch != producer.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
