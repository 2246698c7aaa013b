"""Records of a segment as Arrow record batches: what a Java consumer would see of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from kbroker.log.disk.file_system import FileSystem
from kbroker.pipeline.logdir.columns import arrow_schema, record_columns
from kbroker.pipeline.logdir.decode.batch_headers import BatchHeaders, crcs_match
from kbroker.pipeline.logdir.decode.batch_judge import BatchJudge
from kbroker.pipeline.logdir.decode.damage import DamagedBatchError
from kbroker.pipeline.logdir.decode.record_batch_choice import doubtful_batches, wanted_batches
from kbroker.pipeline.logdir.decode.record_decoder import RecordDecoder
from kbroker.pipeline.logdir.decode.segment_pieces import Piece, pieces
from kbroker.pipeline.logdir.decode.tuple_decoder import UnreadableBatchError
from kbroker.pipeline.logdir.segment_task import ReadOptions, SegmentTask
from kbroker.record.batch_order import Span


def record_batches(
    file_system: FileSystem, task: SegmentTask, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """The records that the task wants, in the order of the log; no batch of rows is empty.

    Raises DamagedBatchError after the last record before the damage, StorageError (also for a file
    that retention removed meanwhile), ValueError for an unknown column.
    """
    reader = _PieceReader(file_system, task, options)
    for piece in pieces(file_system, task):
        yield from reader.rows(piece)


def readable_record_batches(
    file_system: FileSystem,
    task: SegmentTask,
    options: ReadOptions,
    on_damage: Callable[[DamagedBatchError], None],
) -> Iterator[pa.RecordBatch]:
    """Like `record_batches`, but report damaged batches and leave them out."""
    while True:
        try:
            yield from record_batches(file_system, task, options)
        except DamagedBatchError as error:
            on_damage(error)
            task = error.rest_of(task)
        else:
            return


class _PieceReader:
    """Turns pieces of one task into rows, in the order of the file."""

    def __init__(self, file_system: FileSystem, task: SegmentTask, options: ReadOptions) -> None:
        self._task = task
        self._options = options
        self._columns = record_columns(options.columns)
        self._schema = arrow_schema(self._columns)
        self._decoder = RecordDecoder(task, options)
        self._judge = BatchJudge(file_system, task)
        self._next_offset = max(task.segment_base_offset, task.expected_offset)

    def rows(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """Yield the wanted records of a piece, then raise its damage, if there is any."""
        headers = BatchHeaders.of(piece)
        damage = piece.damage
        if len(headers):
            unsound = self._first_unsound(piece, headers)
            if unsound is not None:
                damage = self._damage(headers, unsound)
                headers = headers.take(slice(0, unsound))
        if len(headers):
            self._next_offset = int(headers.last_offset[-1]) + 1
            chosen = np.flatnonzero(wanted_batches(headers, self._task, self._options))
            try:
                yield from self._row_batches(piece, headers, chosen)
            except UnreadableBatchError as error:
                raise self._unreadable(piece, headers, error) from error
        if damage is not None:
            raise self._judge.with_way_on(damage, self._next_offset)

    def _row_batches(
        self,
        piece: Piece,
        headers: BatchHeaders,
        chosen: np.ndarray[tuple[int], np.dtype[np.int64]],
    ) -> Iterator[pa.RecordBatch]:
        for records in self._decoder.decode(piece, headers, chosen):
            if not len(records.batch):
                continue
            arrays = records.arrays(self._columns, self._task)
            rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
            most = self._rows_at_once(rows)
            for at in range(0, len(rows), most):
                yield rows.slice(at, most)

    def _rows_at_once(self, rows: pa.RecordBatch) -> int:
        """Choose so many rows of the usual size as stay, on their way to Spark, in a processor's
        cache and in memory that Arrow's Java side pools: beyond 4 MiB it asks the system again.
        """
        by_size: int = self._options.bytes_per_batch * len(rows) // max(rows.nbytes, 1)
        return max(min(self._options.rows_per_batch, by_size), 1)

    def _first_unsound(self, piece: Piece, headers: BatchHeaders) -> int | None:
        """The index of the first batch that does not count."""
        right = crcs_match(headers, piece)
        doubtful = doubtful_batches(
            headers, right, self._next_offset, self._judge.end_offset, piece.follower_offset
        )
        for index in doubtful:
            expected = int(headers.last_offset[index - 1]) + 1 if index else self._next_offset
            if not self._judge.counts(int(headers.positions[index]), expected):
                return index
        return None

    def _damage(self, headers: BatchHeaders, index: int) -> DamagedBatchError:
        first, last = int(headers.field("base_offset")[index]), int(headers.last_offset[index])
        position = int(headers.positions[index])
        expected = int(headers.last_offset[index - 1]) + 1 if index else self._next_offset
        reason = self._judge.reason(position, Span(first, last), expected)
        return DamagedBatchError(self._task.path, position, first, reason)

    def _unreadable(
        self, piece: Piece, headers: BatchHeaders, error: UnreadableBatchError
    ) -> DamagedBatchError:
        """The error for a batch that counts but whose records cannot be unpacked."""
        index = error.index
        return DamagedBatchError(
            self._task.path,
            int(headers.positions[index]),
            int(headers.field("base_offset")[index]),
            error.reason,
            piece.position + piece.bounds[index + 1],
            int(headers.last_offset[index]) + 1,
        )
