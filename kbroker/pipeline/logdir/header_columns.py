"""Batches of a segment as Arrow rows, one for each: read from their headers, never opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kbroker.log.file_system import FileSystem
from kbroker.model import NO_SEQUENCE
from kbroker.pipeline.logdir.batch_crcs import crcs_match
from kbroker.pipeline.logdir.batch_headers import BatchHeaders, Bools, Int64s
from kbroker.pipeline.logdir.columns import Column, arrow_schema, header_columns
from kbroker.pipeline.logdir.decoded_records import (
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    batch_array,
    timestamps,
)
from kbroker.pipeline.logdir.segment_pieces import Piece, pieces
from kbroker.pipeline.logdir.segment_task import SegmentTask
from kbroker.record.record_batch import DELETE_HORIZON_BIT


def header_batches(
    file_system: FileSystem, task: SegmentTask, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """One row for each batch that begins in the task's stretch, whatever its offsets, markers and
    aborted ones too.

    A wrong checksum is a row with `crcValid` false. Raises DamagedBatchError where no batch begins,
    StorageError, ValueError for a column that there is not.
    """
    wanted = header_columns(columns)
    schema = arrow_schema(wanted)
    for piece in pieces(file_system, task):
        headers = BatchHeaders.of(piece)
        if len(headers):
            arrays = [_array(column, task, headers, piece) for column in wanted]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        if piece.damage is not None:
            raise piece.damage


def _array(column: Column, task: SegmentTask, headers: BatchHeaders, piece: Piece) -> pa.Array:
    name = column.name
    if name in ("topic", "partition", "segment", "directory"):
        constant = {
            "topic": task.topic,
            "partition": task.partition,
            "segment": task.segment_base_offset,
            "directory": task.directory,
        }[name]
        return pa.repeat(pa.scalar(constant, column.arrow_type), len(headers))
    if name == "baseOffset":
        return batch_array("batchBaseOffset", column.arrow_type, headers)
    if name == "recordCount":
        count = headers.field("record_count")
        return pa.array(count, mask=headers.is_wrapper).cast(column.arrow_type)
    if name == "baseTimestamp":
        return _timestamps(headers.field("base_timestamp"))
    if name == "maxTimestamp":
        return _timestamps(headers.field("max_timestamp"))
    if name == "crcValid":
        return pa.array(crcs_match(headers, piece))
    values = _values(name, headers)
    if values is None:
        return batch_array(name, column.arrow_type, headers)
    return pa.array(values).cast(column.arrow_type)


def _values(name: str, headers: BatchHeaders) -> npt.NDArray[Any] | None:
    if name == "sizeBytes":
        return headers.size_bytes
    if name == "lastOffset":
        return headers.last_offset
    if name == "baseSequence":
        return headers.field("base_sequence")
    if name == "lastSequence":
        base = headers.field("base_sequence")
        last = (base + headers.field("last_offset_delta")) & 0x7FFF_FFFF
        return np.where(base == NO_SEQUENCE, NO_SEQUENCE, last)
    if name == "hasDeleteHorizon":
        return headers.has_flag(DELETE_HORIZON_BIT)
    if name in ("attributes", "crc"):
        return headers.field(name)
    return None


def _timestamps(times_ms: Int64s) -> pa.Array:
    """Null where a time does not fit."""
    fits = (times_ms >= MIN_TIMESTAMP_MS) & (times_ms <= MAX_TIMESTAMP_MS)
    return timestamps(times_ms * fits) if fits.all() else _masked(times_ms, ~fits)


def _masked(times_ms: Int64s, mask: Bools) -> pa.Array:
    shown = pa.array(np.where(mask, 0, times_ms), mask=mask)
    return pa.compute.multiply(shown, 1000).view(timestamps(times_ms[:0]).type)
