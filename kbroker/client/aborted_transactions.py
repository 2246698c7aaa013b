"""AbortedTransactions: which batches of an answer to a read_committed fetch are not records.

A broker names the aborted transactions of an answer by producer and first offset; each lasts until
its marker (KIP-98). No socket, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.record.record_batch import BatchHeader


class AbortedTransactions:
    """Of one partition in one answer, whose batches are asked about in their order."""

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        """Producer ids and first offsets."""
        self._to_come = sorted(transactions, key=lambda entry: entry[1], reverse=True)
        self._aborted: set[int] = set()  # producers, up to their next marker

    def hides(self, header: BatchHeader) -> bool:
        """Whether the records of this batch were aborted."""
        while self._to_come and self._to_come[-1][1] <= header.last_offset:
            self._aborted.add(self._to_come.pop()[0])
        if header.is_control:
            self._aborted.discard(header.producer_id)
            return False  # no reader takes it for records
        return header.is_transactional and header.producer_id in self._aborted
