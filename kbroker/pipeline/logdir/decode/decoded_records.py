"""The records of some batches, taken apart into columns; what makes them an Arrow record batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kbroker.model import NO_SEQUENCE
from kbroker.pipeline.logdir.columns import Column
from kbroker.pipeline.logdir.decode.batch_headers import BatchHeaders, Int64s
from kbroker.pipeline.logdir.exact_columns import HeaderColumns, timestamps, timestamps_ms
from kbroker.pipeline.logdir.segment_task import SegmentTask
from kbroker.record.compression import CODEC_NAMES
from kbroker.record.record_batch import DELETE_HORIZON_BIT

_CODECS: Final = pa.array([CODEC_NAMES.get(codec) for codec in range(8)], pa.string())

TASK_COLUMNS: Final = {  # the same for all that a task reads; and how the task calls them
    "topic": "topic",
    "partition": "partition",
    "segment": "segment_base_offset",
    "directory": "directory",
}
_FIELDS: Final = {  # columns that are fields of a header, and how those are called
    "leaderEpoch": "leader_epoch",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "magic": "magic",
    "baseSequence": "base_sequence",
    "attributes": "attributes",
    "crc": "crc",
}
_TIMES: Final = {"baseTimestamp": "base_timestamp", "maxTimestamp": "max_timestamp"}
_NOT_OF_WRAPPERS: Final = {
    "batchBaseOffset": "base_offset",
    "baseOffset": "base_offset",
    "recordCount": "record_count",
}
_BATCH_VALUES: Final[Mapping[str, Callable[[BatchHeaders], npt.NDArray[Any]]]] = {
    "isTransactional": lambda headers: headers.is_transactional,
    "isControl": lambda headers: headers.is_control,
    "hasDeleteHorizon": lambda headers: headers.has_flag(DELETE_HORIZON_BIT),
    "position": lambda headers: headers.positions,
    "timestampType": lambda headers: headers.timestamp_type,
    "sizeBytes": lambda headers: headers.size_bytes,
    "lastOffset": lambda headers: headers.last_offset,
    "lastSequence": lambda headers: _sequences(
        headers.field("base_sequence"), headers.field("last_offset_delta")
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecords:
    """One entry for each record in every array. None: a column that was not asked for."""

    batch: Int64s  # index of its batch in `headers`
    headers: BatchHeaders
    offset: Int64s | None = None
    timestamp_ms: Int64s | None = None
    key: pa.Array | None = None
    value: pa.Array | None = None
    record_headers: HeaderColumns | None = None

    def arrays(self, columns: tuple[Column, ...], task: SegmentTask) -> list[pa.Array]:
        return [self._array(column, task) for column in columns]

    def _array(self, column: Column, task: SegmentTask) -> pa.Array:
        name = column.name
        direct = {
            "key": self.key,
            "value": self.value,
            "offset": self.offset,
        }
        if name in direct:
            return pa.array(direct[name]) if name == "offset" else direct[name]
        if name in ("headers", "headerNames"):
            assert self.record_headers is not None
            return self.record_headers[name == "headerNames"]
        if name in ("timestamp", "timestampMs"):
            assert self.timestamp_ms is not None
            as_column = timestamps if name == "timestamp" else timestamps_ms
            return as_column(self.timestamp_ms)
        if name in TASK_COLUMNS:
            return task_array(column, task, len(self.batch))
        if name == "sequence":
            return pa.array(self._sequence(), column.arrow_type)
        return batch_array(name, column.arrow_type, self.headers).take(pa.array(self.batch))

    def _sequence(self) -> Int64s:
        assert self.offset is not None
        delta = self.offset - self.headers.field("base_offset")[self.batch]
        return _sequences(self.headers.field("base_sequence")[self.batch], delta)


def task_array(column: Column, task: SegmentTask, count: int) -> pa.Array:
    """A column of TASK_COLUMNS for `count` rows."""
    constant = getattr(task, TASK_COLUMNS[column.name])
    return pa.repeat(pa.scalar(constant, column.arrow_type), count)


def batch_array(name: str, kind: pa.DataType, headers: BatchHeaders) -> pa.Array:
    """A column of batches: one entry for each of them."""
    if name == "compression":
        return _CODECS.take(pa.array(headers.compression))
    if name in _TIMES:
        return timestamps(headers.field(_TIMES[name]))
    if name in _NOT_OF_WRAPPERS:
        return pa.array(headers.field(_NOT_OF_WRAPPERS[name]), mask=headers.is_wrapper).cast(kind)
    values = headers.field(_FIELDS[name]) if name in _FIELDS else _BATCH_VALUES[name](headers)
    return pa.array(values).cast(kind)


def _sequences(base: Int64s, delta: Int64s) -> Int64s:
    return np.where(base == NO_SEQUENCE, NO_SEQUENCE, (base + delta) & 0x7FFF_FFFF)
