"""BrokerTransactions: what serves transactions in a broker, from the first of them.

Law: it is made here alone, and imported with the first request about a transaction, or when this
broker leads a partition of `__transaction_state`: most brokers see none, and would pay with half a
megabyte.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from kbroker.coordinator.runtime.shard import LedPartition
from kbroker.model import TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from kbroker.coordinator.transaction.add_partitions_to_txn_manager import (
        AddPartitionsToTxnManager,
    )
    from kbroker.coordinator.transaction.marker_writer import MarkerWriter
    from kbroker.coordinator.transaction_coordinator import TransactionCoordinator
    from kbroker.server.broker.transactions_in_force import TransactionsInForce


class BrokerTransactions:
    """Of one broker (see TransactionalServices). Owned by the event loop."""

    def __init__(self, make: Callable[[], TransactionsInForce]) -> None:
        self._make = make
        self._made: TransactionsInForce | None = None
        self._is_started = self._is_shut_down = False

    @property
    def in_force(self) -> TransactionsInForce:
        """The parts that serve transactions, made when they are first asked for."""
        if self._made is None:
            self._made = self._make()
            if self._is_started:
                self._made.coordinator.start()
            if self._is_shut_down:
                self._made.shutdown()
        return self._made

    @property
    def coordinator(self) -> TransactionCoordinator:
        return self.in_force.coordinator

    @property
    def markers(self) -> MarkerWriter:
        return self.in_force.markers

    @property
    def participation(self) -> AddPartitionsToTxnManager:
        return self.in_force.participation

    def start(self) -> None:
        """Begin to look for transactions out of time, and for ids that nobody uses any more."""
        self._is_started = True
        if self._made is not None:
            self._made.coordinator.start()

    def shutdown(self) -> None:
        """Answer whoever waits, stop all timers and markers; every later request is refused."""
        self._is_shut_down = True
        if self._made is not None:
            self._made.shutdown()

    def on_leadership_change(
        self, became_leader: Collection[LedPartition], became_follower: Collection[LedPartition]
    ) -> None:
        """The replica manager's news: partitions of `__transaction_state` are read, or given up."""
        led = (partition.topic_partition.topic for partition in became_leader)
        if self._made is not None or TRANSACTION_STATE_TOPIC in led:
            self.in_force.coordinator.on_leadership_change(became_leader, became_follower)
