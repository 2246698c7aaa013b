"""Cleans one log: of every key only the last record stays (KIP-58, KIP-534).

First the keys of the dirty part go into a map with their last offsets, as far as it has room. Then
all segments up to there are written again, in groups, without the records whose key occurs later,
without tombstones and markers whose time is over, and without aborted data.

Law: offsets do not change, and the last record of a key stays. The last batch of an active producer
and the last batch of the range stay too, without records if need be: they carry the producer's
sequence and the end of the log. A batch that is intact and cannot be read stays as it is, and takes
nothing else with it: its keys are not known. A segment that is damaged stays as it is, too, and the
others are cleaned; tombstones stay then, as what they delete may be in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import compress

from kbroker.errors import KafkaError
from kbroker.log.cleaner.cleaned_segment import CleanedSegment
from kbroker.log.cleaner.cleaned_transactions import CleanedTransactions
from kbroker.log.cleaner.cleaning_job import (
    CleanedGroup,
    CleanerStats,
    CleaningDone,
    CleaningJob,
    SourceSegment,
    group_segments,
)
from kbroker.log.cleaner.offset_map import OffsetMap
from kbroker.log.cleaner.segment_reader import DamagedSegmentError, read_batches
from kbroker.log.disk.file_system import FileSystem
from kbroker.record.batch_filter import RecordSpan, empty_batch, keep_legacy_records
from kbroker.record.default_record import Record
from kbroker.record.filtered_batch import batch_to_filter
from kbroker.record.legacy_record import any_records, read_any_header
from kbroker.record.old_messages import OldMessages
from kbroker.record.record_batch import MAGIC, BatchHeader
from kbroker.slices import slices

_SOME_RECORDS = 1_000  # of an old message, whose keys are held together


class CannotCleanError(Exception):
    """Nothing of the log can be cleaned; the message says why."""


class Cleaner:
    """One round of cleaning; used once. May run on a thread or in a process of its own."""

    def __init__(
        self,
        file_system: FileSystem,
        job: CleaningJob,
        before_io: Callable[[int], None],
        report: Callable[[CleanedGroup], None],
    ) -> None:
        """`before_io` hears how many bytes are read or written next: to wait, or to stop by
        raising. `report` gets every group of segments as soon as it is on the disk.
        """
        self._file_system = file_system
        self._job = job
        self._before_io = before_io
        self._report = report
        self._map = OffsetMap(job.limits.map_bytes, job.limits.load_factor)
        self._stats = CleanerStats()
        self._transactions = CleanedTransactions(job.aborted)
        clean = [s for s in job.segments if s.base_offset < job.first_dirty_offset]
        # Formats 0 and 1 have no delete horizon: there the age of the segment counts.
        self._legacy_horizon_ms = clean[-1].modified_ms - job.delete_retention_ms if clean else 0
        self._keeps_legacy_deletes = True
        self._cleaned: CleanedSegment
        ends = [*(s.base_offset for s in job.segments[1:]), job.first_uncleanable_offset]
        self._ends = dict(zip((s.path for s in job.segments), ends, strict=True))  # exclusive
        self._damaged: dict[str, str] = {}  # the segments that stay, and why

    def clean(self) -> CleaningDone:
        """Clean the log. Raises CannotCleanError, StorageError, and what `before_io` raises."""
        job = self._job
        try:
            self._build_map()
            end_offset = self._map.latest_offset + 1
            for group in group_segments(job, end_offset):
                self._clean_past_damage(group)
        except KafkaError as error:
            raise CannotCleanError(f"records cannot be read: {error}") from error
        self._stats.note_damaged(list(self._damaged.values()))
        return CleaningDone(end_offset=end_offset, stats=self._stats)

    # The map

    def _build_map(self) -> None:
        job, stats = self._job, self._stats
        # Markers before the dirty part are not read: what they end must not go on in it.
        dirty = [txn for txn in job.aborted if txn.last_offset >= job.first_dirty_offset]
        transactions = CleanedTransactions(dirty)
        self._map.latest_offset = job.first_dirty_offset - 1
        for segment in job.segments:
            end_offset = self._ends[segment.path]
            if end_offset <= job.first_dirty_offset:
                continue
            try:
                if not self._map_segment(segment, transactions):
                    break
            except DamagedSegmentError as error:
                self._damaged[segment.path] = str(error)
                transactions.pass_damage(end_offset)
            self._map.latest_offset = end_offset - 1
        stats.map_records = len(self._map)
        stats.map_used_bytes = self._map.used_bytes
        stats.map_utilization = self._map.utilization
        if self._map.latest_offset < job.first_dirty_offset < job.first_uncleanable_offset:
            raise CannotCleanError(
                f"the offset map has no room for the keys of one batch at offset "
                f"{job.first_dirty_offset}: raise log.cleaner.dedupe.buffer.size or lower "
                f"log.cleaner.threads"
            )

    def _map_segment(self, segment: SourceSegment, transactions: CleanedTransactions) -> bool:
        """Put a segment's keys into the map; False if it was full before the end."""
        for header, batch in self._batches(segment):
            self._stats.map_bytes_read += header.size_bytes
            if header.last_offset < self._job.first_dirty_offset:
                continue
            if header.is_control:
                transactions.is_empty_marker(header, batch)
            elif not transactions.is_aborted_data(header) and not self._put_keys(header, batch):
                return False
            self._map.latest_offset = header.last_offset
        return True

    def _put_keys(self, header: BatchHeader, batch: memoryview) -> bool:
        """Put a batch's keys into the map; False if it was full before the end. A batch that
        cannot be read has none: then older records of its keys stay.
        """
        try:
            for keys, last_offset in _keys(header, batch, self._job.first_dirty_offset):
                if not self._map.put(keys):
                    return False
                self._map.latest_offset = last_offset
        except KafkaError:
            pass
        return True

    # The segments

    def _clean_past_damage(self, group: list[SourceSegment]) -> None:
        """Clean a group, but for those of its segments that are damaged."""
        while group:
            damaged = (n for n, segment in enumerate(group) if segment.path in self._damaged)
            index = next(damaged, len(group))
            before, stats = self._transactions.copy(), replace(self._stats)
            try:
                if index:
                    self._clean_group(group[:index])
            except DamagedSegmentError as error:
                self._transactions, self._stats = before, stats
                self._damaged[error.path] = str(error)
                continue
            if index < len(group):
                self._transactions.pass_damage(self._ends[group[index].path])
            group = group[index + 1 :]

    def _clean_group(self, group: list[SourceSegment]) -> None:
        base_offset = group[0].base_offset
        self._cleaned = CleanedSegment(self._file_system, self._job, base_offset, self._before_io)
        self._transactions.on_abort_kept = self._cleaned.append_abort
        try:
            for segment in group:
                is_young = segment.modified_ms > self._legacy_horizon_ms
                self._keeps_legacy_deletes = is_young or bool(self._damaged)
                for header, batch in self._batches(segment):
                    self._clean_batch(header, batch)
            self._cleaned.finish(max(segment.modified_ms for segment in group))
        except BaseException:
            self._cleaned.abandon()
            raise
        sources = tuple(segment.base_offset for segment in group)
        self._report(CleanedGroup(base_offset=base_offset, sources=sources))

    def _clean_batch(self, header: BatchHeader, batch: memoryview) -> None:
        self._stats.bytes_read += header.size_bytes
        try:
            if header.magic < MAGIC:
                self._clean_legacy(header, batch)
            else:
                self._clean_records(header, batch)
        except KafkaError as error:  # of its records: nothing was written
            self._stats.note_unreadable(header.base_offset, str(error))
            self._write(header, batch)

    def _clean_records(self, header: BatchHeader, batch: memoryview) -> None:
        stats = self._stats
        is_empty_marker = False
        if header.is_control:
            is_empty_marker = self._transactions.is_empty_marker(header, batch)
            discards = is_empty_marker and self._is_past_horizon(header)
        else:
            discards = self._transactions.is_aborted_data(header)
        keeps_empty = self._keeps_empty(header)
        if discards:
            stats.records_read += header.record_count
            if keeps_empty:
                self._write_empty(header)
            return
        records = batch_to_filter(header, batch)
        chosen = records.choose(list if header.is_control else partial(self._kept, header))
        stats.records_read += chosen.records
        if not chosen.kept:
            if keeps_empty:
                self._write_empty(header)
            return
        needs_horizon = header.delete_horizon_ms is None and (
            is_empty_marker or (not header.is_control and chosen.has_tombstones)
        )
        stats.records_written += chosen.kept
        if chosen.kept == chosen.records and not needs_horizon:
            self._write(header, batch)
            return
        horizon_ms = self._job.now_ms + self._job.delete_retention_ms if needs_horizon else None
        changed = records.of_chosen(horizon_ms)
        self._write(read_any_header(changed), changed)

    def _kept(self, header: BatchHeader, spans: list[RecordSpan]) -> list[RecordSpan]:
        """The records that are the last of their key, or beyond what the map knows."""
        base_offset, map_end = header.base_offset, self._map.latest_offset
        drops_tombstones = self._is_past_horizon(header) and not self._damaged
        keyed = [span for span in spans if span.key is not None]
        latest = self._map.latest([span.key for span in keyed if span.key is not None])
        kept = [
            span
            for span, offset in zip(keyed, latest, strict=True)
            if base_offset + span.offset_delta >= offset
            and (span.has_value or not drops_tombstones)
        ]
        if len(keyed) == len(spans) and header.last_offset <= map_end:
            return kept
        return self._kept_beyond(header, spans, kept)

    def _kept_beyond(
        self, header: BatchHeader, spans: list[RecordSpan], kept: list[RecordSpan]
    ) -> list[RecordSpan]:
        """The kept ones if there are records without key, or some that the map does not cover."""
        bound = self._map.latest_offset - header.base_offset
        chosen = {span.offset_delta for span in kept}
        self._stats.keyless_records += sum(
            span.key is None and span.offset_delta <= bound for span in spans
        )
        return [s for s in spans if s.offset_delta > bound or s.offset_delta in chosen]

    def _clean_legacy(self, header: BatchHeader, batch: memoryview) -> None:
        messages = OldMessages.of(header, batch)
        count = messages.walk().record_count
        self._stats.records_read += count
        stays = bytearray(self._keeps_legacy(record) for record in messages.records(count))
        kept_count = sum(stays)
        self._stats.records_written += kept_count
        if kept_count == count:
            self._write(header, batch)
        elif kept_count:
            changed = keep_legacy_records(header, compress(messages.records(count), stays))
            self._write(read_any_header(changed), changed)

    def _keeps_legacy(self, record: Record) -> bool:
        if record.offset > self._map.latest_offset:
            return True
        if record.key is None:
            self._stats.keyless_records += 1
            return False
        is_last = record.offset >= self._map.latest([record.key])[0]
        return is_last and (record.value is not None or self._keeps_legacy_deletes)

    def _keeps_empty(self, header: BatchHeader) -> bool:
        """True for a batch that says something beyond its records."""
        if header.next_offset == self._job.first_uncleanable_offset:
            return True
        last = self._job.last_records.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        last_data_offset, producer_epoch = last
        if last_data_offset is None:
            return header.is_control and header.producer_epoch == producer_epoch
        return header.last_offset == last_data_offset

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        horizon_ms = header.delete_horizon_ms
        return horizon_ms is not None and horizon_ms <= self._job.now_ms

    def _write_empty(self, header: BatchHeader) -> None:
        batch = empty_batch(header)
        self._write(read_any_header(batch), batch)

    def _write(self, header: BatchHeader, batch: bytes | memoryview) -> None:
        self._stats.bytes_written += len(batch)
        self._cleaned.append(header, batch)

    def _batches(self, segment: SourceSegment) -> Iterator[tuple[BatchHeader, memoryview]]:
        return read_batches(
            self._file_system, segment, self._job.limits.read_bytes, self._before_io
        )


def _keys(
    header: BatchHeader, batch: memoryview, start_offset: int
) -> Iterator[tuple[list[tuple[bytes, int]], int]]:
    """The keys of a batch from `start_offset` on, with their offsets; of a large one some after the
    other, each time with the last offset up to which they are all.
    """
    if header.magic < MAGIC:
        records = any_records(batch)
        for some in slices(records, _SOME_RECORDS):
            keys = [(r.key, r.offset) for r in some if r.key is not None]
            yield [each for each in keys if each[1] >= start_offset], some[-1].offset
        return
    base_offset = header.base_offset
    first_delta = start_offset - base_offset
    for spans in batch_to_filter(header, batch).spans():
        keys = [
            (span.key, base_offset + span.offset_delta)
            for span in spans
            if span.key is not None and span.offset_delta >= first_delta
        ]
        if spans:
            yield keys, base_offset + spans[-1].offset_delta
