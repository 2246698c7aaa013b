"""Compares the `.txnindex` files of a log with the transactions in its batches.

Law: an aborted transaction that no entry names would be served to readers of committed data. If the
beginning of the log is gone, or it was compacted, a transaction whose records were not seen proves
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.inspection.batch_check import Problem
from kbroker.inspection.finding_codes import FindingCode
from kbroker.log.segments.transaction_index import AbortedTxn
from kbroker.record.record_batch import BatchHeader


class TransactionCheck:
    """Follows the open transactions over all segments; `begin_segment` gives each one's entries."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # producer id -> first offset
        self._expected: dict[int, AbortedTxn] = {}  # entries of this segment by last offset
        self._missing: dict[int, Problem] = {}  # by last offset
        self.is_whole = True  # every batch of the log was seen from its first offset on

    def begin_segment(self, entries: list[AbortedTxn], base_offset: int) -> Iterator[Problem]:
        """Check the entries of the next segment by themselves, and keep them."""
        self._expected = {}
        self._missing = {}
        before = -1
        for entry in entries:
            if not before < entry.last_offset or not base_offset <= entry.last_offset:
                yield Problem(
                    FindingCode.TXNINDEX_ORDER,
                    f"the entry that ends with {entry.last_offset} follows {before}, "
                    f"the segment begins with {base_offset}",
                )
            if entry.first_offset > entry.last_offset:
                yield Problem(
                    FindingCode.TXNINDEX_ENTRY,
                    f"the transaction of producer {entry.producer_id} begins with "
                    f"{entry.first_offset} and ends with {entry.last_offset}",
                )
            before = entry.last_offset
            self._expected[entry.last_offset] = entry

    def data(self, header: BatchHeader) -> None:
        self._open.setdefault(header.producer_id, header.base_offset)

    def marker(self, header: BatchHeader, *, is_commit: bool) -> Iterator[Problem]:
        """End a transaction, and compare it with its entry."""
        first_offset = self._open.pop(header.producer_id, None)
        entry = self._expected.pop(header.last_offset, None)
        if entry is None:
            if first_offset is not None and not is_commit:
                self._missing[header.last_offset] = Problem(
                    FindingCode.TXNINDEX_MISSING,
                    f"no entry for the aborted transaction of producer {header.producer_id}, "
                    f"offsets {first_offset} to {header.last_offset}",
                )
            return
        if is_commit or entry.producer_id != header.producer_id:
            kind = "commits" if is_commit else "aborts"
            yield Problem(
                FindingCode.TXNINDEX_ENTRY,
                f"the entry says that producer {entry.producer_id} aborts with "
                f"{entry.last_offset}, where producer {header.producer_id} {kind}",
            )
        if self.is_whole and first_offset is not None and entry.first_offset != first_offset:
            yield Problem(
                FindingCode.TXNINDEX_ENTRY,
                f"the entry that ends with {entry.last_offset} begins with {entry.first_offset}, "
                f"the transaction with {first_offset}",
            )
        stable = min(self._open.values(), default=header.last_offset + 1)
        if self.is_whole and entry.last_stable_offset != stable:
            yield Problem(
                FindingCode.TXNINDEX_ENTRY,
                f"the entry that ends with {entry.last_offset} has the last stable offset "
                f"{entry.last_stable_offset}, it was {stable}",
            )

    @property
    def lacks_entries(self) -> bool:
        """True if this segment has aborted transactions without an entry."""
        return bool(self._missing)

    def came_later(self, entries: list[AbortedTxn]) -> None:
        """Take the entries after the walk: a running broker writes them after the batch."""
        for entry in entries:
            self._missing.pop(entry.last_offset, None)

    def end_segment(self, last_offset: int, *, is_cleaned: bool) -> Iterator[Problem]:
        """Yield markers without entry, and entries without marker unless the cleaner removed it."""
        yield from self._missing.values()
        for entry in self._expected.values():
            if entry.last_offset > last_offset:
                yield Problem(
                    FindingCode.TXNINDEX_BEYOND,
                    f"the entry that ends with {entry.last_offset} is after the last offset, "
                    f"{last_offset}",
                )
            elif not is_cleaned:
                yield Problem(
                    FindingCode.TXNINDEX_ENTRY,
                    f"no transaction ends with {entry.last_offset}, as an entry says",
                )
