"""Markers of a transaction that has ended, one for every partition of it.

Pure. Law: a marker is written under the leader epoch of the partition of `__transaction_state` that
keeps the transaction, so that leaders of partitions can tell an old coordinator from its successor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kbroker.coordinator.transaction.producer import Producer
from kbroker.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TransactionMarkers:
    """The markers of one transaction that has been decided on.

    `coordinator_epoch` is the leader epoch of the partition of `__transaction_state`.
    """

    transactional_id: str
    producer: Producer
    coordinator_epoch: int
    is_commit: bool
    partitions: frozenset[TopicPartition]


class SendMarkers(Protocol):
    """Writes markers to the leaders of partitions, wherever they are."""

    async def __call__(self, markers: TransactionMarkers) -> None:
        """Return when every partition has the marker, or is gone.

        It tries for as long as that takes; cancelled, it sends nothing more. One call for each
        transaction that has ended, and again after a coordinator has loaded it: a partition may
        get the same marker twice.

        KafkaError TRANSACTION_COORDINATOR_FENCED or INVALID_PRODUCER_EPOCH if another coordinator
        or producer has taken over: nothing more is written then.
        """
        ...
