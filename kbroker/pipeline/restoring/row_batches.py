"""Turns rows of a partition into record batches of format 2 with their original times: for a log,
with their offsets too, or for a producer.

A batch takes rows that follow one another, up to `most_bytes` before compression. Rows without a
time, as in formats before 0.10, get -1. In a log, holes between offsets stay, also inside of
batches. A batch of a log has one kind of time: if the broker set it (LogAppendTime) it is the
batch's, so rows of different such times part. It spans no more time than a segment does, so that
retention finds old records in segments of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kbroker.config.topic_config import TopicConfig
from kbroker.log.disk.format import MAX_RELATIVE_OFFSET
from kbroker.model import NO_TIMESTAMP
from kbroker.pipeline.restoring.record_encoding import Int64s, RowFields, encoded
from kbroker.record.bulk_records import MOST_AROUND_BODY, MOST_OF_TIME
from kbroker.record.compression import NONE
from kbroker.record.packed_batch import PackedBatch
from kbroker.record.record_batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    BatchOptions,
    join_batch,
    read_header,
    unsealed_header,
)

Bools = npt.NDArray[np.bool_]

_BATCH_BYTES: Final = 64 * 1024
_MOST_AROUND: Final = MOST_AROUND_BODY + MOST_OF_TIME
_LONGEST_MS: Final = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchForm:
    """How the batches of a log are made."""

    most_bytes: int = _BATCH_BYTES
    most_ms: int = _LONGEST_MS
    leader_epoch: int = 0
    codec: int = NONE  # an id of `record.compression`

    @classmethod
    def of(cls, config: TopicConfig, leader_epoch: int, codec: int) -> BatchForm:
        """Return the form that the settings of the topic allow."""
        return cls(
            most_bytes=min(_BATCH_BYTES, config.max_message_bytes, config.segment_bytes),
            most_ms=min(config.segment_ms_effective(), _LONGEST_MS),
            leader_epoch=leader_epoch,
            codec=codec,
        )

    def options(self, flags: int = 0) -> BatchOptions:
        """Return what the header of a batch with records needs."""
        return BatchOptions(
            flags=flags, compression=self.codec, partition_leader_epoch=self.leader_epoch
        )


@dataclass(frozen=True, slots=True)
class RowBatch:
    """A batch that is not built yet: it may end at a later offset than that of its last record."""

    header: BatchHeader
    body: bytes | memoryview

    def built(self) -> bytes:
        return join_batch(self.header, self.body)

    def packed(self) -> PackedBatch:
        """Build the batch for a producer to pass on."""
        data = self.built()
        return PackedBatch(read_header(data), memoryview(data))

    def up_to(self, end_offset: int) -> RowBatch:
        """Return the same records with no others below `end_offset`, if a batch can say so."""
        end = min(end_offset, self.header.base_offset + MAX_RELATIVE_OFFSET + 1)
        header = self.header
        delta = max(end - 1 - header.base_offset, header.last_offset_delta)
        return RowBatch(header._replace(last_offset_delta=delta), self.body)


def row_batches(
    rows: pa.RecordBatch, form: BatchForm, base_offset: int | None = None
) -> Iterator[RowBatch]:
    """Yield the batches of some rows, with the columns of an archive, by rising offset. The first
    one begins at `base_offset`, if a batch can, else with its first record.
    """
    if not rows.num_rows:
        return
    fields = RowFields.of(rows)
    assert (np.diff(fields.offsets) > 0).all(), "rows come by rising offset"
    kinds = rows.column("timestampType").fill_null(NO_TIMESTAMP).to_numpy(zero_copy_only=False)
    yield from _batches_of(fields, kinds == LOG_APPEND_TIME, form, base_offset)


def producer_batches(rows: pa.RecordBatch, form: BatchForm) -> Iterator[RowBatch]:
    """Yield batches for a producer, of about one size, with consecutive offsets and CreateTime."""
    count = rows.num_rows
    fields = replace(RowFields.of(rows), offsets=np.arange(count))
    sizes = fields.sizes + _MOST_AROUND
    room, whole_bytes = form.most_bytes - HEADER_SIZE, int(sizes.sum())
    even = whole_bytes // max(-(-whole_bytes // room), 1) + int(sizes.max(initial=0))
    most_bytes = min(even, room) + HEADER_SIZE
    yield from _batches_of(fields, np.zeros(count, bool), replace(form, most_bytes=most_bytes))


def _batches_of(
    fields: RowFields, is_stamped: Bools, form: BatchForm, base_offset: int | None = None
) -> Iterator[RowBatch]:
    count = len(fields.offsets)
    starts = list(_starts(fields, is_stamped, form))
    ends = [*starts[1:], count]
    counts = np.diff([*starts, count])
    base_offsets, base_times = fields.offsets[starts], fields.times_ms[starts]
    if base_offset is not None and fields.offsets[ends[0] - 1] - base_offset <= MAX_RELATIVE_OFFSET:
        base_offsets[0] = base_offset
    records = encoded(fields, np.repeat(base_offsets, counts), np.repeat(base_times, counts))
    last_offsets = fields.offsets[np.array(ends) - 1]
    max_times = np.maximum.reduceat(fields.times_ms, starts)
    plain, stamped = form.options(), form.options(TIMESTAMP_TYPE_BIT)
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        header = unsealed_header(
            stamped if is_stamped[start] else plain,
            base_offset=int(base_offsets[number]),
            last_offset=int(last_offsets[number]),
            base_timestamp=int(base_times[number]),
            max_timestamp=int(max_times[number]),
            record_count=end - start,
        )
        yield RowBatch(header, records.between(start, end))


def batch_without_records(base_offset: int, form: BatchForm) -> RowBatch:
    """Return a batch that only says that there is no record, as compaction leaves them."""
    header = unsealed_header(
        BatchOptions(partition_leader_epoch=form.leader_epoch),
        base_offset=base_offset,
        last_offset=base_offset,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        record_count=0,
    )
    return RowBatch(header, b"")


def _starts(fields: RowFields, is_stamped: Bools, form: BatchForm) -> Iterator[int]:
    """Yield where batches begin."""
    times, offsets = fields.times_ms, fields.offsets
    parts = (is_stamped[1:] != is_stamped[:-1]) | (is_stamped[1:] & (times[1:] != times[:-1]))
    cuts = (np.flatnonzero(parts) + 1).tolist()
    sizes = np.cumsum(fields.sizes + _MOST_AROUND)
    room = form.most_bytes - HEADER_SIZE
    start = 0
    for cut in [*cuts, len(offsets)]:
        while start < cut:
            yield start
            before = int(sizes[start - 1]) if start else 0
            end = int(np.searchsorted(sizes, before + room, "right"))
            far = int(np.searchsorted(offsets, offsets[start] + MAX_RELATIVE_OFFSET, "right"))
            start += _same_age(times[start : max(start + 1, min(end, far, cut))], form.most_ms)


def _same_age(times_ms: Int64s, most_ms: int) -> int:
    """Return how many records are at most `most_ms` younger than the first."""
    younger = np.flatnonzero(times_ms > int(times_ms[0]) + most_ms)
    return int(younger[0]) if len(younger) else len(times_ms)
