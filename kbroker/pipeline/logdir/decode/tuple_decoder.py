"""Takes batches apart one record at a time, through `kbroker.record`: every format, any content.

Slow, and right: the way of the old formats, and of batches that the fast way does not vouch for.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from kbroker.errors import ErrorCode, KafkaError
from kbroker.pipeline.logdir.columns import HEADERS
from kbroker.pipeline.logdir.decode.batch_headers import BatchHeaders, Int64s
from kbroker.pipeline.logdir.decode.decoded_records import (
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    DecodedRecords,
)
from kbroker.pipeline.logdir.decode.java_text import java_text
from kbroker.pipeline.logdir.decode.segment_pieces import Piece
from kbroker.pipeline.logdir.segment_task import ReadOptions, SegmentTask
from kbroker.record.default_record import Headers, Record
from kbroker.record.legacy_record import any_records


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
        self._holds_time = "timestamp" in options.columns

    def decode(
        self, piece: Piece, headers: BatchHeaders, chosen: Int64s
    ) -> Iterator[DecodedRecords]:
        """The wanted records of the chosen batches of the piece.

        UnreadableBatchError after the records of the batches before the one it names.
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
        return [
            record._replace(timestamp=_in_64_bits(record.timestamp))
            for record in any_records(batch, 0, self._max_bytes)
            if self._is_wanted(_in_64_bits(record.timestamp), record.offset)
        ]

    def _is_wanted(self, time_ms: int, offset: int) -> bool:
        task, options = self._task, self._options
        if not task.start_offset <= offset < task.end_offset:
            return False
        if options.min_timestamp_ms is not None and time_ms < options.min_timestamp_ms:
            return False
        if options.max_timestamp_ms is not None and time_ms > options.max_timestamp_ms:
            return False
        if self._holds_time and not MIN_TIMESTAMP_MS <= time_ms <= MAX_TIMESTAMP_MS:
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP,
                f"the record with offset {offset} has the time {time_ms} ms, "
                "which is more than a TIMESTAMP holds",
            )
        return True


def _columns(records: list[Record], counts: list[int], headers: BatchHeaders) -> DecodedRecords:
    return DecodedRecords(
        batch=np.repeat(np.arange(len(counts), dtype=np.int64), counts),
        headers=headers,
        offset=np.array([record.offset for record in records], np.int64),
        timestamp_ms=np.array([record.timestamp for record in records], np.int64),
        key=pa.array([record.key for record in records], pa.binary()),
        value=pa.array([record.value for record in records], pa.binary()),
        record_headers=pa.array([_headers(record.headers) for record in records], HEADERS),
    )


def _in_64_bits(number: int) -> int:
    """A sum as Java has it."""
    return (number + 2**63) % 2**64 - 2**63


def _headers(headers: Headers) -> list[dict[str, str | bytes | None]] | None:
    if not headers:
        return None
    return [
        {"key": java_text(key.encode("utf-8", "surrogateescape")), "value": value}
        for key, value in headers
    ]
