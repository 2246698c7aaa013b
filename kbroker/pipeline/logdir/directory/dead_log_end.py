"""Where the log of a dead directory ends, by the batches in its segments.

After a clean stop a log ends with its last batch. After any other, batches from the recovery point
on count as far as a recovery would leave them (`record.batch_order`); what follows the first that
does not count is gone. The high watermark file is no bound then: it is as old as its last writing,
and a broker without followers had promised more. What other replicas never got may be among these
records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from kbroker.inspection.log_directory_view import PartitionView
from kbroker.inspection.segment_scan import SegmentScan
from kbroker.log.file_system import FileSystem
from kbroker.log.format import MAX_OFFSET, MAX_RELATIVE_OFFSET, log_file
from kbroker.pipeline.logdir.directory.segment_lookup import SegmentLookup
from kbroker.record.batch_order import is_older, misses_records_before, recoverable


def clean_end(
    file_system: FileSystem, directory: str, view: PartitionView, base_offsets: Sequence[int]
) -> int:
    """The end of a log that was stopped cleanly; `base_offsets` are those of its segments, one at
    least. Raises StorageError.

    Where its last batch is broken, the recovery point tells how far the log went: whoever reads so
    far shall meet the damage.
    """
    end_offset = base_offsets[-1]
    lookup = SegmentLookup(file_system, directory, end_offset)
    scan = SegmentScan(file_system, lookup.path, checks_crc=False, start=lookup.last())
    for batch in scan.batches():
        end_offset = batch.header.next_offset
    return max(end_offset, view.recovery_point or 0) if scan.tail is not None else end_offset


def recovered_end(
    file_system: FileSystem, directory: str, view: PartitionView, base_offsets: Sequence[int]
) -> int:
    """The end of a log whose broker was killed, as recovery would find it. Raises StorageError."""
    recovery_point = view.recovery_point or 0
    first = max((i for i, base in enumerate(base_offsets) if base <= recovery_point), default=0)
    recovery = _Recovery(file_system, directory, view)
    end_offset = recovery.end_of(base_offsets[first:])
    if end_offset < recovery_point:
        end_offset = recovery.end_of(base_offsets)
    return end_offset


class _Recovery:
    """Finds where `LogLoader` would cut a log; what was found to be cut stays so."""

    def __init__(self, file_system: FileSystem, directory: str, view: PartitionView) -> None:
        self._file_system = file_system
        self._directory = directory
        self._gapless_from = MAX_OFFSET if view.gaps_up_to is None else view.gaps_up_to
        self._gaps_up_to = max(self._gapless_from, view.log_start_offset or 0)
        self._cut: tuple[int, int] | None = None  # base offset of the last segment, bytes kept

    def end_of(self, base_offsets: Sequence[int]) -> int:
        """The end offset, up to the first batch that does not count."""
        last, kept_before = self._cut or (MAX_OFFSET, None)
        bases = [base for base in base_offsets if base <= last]
        segment_ends = [*bases[1:], bases[-1] + MAX_RELATIVE_OFFSET + 1]
        end_offset, epoch, kept = bases[0], -1, 0
        for before, base_offset, segment_end in zip(
            [None, *bases], bases, segment_ends, strict=False
        ):
            if before is not None and self._is_cut_off(base_offset, end_offset, epoch):
                self._cut = before, kept
                return end_offset
            scan = SegmentScan(
                self._file_system, log_file(self._directory, base_offset), checks_crc=True
            )
            end_offset, kept = base_offset, 0
            counting = recoverable(
                scan.intact(kept_before if base_offset == last else None),
                base_offset,
                segment_end,
                gapless_from=self._gapless_from,
            )
            for _, header, position, _ in deque(counting, maxlen=1):
                end_offset, epoch = header.next_offset, header.partition_leader_epoch
                kept = position + header.size_bytes
            if kept < scan.size_bytes:
                self._cut = base_offset, kept
                return end_offset
        return end_offset

    def _is_cut_off(self, base_offset: int, end_offset: int, epoch: int) -> bool:
        path = log_file(self._directory, base_offset)
        return misses_records_before(base_offset, end_offset, self._gaps_up_to) or is_older(
            base_offset, _first_epoch(self._file_system, path), epoch, self._gapless_from
        )


def _first_epoch(file_system: FileSystem, path: str) -> int:
    """The leader epoch of the first batch, checked against nothing; -1 where there is none."""
    batches = SegmentScan(file_system, path, checks_crc=False).batches()
    return next((batch.header.partition_leader_epoch for batch in batches), -1)
