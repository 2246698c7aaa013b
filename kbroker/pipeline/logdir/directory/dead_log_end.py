"""Where the log of a dead directory ends, by the batches in its segments.

After a clean stop a log ends with its last batch or, if that is not the end that the stop noted,
with the last one that counts (`record.batch_order`). After any other stop, batches from the
recovery point on count as far as a recovery would leave them; all after the first that does not
count are gone. The high watermark file is not a bound then: it is as old as its last writing, and a
broker without followers had promised more. Some of these records may never have reached another
replica.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from kbroker.inspection.data_directory import PartitionDirectory
from kbroker.inspection.segment_audit import opened_audit
from kbroker.inspection.segment_scan import SegmentScan
from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import MAX_OFFSET, MAX_RELATIVE_OFFSET, log_file
from kbroker.log.producers.producer_snapshot import snapshot_offsets
from kbroker.log.segments.batch_audit import BatchAudit
from kbroker.pipeline.logdir.directory.segment_lookup import SegmentLookup
from kbroker.record.batch_order import (
    end_after_clean_stop,
    is_older,
    misses_records_before,
    recoverable,
)
from kbroker.record.record_batch import BatchHeader


def clean_end(
    file_system: FileSystem, directory: PartitionDirectory, base_offsets: Sequence[int]
) -> int:
    """The end of a log that was stopped cleanly, as its broker finds it at the next start: headers
    are trusted if they reach the recovery point, else batches that count are looked for.
    `base_offsets` are those of its segments, one at least. Raises StorageError.

    If the last batch is broken, the recovery point is the end: whoever reads so far shall meet the
    damage.
    """
    base_offset, noted = base_offsets[-1], directory.view.recovery_point or 0
    lookup = SegmentLookup(file_system, directory.path, base_offset)
    end_offset, tail = lookup.end()
    if tail is None and end_offset == noted:
        return end_offset
    highest_end = base_offset + MAX_RELATIVE_OFFSET + 1
    with opened_audit(file_system, lookup.path, highest_end) as (audit, file):
        return end_after_clean_stop(
            _last_sound(audit, lookup),
            base_offset,
            file.size(),
            noted,
            is_noted_twice=noted in snapshot_offsets(file_system.list(directory.path)),
        )


def _last_sound(audit: BatchAudit, lookup: SegmentLookup) -> Iterator[tuple[int, BatchHeader]]:
    """Batches from the last index entry on; all if fewer than two follow it: a fault of the last
    one shows beside the one before.
    """
    position = lookup.last()
    first = audit.header(position) if position else None
    if first is not None:
        behind = audit.sound_headers(first.base_offset, position)
        found = list(islice(behind, 2))
        if len(found) == 2:
            return chain(found, behind)
    return audit.sound_headers(lookup.base_offset)


def recovered_end(
    file_system: FileSystem, directory: PartitionDirectory, base_offsets: Sequence[int]
) -> int:
    """The end of a log whose broker was killed, as recovery would find it. Raises StorageError."""
    recovery_point = directory.view.recovery_point or 0
    first = max((i for i, base in enumerate(base_offsets) if base <= recovery_point), default=0)
    recovery = _Recovery(file_system, directory)
    end_offset = recovery.end_of(base_offsets[first:])
    if end_offset < recovery_point:
        end_offset = recovery.end_of(base_offsets)
    return end_offset


class _Recovery:
    """Finds where `LogLoader` would cut a log, once and for all."""

    def __init__(self, file_system: FileSystem, directory: PartitionDirectory) -> None:
        self._file_system = file_system
        self._directory = directory.path
        view = directory.view
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
    """The leader epoch of the first batch, checked against nothing; -1 if there is none."""
    batches = SegmentScan(file_system, path, checks_crc=False).batches()
    return next((batch.header.partition_leader_epoch for batch in batches), -1)
