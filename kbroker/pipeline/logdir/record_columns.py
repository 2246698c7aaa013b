"""Records of a segment as Arrow record batches: what a Java consumer would see of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.file_system import FileSystem
from kbroker.pipeline.logdir.batch_headers import BatchHeaders
from kbroker.pipeline.logdir.columns import arrow_schema, record_columns
from kbroker.pipeline.logdir.damage import DamagedBatchError
from kbroker.pipeline.logdir.decoded_records import (
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
)
from kbroker.pipeline.logdir.record_batch_choice import first_misplaced, wanted_batches
from kbroker.pipeline.logdir.segment_pieces import (
    Piece,
    pieces,
    segment_path,
)
from kbroker.pipeline.logdir.segment_task import ReadOptions, SegmentTask
from kbroker.pipeline.logdir.tuple_decoder import decode_tuples, read_records
from kbroker.record.default_record import Record
from kbroker.record.legacy_record import is_intact, read_any_header


def record_batches(
    file_system: FileSystem, task: SegmentTask, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """The records that the task wants, in the order of the log.

    Raises DamagedBatchError behind the last record before the damage, StorageError (a file that
    retention removed meanwhile, too), ValueError for a column that there is not.
    """
    reader = _Reader(task, options)
    for piece in pieces(file_system, task):
        yield from reader.rows(piece)


def readable_record_batches(
    file_system: FileSystem,
    task: SegmentTask,
    options: ReadOptions,
    on_damage: Callable[[DamagedBatchError], None],
) -> Iterator[pa.RecordBatch]:
    """As `record_batches`, but damaged batches are told of and left out."""
    while True:
        try:
            yield from record_batches(file_system, task, options)
        except DamagedBatchError as error:
            on_damage(error)
            if error.end_position is None:
                return
            task = replace(task, start_position=error.end_position)
        else:
            return


class _Reader:
    def __init__(self, task: SegmentTask, options: ReadOptions) -> None:
        self._task = task
        self._options = options
        self._columns = record_columns(options.columns)
        self._schema = arrow_schema(self._columns)
        self._next_offset = task.segment_base_offset
        self._path = segment_path(task)

    def rows(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """The wanted records of a piece; then its damage, if any."""
        headers = BatchHeaders.of(piece)
        damage = piece.damage
        if len(headers):
            misplaced = first_misplaced(headers, self._next_offset, piece.follower_offset)
            if misplaced:
                index, reason = misplaced
                damage = self._damage(piece, headers, index, reason)
                headers = headers.take(slice(0, index))
        if len(headers):
            self._next_offset = int(headers.last_offset[-1]) + 1
            wanted = wanted_batches(headers, self._task, self._options)
            batches: list[list[Record]] = []
            for index in range(len(headers)):
                if not wanted[index]:
                    batches.append([])
                    continue
                try:
                    batches.append(self._records(piece.buffer, piece.bounds[index]))
                except KafkaError as error:
                    damage = self._damage(piece, headers, index, str(error))
                    break
            decoded = decode_tuples(batches, headers)
            if len(decoded.batch):
                rows = pa.RecordBatch.from_arrays(
                    decoded.arrays(self._columns, self._task), schema=self._schema
                )
                size = self._options.rows_per_batch
                for at in range(0, len(rows), size):
                    yield rows.slice(at, size)
        if damage is not None:
            raise damage

    def _records(self, buffer: bytes, start: int) -> list[Record]:
        if not is_intact(read_any_header(buffer, start), buffer, start):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "its checksum does not match")
        return [record for record in read_records(buffer, start) if self._is_wanted(record)]

    def _is_wanted(self, record: Record) -> bool:
        task, options = self._task, self._options
        time = record.timestamp
        if not task.start_offset <= record.offset < task.end_offset:
            return False
        if options.min_timestamp_ms is not None and time < options.min_timestamp_ms:
            return False
        if options.max_timestamp_ms is not None and time > options.max_timestamp_ms:
            return False
        if not MIN_TIMESTAMP_MS <= time <= MAX_TIMESTAMP_MS:
            raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"time {time}, which no TIMESTAMP holds")
        return True

    def _damage(
        self, piece: Piece, headers: BatchHeaders, index: int, reason: str
    ) -> DamagedBatchError:
        return DamagedBatchError(
            self._path,
            int(headers.positions[index]),
            int(headers.field("base_offset")[index]),
            reason,
            piece.position + piece.bounds[index + 1],
        )
