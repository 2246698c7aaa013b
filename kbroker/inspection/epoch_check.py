"""Compares a leader-epoch checkpoint with the epochs that batches carry."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from kbroker.inspection.batch_check import Problem
from kbroker.inspection.finding_codes import FindingCode
from kbroker.log.disk.checkpoint import EpochEntry
from kbroker.record.record_batch import BatchHeader

_NO_EPOCH = -1
_NEVER = 2**63


class EpochCheck:
    """`entries` are those of the file; None if there is no file, or none that can be read."""

    def __init__(self, entries: Sequence[EpochEntry] | None, log_start_offset: int = 0) -> None:
        self._log_start_offset = log_start_offset  # what is before it has lost its entries
        self._entries = entries or []
        self._starts = [entry.start_offset for entry in self._entries]
        self._is_missing_reported = False
        self._fine_epoch = _NO_EPOCH
        self._fine_until = -1  # exclusive
        self._is_there = entries is not None
        self._is_sorted = all(
            a.epoch < b.epoch and a.start_offset < b.start_offset
            for a, b in zip(self._entries, self._entries[1:], strict=False)
        )

    def file(self) -> Iterator[Problem]:
        """Yield the contradictions between entries of the file."""
        if not self._is_sorted:
            yield Problem(FindingCode.EPOCHS_ORDER, "epochs and start offsets do not both rise")
        if any(entry.epoch < 0 or entry.start_offset < 0 for entry in self._entries):
            yield Problem(FindingCode.EPOCHS_ORDER, "an epoch or a start offset is negative")

    def is_expected(self, epoch: int, last_offset: int) -> bool:
        """True if the batch is in the same entry as one that was fine before."""
        return epoch == self._fine_epoch and last_offset < self._fine_until

    def batch(self, header: BatchHeader) -> Iterator[Problem]:
        """Compare the epoch of a batch with the one that the file gives its offsets."""
        epoch = header.partition_leader_epoch
        if epoch == _NO_EPOCH or not self._is_sorted or header.last_offset < self._log_start_offset:
            return
        slot = bisect_right(self._starts, header.last_offset) - 1
        if slot >= 0 and self._entries[slot].epoch == epoch:
            self._fine_epoch = epoch
            is_last = slot + 1 == len(self._starts)
            self._fine_until = _NEVER if is_last else self._starts[slot + 1]
        elif slot >= 0:
            found = self._entries[slot].epoch
            yield Problem(
                FindingCode.EPOCHS_WRONG,
                f"the batch at {header.base_offset} has epoch {epoch}, the file says {found}",
            )
        elif slot < 0 and not self._is_missing_reported:
            self._is_missing_reported = True
            what = "has no entry" if self._is_there else "is missing or cannot be read"
            yield Problem(
                FindingCode.EPOCHS_MISSING, f"{what}: epoch {epoch} from {header.base_offset} on"
            )

    def end(self, log_end_offset: int) -> Iterator[Problem]:
        """Yield entries that begin after the log's end; one at the end is of a leader without
        records.
        """
        for entry in self._entries:
            if entry.start_offset > log_end_offset:
                yield Problem(
                    FindingCode.EPOCHS_BEYOND,
                    f"epoch {entry.epoch} begins with {entry.start_offset}, beyond the log's "
                    f"end {log_end_offset}",
                )
