"""Transactions as the cleaner meets them: which data was aborted, and which markers nobody needs
any more (KIP-98).

Law: batches come in the order of the log. A marker may be removed once nothing of its transaction
is left; until then an abort stays in the transaction index of the segment that holds its marker.
Otherwise a reader of committed data would get records of an aborted transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from heapq import heapify, heappop

from kbroker.errors import KafkaError
from kbroker.log.segments.transaction_index import AbortedTxn
from kbroker.record.record_batch import BatchHeader, ControlRecord, read_control, records


@dataclass(slots=True)
class _OngoingAbort:
    aborted: AbortedTxn
    has_data: bool = False  # data of it is still in the log


class CleanedTransactions:
    """State of the transactions at one point of a log. Owned by one cleaning."""

    def __init__(
        self,
        aborted: Iterable[AbortedTxn],
        on_abort_kept: Callable[[AbortedTxn], None] = lambda _: None,
    ) -> None:
        """`aborted` are all that touch the range to come; `on_abort_kept` hears of those whose
        marker stays.
        """
        self._waiting = [(txn.first_offset, txn) for txn in aborted]
        heapify(self._waiting)
        self._aborts: dict[int, _OngoingAbort] = {}
        self._commits: set[int] = set()
        # Producers with a marker since the last damage: before it there may be data of others.
        self._settled: set[int] | None = None
        self.on_abort_kept = on_abort_kept

    def is_aborted_data(self, header: BatchHeader) -> bool:
        """Take a batch of data into account; True if it belongs to an aborted transaction."""
        if self._waiting:
            self._start_aborts(header.last_offset)
        if not header.is_transactional:
            return False
        ongoing = self._aborts.get(header.producer_id)
        if ongoing is None:
            self._commits.add(header.producer_id)
            return False
        ongoing.has_data = True
        return True

    def is_empty_marker(self, header: BatchHeader, batch: memoryview) -> bool:
        """Take a control batch into account; True if nothing of its transaction is left."""
        self._start_aborts(header.last_offset)
        if not header.record_count:
            return True
        try:
            marker = _marker(batch)
        except KafkaError:
            self._pass_unreadable(header)
            return False
        if marker is None:
            return False
        producer_id = header.producer_id
        if marker.is_commit:
            is_empty = producer_id not in self._commits and not self._is_in_doubt(producer_id)
            self._commits.discard(producer_id)
            return is_empty
        self._is_in_doubt(producer_id)
        ongoing = self._aborts.pop(producer_id, None)
        if ongoing is None or not ongoing.has_data:
            return True
        self.on_abort_kept(ongoing.aborted)
        return False

    def pass_damage(self, end_offset: int) -> None:
        """Go past what is damaged, and stays as it is: what is open at its end may have data in it.
        A transaction whose marker is in there ended with it.
        """
        while self._waiting and self._waiting[0][0] < end_offset:
            _, aborted = heappop(self._waiting)
            self._aborts[aborted.producer_id] = _OngoingAbort(aborted)
        self._aborts = {
            producer_id: _OngoingAbort(ongoing.aborted, has_data=True)
            for producer_id, ongoing in self._aborts.items()
            if ongoing.aborted.last_offset >= end_offset
        }
        self._settled = set()

    def copy(self) -> CleanedTransactions:
        """The state as it is now, to go back to."""
        other = CleanedTransactions((), self.on_abort_kept)
        other._waiting = list(self._waiting)
        other._aborts = {key: replace(ongoing) for key, ongoing in self._aborts.items()}
        other._commits = set(self._commits)
        other._settled = None if self._settled is None else set(self._settled)
        return other

    def _is_in_doubt(self, producer_id: int) -> bool:
        """True for the first marker of a producer after damage."""
        if self._settled is None or producer_id in self._settled:
            return False
        self._settled.add(producer_id)
        return True

    def _pass_unreadable(self, header: BatchHeader) -> None:
        """A marker that stays, as it cannot be read: the index says which ones end an abort."""
        ongoing = self._aborts.get(header.producer_id)
        if ongoing is None:
            self._commits.discard(header.producer_id)
        elif ongoing.aborted.last_offset <= header.last_offset:
            self.on_abort_kept(self._aborts.pop(header.producer_id).aborted)

    def _start_aborts(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            _, aborted = heappop(self._waiting)
            self._aborts.setdefault(aborted.producer_id, _OngoingAbort(aborted))


def _marker(batch: memoryview) -> ControlRecord | None:
    record = next(records(batch), None)
    return None if record is None else read_control(record)
