"""Decodes the chosen batches of a piece, many at a time.

Facts that a batch's header holds are not looked up in its records: offsets if none is missing,
times that the broker set. Else batches are opened, all of a piece or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kbroker.pipeline.logdir.decode.batch_groups import (
    MAX_DECOMPRESSED_BYTES,
    BatchGroup,
    BatchGroups,
)
from kbroker.pipeline.logdir.decode.batch_headers import BatchHeaders, Bools, Int64s
from kbroker.pipeline.logdir.decode.decoded_records import DecodedRecords
from kbroker.pipeline.logdir.decode.record_chain import MIN_RECORD_BYTES, record_starts
from kbroker.pipeline.logdir.decode.record_fields import (
    RecordFields,
    read_contents,
    read_deltas,
)
from kbroker.pipeline.logdir.decode.segment_pieces import Piece
from kbroker.pipeline.logdir.decode.span_arrays import binary_array, headers_arrays
from kbroker.pipeline.logdir.decode.tuple_decoder import TupleDecoder
from kbroker.pipeline.logdir.decode.varint_arrays import UnprovenError
from kbroker.pipeline.logdir.segment_task import ReadOptions, SegmentTask
from kbroker.record.default_record import Bytes
from kbroker.record.record_batch import HEADER_SIZE

_MOST_DERIVED: Final = 1024 * 1024  # records of a batch that are trusted unseen


class RecordDecoder:
    """Decodes for one task."""

    def __init__(self, task: SegmentTask, options: ReadOptions) -> None:
        self._task = task
        self._options = options
        self._groups = BatchGroups(options.rows_per_batch)
        wanted = set(options.columns)
        self._key = "key" in wanted
        self._value = "value" in wanted
        self._headers = bool({"headers", "headerNames"} & wanted)
        self._bounds_time = (
            options.min_timestamp_ms is not None or options.max_timestamp_ms is not None
        )
        self._time = bool({"timestamp", "timestampMs"} & wanted) or self._bounds_time
        self._offset = bool({"offset", "sequence"} & wanted)
        self._tuples = TupleDecoder(task, options, MAX_DECOMPRESSED_BYTES)

    def decode(
        self, piece: Piece, headers: BatchHeaders, chosen: Int64s
    ) -> Iterator[DecodedRecords]:
        """The wanted records of the chosen batches of the piece.

        Raises UnreadableBatchError after the records of the batches before the one it names.
        """
        if not piece.is_old:
            yield from self._decode_run(piece, headers, chosen)
            return
        is_old = headers.is_old[chosen]
        for run in np.split(chosen, np.flatnonzero(np.diff(is_old)) + 1):
            if len(run) and headers.is_old[run[0]]:
                yield from self._tuples.decode(piece, headers, run)
            else:
                yield from self._decode_run(piece, headers, run)

    def _decode_run(
        self, piece: Piece, headers: BatchHeaders, chosen: Int64s
    ) -> Iterator[DecodedRecords]:
        if not len(chosen):
            return
        if self._must_open(headers.take(chosen)):
            groups, decode = self._groups.opened(piece, headers, chosen), self._decode_group
        else:
            groups, decode = self._groups.unopened(headers, chosen), self._derive
        for group in groups:
            try:
                decoded = decode(group, headers.take(group.chosen))
            except UnprovenError:
                yield from self._tuples.decode(piece, headers, group.chosen)
            else:
                yield decoded

    def _must_open(self, headers: BatchHeaders) -> bool:
        if self._key or self._value or self._headers:
            return True
        if self._time and not headers.is_append_time.all():
            return True
        count = headers.field("record_count")
        if (count > _MOST_DERIVED).any() or (count < 0).any():
            return True
        plain = headers.compression == 0
        if (plain & (count * MIN_RECORD_BYTES > headers.size_bytes - HEADER_SIZE)).any():
            return True
        is_inside = (headers.field("base_offset") >= self._task.start_offset) & (
            headers.last_offset < self._task.end_offset
        )
        is_dense = count == headers.field("last_offset_delta") + 1
        return not (is_dense if self._offset else is_dense | is_inside).all()

    def _derive(self, group: BatchGroup, headers: BatchHeaders) -> DecodedRecords:
        """Make records from the headers alone."""
        count = group.regions.counts
        batch = np.repeat(np.arange(len(count)), count)
        delta = np.arange(len(batch)) - (np.cumsum(count) - count)[batch]
        fields = RecordFields(np.zeros_like(delta), delta, None, None, None)
        return self._select(b"", headers, batch, fields)

    def _decode_group(self, group: BatchGroup, headers: BatchHeaders) -> DecodedRecords:
        regions = group.regions
        data = np.frombuffer(regions.buffer, np.uint8)
        starts = record_starts(regions, data)
        batch = np.repeat(np.arange(len(regions.counts)), regions.counts)
        ends = np.append(starts[1:], 0)
        ends[np.cumsum(regions.counts) - 1] = regions.ends
        fields, at = read_deltas(data, starts, ends)
        if self._key or self._value or self._headers:
            fields = read_contents(data, fields, at, ends)
        return self._select(regions.buffer, headers, batch, fields)

    def _select(
        self, buffer: Bytes, headers: BatchHeaders, batch: Int64s, fields: RecordFields
    ) -> DecodedRecords:
        """Keep the records that are inside the bounds."""
        offset = headers.field("base_offset")[batch] + fields.offset_delta
        time = self._times(headers, batch, fields) if self._time else None
        chosen = self._chosen(offset, time)
        if chosen is not None:
            batch, offset = batch[chosen], offset[chosen]
            time = None if time is None else time[chosen]
            fields = fields.take(chosen)
        return DecodedRecords(
            batch=batch,
            headers=headers,
            offset=offset,
            timestamp_ms=time,
            key=binary_array(buffer, fields.key) if self._key and fields.key else None,
            value=binary_array(buffer, fields.value) if self._value and fields.value else None,
            record_headers=(
                headers_arrays(buffer, fields.headers, len(batch)) if self._headers else None
            ),
        )

    def _times(self, headers: BatchHeaders, batch: Int64s, fields: RecordFields) -> Int64s:
        is_append_time = headers.is_append_time
        if not is_append_time.any():
            return headers.field("base_timestamp")[batch] + fields.timestamp_delta
        most = headers.field("max_timestamp")[batch]
        if is_append_time.all():
            return most
        own = headers.field("base_timestamp")[batch] + fields.timestamp_delta
        return np.where(is_append_time[batch], most, own)

    def _chosen(self, offset: Int64s, time: Int64s | None) -> Bools | None:
        """True for each record inside the bounds; None if all are."""
        task, options = self._task, self._options
        inside: Bools = (offset >= task.start_offset) & (offset < task.end_offset)
        if time is not None and options.min_timestamp_ms is not None:
            inside &= time >= options.min_timestamp_ms
        if time is not None and options.max_timestamp_ms is not None:
            inside &= time <= options.max_timestamp_ms
        return None if inside.all() else inside
