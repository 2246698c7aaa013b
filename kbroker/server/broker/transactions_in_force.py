"""The parts of a broker that serve transactions: the coordinator of those whose ids are its own,
and what ends transactions in the partitions that it leads.
"""

from __future__ import annotations

from dataclasses import dataclass

from kbroker.apis.context import Services
from kbroker.clock import ClockWithTimer
from kbroker.coordinator.transaction.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from kbroker.coordinator.transaction.marker_sender import TransactionMarkerSender
from kbroker.coordinator.transaction.marker_writer import MarkerWriter
from kbroker.coordinator.transaction_coordinator import TransactionCoordinator, TransactionServices
from kbroker.features import TRANSACTION_VERSION
from kbroker.server.broker.inner_parts import ClusterParts, DataParts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TransactionsInForce:
    """The parts, made and connected."""

    coordinator: TransactionCoordinator
    markers: MarkerWriter
    sender: TransactionMarkerSender
    participation: AddPartitionsToTxnManager

    def shutdown(self) -> None:
        """Answer whoever waits, stop all timers and markers; every later request is refused."""
        self.coordinator.shutdown()
        self.participation.close()
        self.sender.close()


def transactions_in_force(
    services: Services, data: DataParts, cluster: ClusterParts, clock: ClockWithTimer
) -> TransactionsInForce:
    """Make the parts of a broker with these other services; they are not started yet."""
    replicas, timeout_ms = data.replicas, services.config.socket_server.request_timeout_ms
    markers = MarkerWriter(
        replicas.hosted,
        replicas.appends,
        services.groups.end_transaction,
        clock.now_ms,
        timeout_ms,
    )
    sender = TransactionMarkerSender(data.metadata, markers.write, cluster.open_client, timeout_ms)
    coordinator = TransactionCoordinator(
        services.config.transaction,
        TransactionServices(
            replicas=replicas.appends,
            metadata=data.metadata,
            topics=services.topics,
            producer_ids=services.producer_ids,
            send_markers=sender,
            clock=clock,
            timer=clock,
            state_partitions=data.transactions_topic.partitions,
            level=lambda: data.metadata.finalized_features.levels.get(TRANSACTION_VERSION, 0),
            note=data.events.note,
        ),
    )
    participation = AddPartitionsToTxnManager(
        coordinator,
        data.metadata,
        cluster.open_client,
        lambda: data.config().transaction.transaction_partition_verification_enable,
        timeout_ms,
    )
    return TransactionsInForce(
        coordinator=coordinator, markers=markers, sender=sender, participation=participation
    )
