"""Ends transactions whose end is decided: sends their markers, then writes that it is done.

Law: a marker is sent only when the decision is stored, and it is never sent for another decision
of the same transaction. What began is brought to its end by this coordinator, or by the one that
loads the log next; until then nothing else is decided of the id.
"""

from __future__ import annotations

import logging

from kbroker.coordinator.transaction.machine import KeptTransaction
from kbroker.coordinator.transaction.markers import SendMarkers, TransactionMarkers
from kbroker.coordinator.transaction.store import TransactionStore
from kbroker.coordinator.transaction.transaction import Transaction, TransactionState
from kbroker.errors import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

SEND_AGAIN_MS = 1000.0
_REPLACED = frozenset({ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})


class TransactionEndings:
    """Owned by the event loop; work for a partition ends with its leadership."""

    def __init__(self, store: TransactionStore, send_markers: SendMarkers) -> None:
        self._store = store
        self._send_markers = send_markers

    def begin(self, kept: KeptTransaction) -> None:
        """End a transaction in state PREPARE_COMMIT or PREPARE_ABORT, which is stored."""
        entry = kept.entry
        entry.pending = entry.transaction.completed(self._store.runtime.now().wall_ms)
        kept.home.run(self._end(kept, entry.transaction), f"end of {kept.transactional_id}")

    async def _end(self, kept: KeptTransaction, prepared: Transaction) -> None:
        is_sent = not prepared.partitions
        while not is_sent:
            markers = _markers_of(prepared, kept.home.shard.epoch)
            error = await self._error_of(markers)
            is_sent = error is ErrorCode.NONE
            if error in _REPLACED and kept.home.shard.epoch == markers.coordinator_epoch:
                _log.warning("The end of %s is left to others: %s", markers, error.name)
                return
            if error not in _REPLACED and not is_sent:
                await self._store.runtime.sleep(SEND_AGAIN_MS)
        self._store.complete(kept)

    async def _error_of(self, markers: TransactionMarkers) -> ErrorCode:
        try:
            await self._send_markers(markers)
        except KafkaError as error:
            if error.code not in _REPLACED:
                _log.warning("%s were not sent: %s", markers, error)
            return error.code
        except Exception:  # a bug: readers would wait for ever for a marker that is not sent
            _log.exception("%s were not sent", markers)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return ErrorCode.NONE


def _markers_of(prepared: Transaction, coordinator_epoch: int) -> TransactionMarkers:
    return TransactionMarkers(
        transactional_id=prepared.transactional_id,
        producer=prepared.producer,
        coordinator_epoch=coordinator_epoch,
        is_commit=prepared.state is TransactionState.PREPARE_COMMIT,
        partitions=prepared.partitions,
    )
