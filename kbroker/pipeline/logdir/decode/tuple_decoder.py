"""Takes batches apart one record at a time, through `kbroker.record`: every format, any content.

Slow, and right: the way of the old formats, and of batches that the fast way does not vouch for.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from kbroker.errors import KafkaError
from kbroker.pipeline.logdir.decode.batch_headers import BatchHeaders, Int64s
from kbroker.pipeline.logdir.decode.decoded_records import DecodedRecords
from kbroker.pipeline.logdir.decode.segment_pieces import Piece
from kbroker.pipeline.logdir.exact_columns import header_columns_of
from kbroker.pipeline.logdir.segment_task import ReadOptions, SegmentTask
from kbroker.record.compression import unpacks_too_large
from kbroker.record.default_record import Record, in_64_bits
from kbroker.record.legacy_record import any_records
from kbroker.record.record_walk import SMALLEST_RECORD_BYTES


class UnreadableBatchError(Exception):
    """The records of the batch with this index in its piece cannot be read."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(index, reason)
        self.index = index
        self.reason = reason


class TupleDecoder:
    """Decodes for one task."""

    def __init__(
        self, task: SegmentTask, options: ReadOptions, max_decompressed_bytes: int
    ) -> None:
        self._task = task
        self._options = options
        self._max_bytes = max_decompressed_bytes

    def decode(
        self, piece: Piece, headers: BatchHeaders, chosen: Int64s
    ) -> Iterator[DecodedRecords]:
        """The wanted records of the chosen batches of the piece.

        Raises UnreadableBatchError after the records of the batches before the one it names.
        """
        records: list[Record] = []
        counts: list[int] = []
        first = 0
        for at, index in enumerate(chosen.tolist()):
            try:
                found = self._records(piece, index)
            except KafkaError as error:
                yield _columns(records, counts, headers.take(chosen[first:at]))
                raise UnreadableBatchError(index, str(error)) from error
            records += found
            counts.append(len(found))
            if len(records) >= self._options.rows_per_batch:
                yield _columns(records, counts, headers.take(chosen[first : at + 1]))
                records, counts, first = [], [], at + 1
        yield _columns(records, counts, headers.take(chosen[first:]))

    def _records(self, piece: Piece, index: int) -> list[Record]:
        batch = memoryview(piece.buffer)[piece.bounds[index] : piece.bounds[index + 1]]
        found = []
        left = self._max_bytes
        for record in any_records(batch):
            left -= SMALLEST_RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
            if left < 0:
                raise unpacks_too_large(self._max_bytes)
            time_ms = in_64_bits(record.timestamp)
            if self._is_wanted(time_ms, record.offset):
                found.append(record._replace(timestamp=time_ms))
        return found

    def _is_wanted(self, time_ms: int, offset: int) -> bool:
        task, options = self._task, self._options
        if not task.start_offset <= offset < task.end_offset:
            return False
        if options.min_timestamp_ms is not None and time_ms < options.min_timestamp_ms:
            return False
        return options.max_timestamp_ms is None or time_ms <= options.max_timestamp_ms


def _columns(records: list[Record], counts: list[int], headers: BatchHeaders) -> DecodedRecords:
    return DecodedRecords(
        batch=np.repeat(np.arange(len(counts), dtype=np.int64), counts),
        headers=headers,
        offset=np.array([record.offset for record in records], np.int64),
        timestamp_ms=np.array([record.timestamp for record in records], np.int64),
        key=pa.array([record.key for record in records], pa.binary()),
        value=pa.array([record.value for record in records], pa.binary()),
        record_headers=header_columns_of(record.headers for record in records),
    )
