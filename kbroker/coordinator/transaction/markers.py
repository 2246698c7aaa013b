"""What a transaction coordinator asks of those who lead partitions: the end of a transaction.

PURE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kbroker.coordinator.transaction.transaction import Producer
from kbroker.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarkers:
    """The markers that a transaction ends with, one in each partition that takes part.

    `coordinator_epoch` is the leader epoch of the partition of `__transaction_state`.
    """

    transactional_id: str
    producer: Producer
    coordinator_epoch: int
    is_commit: bool
    partitions: frozenset[TopicPartition]


class SendMarkers(Protocol):
    """Has markers written, wherever the partitions are led."""

    async def __call__(self, markers: TransactionMarkers) -> None:
        """Return when every partition has the marker, or is gone.

        KafkaError TRANSACTION_COORDINATOR_FENCED or INVALID_PRODUCER_EPOCH where another
        coordinator has taken over: nothing more is written then.
        """
        ...
