"""Decides which producers may begin a transaction in a partition: those whose coordinator was asked
(KIP-890).

Law: the coordinator's word holds until the next marker. A batch that came late, whose transaction
has ended meanwhile, would else begin one that nobody ends, and readers of committed records would
stop there for good. So a state is made before the coordinator is asked, the word is noted in that
very state, and a marker drops it: what was asked before the marker finds its state no more.

A producer whose epoch or sequence rises while it is asked keeps its order: a batch must not be
taken before one of a lower sequence that is still asked about, or is to be sent again.
"""

from __future__ import annotations

from typing import NamedTuple

_NOT_VERIFIED = -2  # no epoch, and not the one of a producer without epoch


class TransactionalBatch(NamedTuple):
    """The writer of a batch of a transaction, and the batch's place in the producer's row."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


class VerificationState:
    """One producer in one partition, from the question to the first batch or the next marker.
    Kafka's VerificationStateEntry, which is its own guard. `began_ms` is Unix time.
    """

    __slots__ = ("_verified_epoch", "began_ms", "begins_at_zero", "epoch", "lowest_sequence")

    def __init__(self, batch: TransactionalBatch, now_ms: int) -> None:
        self.began_ms = now_ms
        self.epoch = batch.producer_epoch
        self.lowest_sequence = batch.base_sequence
        self.begins_at_zero = False  # a producer without a past here has sequence 0 first
        self._verified_epoch = _NOT_VERIFIED

    def note(self, batch: TransactionalBatch) -> None:
        """The coordinator is asked about a batch more."""
        if batch.producer_epoch > self.epoch:
            self.epoch = batch.producer_epoch
            self.lowest_sequence = batch.base_sequence
        elif batch.producer_epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, batch.base_sequence)

    def verify(self, producer_epoch: int, *, begins_at_zero: bool = False) -> None:
        """The coordinator says that the partition takes part in that producer's transaction.
        `begins_at_zero`: each transaction has an epoch of its own.
        """
        self._verified_epoch = producer_epoch
        self.begins_at_zero = begins_at_zero

    def is_verified(self, producer_epoch: int) -> bool:
        return self._verified_epoch == producer_epoch
