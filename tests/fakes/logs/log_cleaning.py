"""A log cleaned at once, here: what the cleaner does in several steps on several threads."""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.log.cleaner.cleanable_log import cleaning_job, first_dirty_offset, log_to_clean
from kbroker.log.cleaner.cleaner import Cleaner
from kbroker.log.cleaner.cleaning_job import CleanedGroup, CleanerLimits, CleaningDone
from kbroker.log.disk.file_system import FileSystem, RealFileSystem
from kbroker.log.partition.log import Log
from kbroker.record.legacy_record import any_records
from kbroker.record.record_batch import BatchHeader, Record

_LIMITS = CleanerLimits()


def clean(
    log: Log,
    now_ms: int,
    *,
    limits: CleanerLimits = _LIMITS,
    file_system: FileSystem | None = None,
) -> CleaningDone:
    """One whole round of cleaning, whatever the dirty ratio is."""
    disk = file_system or RealFileSystem()
    target = log_to_clean(log, first_dirty_offset(log), now_ms)
    job = cleaning_job(target, disk, limits, now_ms)
    groups: list[CleanedGroup] = []
    done = Cleaner(disk, job, lambda _: None, groups.append).clean()
    log.partition_directory.before_gap(job.first_uncleanable_offset)
    for group in groups:
        swap_in(log, group, now_ms=now_ms, disk=disk)
    log.offsets.cleaned_to(done.end_offset)
    return done


def swap_in(log: Log, group: CleanedGroup, *, now_ms: int, disk: FileSystem) -> None:
    swap = log.files.begin_swap(group.base_offset, group.sources)
    assert swap is not None
    assert swap.stage()
    disk.sync_directory(swap.directory)
    assert swap.take_over(now_ms + 60_000)
    disk.sync_directory(swap.directory)
    swap.finish()
    disk.sync_directory(swap.directory)


def stored_batches(log: Log) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch of the log, in order."""
    for segment in log.segments:
        for _, header, view in segment.records.batches():
            yield header, bytes(view)


def stored_records(log: Log) -> list[Record]:
    """Every record of the log that consumers see or could see, markers left out."""
    return [
        record
        for header, batch in stored_batches(log)
        if not header.is_control
        for record in any_records(batch)
    ]
