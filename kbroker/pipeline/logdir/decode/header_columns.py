"""Batches of a segment as Arrow rows, one for each: read from their headers, never opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

import pyarrow as pa

from kbroker.inspection.segment_scan import SegmentScan
from kbroker.log.disk.file_system import FileSystem
from kbroker.pipeline.logdir.columns import Column, arrow_schema, header_columns
from kbroker.pipeline.logdir.decode.batch_headers import BatchHeaders, crcs_match
from kbroker.pipeline.logdir.decode.damage import DamagedBatchError
from kbroker.pipeline.logdir.decode.decoded_records import (
    TASK_COLUMNS,
    batch_array,
    task_array,
)
from kbroker.pipeline.logdir.decode.segment_pieces import Piece, pieces
from kbroker.pipeline.logdir.segment_task import SegmentTask
from kbroker.slices import slices

_LARGE_BATCH_BYTES: Final = 64 * 1024  # on average: from here on headers are read alone
_ROWS: Final = 4096


def header_batches(
    file_system: FileSystem, task: SegmentTask, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """One row for each batch that begins in the task's stretch, whatever its offsets, markers and
    aborted ones too.

    A wrong checksum is a row with `crcValid` false. Raises DamagedBatchError if no batch begins,
    StorageError, ValueError for an unknown column.
    """
    wanted = header_columns(columns)
    schema = arrow_schema(wanted)
    checks_crc = "crcValid" in columns
    for headers, piece in _read(file_system, task, checks_crc=checks_crc):
        arrays = [_array(column, task, headers, piece) for column in wanted]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _read(
    file_system: FileSystem, task: SegmentTask, *, checks_crc: bool
) -> Iterator[tuple[BatchHeaders, Piece | None]]:
    """Headers, with the bytes of their batches if these are asked for or were at hand."""
    for piece in pieces(file_system, task):
        headers = BatchHeaders.of(piece)
        if len(headers):
            yield headers, piece
        if piece.damage is not None:
            raise piece.damage
        if not checks_crc and piece.bounds[-1] > _LARGE_BATCH_BYTES * len(headers):
            rest = replace(task, start_position=piece.position + piece.bounds[-1])
            yield from _leap(file_system, rest)
            return


def _leap(file_system: FileSystem, task: SegmentTask) -> Iterator[tuple[BatchHeaders, None]]:
    """Read headers alone: if batches are large, most of the file is left out."""
    scan = SegmentScan(file_system, task.path, checks_crc=False, start=task.start_position)
    inside = takewhile(lambda batch: batch.position < task.end_position, scan.batches())
    for found in slices(inside, _ROWS):
        headers = [batch.header for batch in found]
        yield BatchHeaders.from_headers(headers, [batch.position for batch in found]), None
    tail = scan.tail
    if tail is not None and tail.position < task.end_position:
        raise DamagedBatchError(scan.path, tail.position, None, tail.reason)


def _array(
    column: Column, task: SegmentTask, headers: BatchHeaders, piece: Piece | None
) -> pa.Array:
    name = column.name
    if name in TASK_COLUMNS:
        return task_array(column, task, len(headers))
    if name == "crcValid":
        assert piece is not None
        return pa.array(crcs_match(headers, piece))
    return batch_array(name, column.arrow_type, headers)
