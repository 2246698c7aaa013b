"""Transactions as the cleaner meets them: which data was aborted, and which markers nobody needs
any more (KIP-98).

Law: batches come in the order of the log. A marker may be removed once nothing of its transaction
is left; until then an abort stays in the transaction index of the segment that holds its marker.
Otherwise a reader of committed data would get records of an aborted transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heapify, heappop

from kbroker.errors import KafkaError
from kbroker.log.index.transaction_index import AbortedTxn
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
        """`aborted` are all that touch the range to come; `on_abort_kept` is told of those whose
        marker stays.
        """
        self._waiting = [(txn.first_offset, txn) for txn in aborted]
        heapify(self._waiting)
        self._aborts: dict[int, _OngoingAbort] = {}
        self._commits: set[int] = set()
        self.on_abort_kept = on_abort_kept

    def is_aborted_data(self, header: BatchHeader) -> bool:
        """Take a batch of data into account; True where it belongs to an aborted transaction."""
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
        """Take a control batch into account; True where nothing of its transaction is left."""
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
            is_empty = producer_id not in self._commits
            self._commits.discard(producer_id)
            return is_empty
        ongoing = self._aborts.pop(producer_id, None)
        if ongoing is None or not ongoing.has_data:
            return True
        self.on_abort_kept(ongoing.aborted)
        return False

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
