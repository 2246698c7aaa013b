"""Transaction: what the coordinator knows of a transactional id, as its log keeps it (KIP-98).

Pure. A value: what is to be next is made of what is, written to the log, and only then is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

from kbroker.coordinator.transaction.producer import Producer
from kbroker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

NOT_STARTED = -1
LAST_EPOCH = 0x7FFE  # the one above it only fences: it is never given to a producer
WITHOUT_EPOCHS, WITH_EPOCHS = 0, 2  # what a producer does with its epoch, by `client_version`


class TransactionState(IntEnum):
    """The states, as the log numbers them."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """Kafka's name of it."""
        return self.name.title().replace("_", "")

    @property
    def is_ending(self) -> bool:
        """Whether it is decided how the transaction ends, and not every partition knows it yet."""
        return self in _ENDING

    @property
    def is_over(self) -> bool:
        return self in _OVER


_ENDING = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_OVER = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transactional id: its producer, and the transaction that is open or was the last one.

    Times are Unix ms. `last_epoch` is the epoch before an InitProducerId that named it, -1 for
    others: the same request again is answered again (KIP-360).

    `client_version` says how the present transaction began, or the last one ended: WITH_EPOCHS it
    has an epoch of its own, and the leaders of its partitions have added them (KIP-890). If that
    uses up the epochs of the producer id, `next_producer_id` follows once all partitions know of
    the end; it is -1 else.
    """

    transactional_id: str
    producer: Producer
    previous_producer_id: int = NO_PRODUCER_ID
    last_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NOT_STARTED
    update_ms: int
    client_version: int = WITHOUT_EPOCHS
    next_producer_id: int = NO_PRODUCER_ID

    @property
    def next_producer(self) -> Producer:
        """Return the producer as it is once the transaction is over."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return self.producer
        return Producer(self.next_producer_id, 0)

    @property
    def has_a_producer(self) -> bool:
        """Whether somebody may write under the producer's epoch: not if the last transaction was
        aborted, as that is what a fence ends with, which gives the epoch to nobody.
        """
        is_new = self.producer.epoch == NO_PRODUCER_EPOCH
        return not is_new and self.state is not TransactionState.COMPLETE_ABORT

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_exhausted(self.producer.epoch)

    def is_timed_out(self, now_ms: int) -> bool:
        """Whether the transaction that is open has taken longer than its producer asked for."""
        is_open = self.state is TransactionState.ONGOING
        return is_open and self.start_ms + self.timeout_ms < now_ms

    def is_expired(self, now_ms: int, after_ms: int) -> bool:
        """Whether nothing has happened for so long that the id may be forgotten."""
        return self.state.is_over and self.update_ms + after_ms <= now_ms

    # ---- what it is next

    def begun_by(
        self, producer: Producer, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """Return it with this producer, which has not begun a transaction."""
        previous = self.previous_producer_id
        if producer.producer_id != self.producer.producer_id:
            previous = self.producer.producer_id
        return Transaction(
            transactional_id=self.transactional_id,
            producer=producer,
            previous_producer_id=previous,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            update_ms=now_ms,
            client_version=self.client_version,
        )

    def with_partitions(
        self, partitions: Iterable[TopicPartition], now_ms: int, client_version: int
    ) -> Transaction:
        """Return it with these partitions taking part, too; it starts now if none was open."""
        is_open = self.state is TransactionState.ONGOING
        return replace(
            self,
            state=TransactionState.ONGOING,
            partitions=self.partitions.union(partitions) if is_open else frozenset(partitions),
            start_ms=self.start_ms if is_open else now_ms,
            update_ms=now_ms,
            client_version=client_version,
        )

    def fenced(self, epoch: int) -> Transaction:
        """No producer of an earlier epoch may go on; it is to be aborted."""
        return replace(
            self,
            producer=self.producer._replace(epoch=epoch),
            last_epoch=NO_PRODUCER_EPOCH,
            state=TransactionState.PREPARE_EPOCH_FENCE,
        )

    def prepared(self, *, is_commit: bool, now_ms: int, client_version: int) -> Transaction:
        """Return it with its end decided; the epoch stays."""
        state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        return replace(self, state=state, update_ms=now_ms, client_version=client_version)

    def prepared_with_epoch(
        self, *, is_commit: bool, now_ms: int, next_producer_id: int
    ) -> Transaction:
        """Return it with its end decided, and an epoch whose markers fence all that came before
        (KIP-890). An abort may be of no transaction: then it started now.
        """
        is_open = self.state is TransactionState.ONGOING
        epoch = self.producer.epoch
        return replace(
            self.prepared(is_commit=is_commit, now_ms=now_ms, client_version=WITH_EPOCHS),
            producer=self.producer._replace(epoch=epoch + 1),
            last_epoch=epoch,
            start_ms=self.start_ms if is_open else now_ms,
            next_producer_id=next_producer_id,
        )

    def completed(self, now_ms: int) -> Transaction:
        """All partitions know how it has ended."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        state = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        over = replace(self, state=state, partitions=frozenset(), update_ms=now_ms)
        if self.next_producer_id == NO_PRODUCER_ID:
            return over
        return replace(
            over,
            producer=self.next_producer,
            previous_producer_id=self.producer.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )

    def dead(self) -> Transaction:
        return replace(self, state=TransactionState.DEAD)


def is_exhausted(epoch: int) -> bool:
    """Whether no epoch after this one is given to a producer."""
    return epoch >= LAST_EPOCH
