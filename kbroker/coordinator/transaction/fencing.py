"""The event of a producer that is fenced, made of its transaction before that.

Pure.
"""

from __future__ import annotations

from kbroker.coordinator.transaction.transaction import Transaction, TransactionState
from kbroker.events.event import cut
from kbroker.events.producer_events import FenceCause, ProducerFenced


def replaced(transaction: Transaction) -> ProducerFenced:
    """Return the event of a producer after which another one came."""
    return _fenced(transaction, FenceCause.NEWER_PRODUCER)


def timed_out(transaction: Transaction) -> ProducerFenced:
    """Return the event of a producer whose transaction was open for too long."""
    return _fenced(transaction, FenceCause.TIMED_OUT)


def _fenced(transaction: Transaction, why: FenceCause) -> ProducerFenced:
    is_open = transaction.state is TransactionState.ONGOING
    return ProducerFenced(
        transactional_id=cut(transaction.transactional_id),
        producer_id=transaction.producer.producer_id,
        epoch=transaction.producer.epoch,
        why=why,
        timeout_ms=transaction.timeout_ms,
        aborted_partitions=len(transaction.partitions) if is_open else 0,
    )
