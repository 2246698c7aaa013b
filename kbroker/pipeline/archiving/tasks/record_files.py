"""A Spark task that writes records of one batch into Parquet files, one for each partition and
hour.

The records of a task come by rising offset, so each file is in that order, and the file's name says
its first and last. A file is on the disk before the task reports it. A task reports facts: which
file, with which offsets, rows and checksum; and for every partition which offsets did not come.

pyarrow writes and not Spark: no shuffle, names of our own, and the offsets known at the time of
writing. Nothing here is published: a task that runs twice leaves files nobody names.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kbroker.log.disk.file_system import StorageError
from kbroker.pipeline.archiving.manifests.archive_disk import disk_sentence
from kbroker.pipeline.archiving.manifests.archive_reading import STAGING
from kbroker.pipeline.archiving.manifests.file_check import file_checksum
from kbroker.pipeline.archiving.manifests.manifest import FileEntry, FileKind, file_name, file_path
from kbroker.pipeline.archiving.tasks.hours import NO_HOUR_INDEX, hour_indexes, hour_name
from kbroker.pipeline.archiving.tasks.task_facts import Fact, FileFact, PartFact, TroubleFact
from kbroker.pipeline.envelope import ARCHIVE_COLUMNS
from kbroker.pipeline.logdir.exact_columns import may_lack_names, unix_ms, with_exact_columns

ROW_GROUP_BYTES: Final = 32 * 1024 * 1024  # of records in memory, before encoding
BUFFERED_BYTES: Final = 96 * 1024 * 1024  # of all open files of a task
OPEN_FILES: Final = 48  # of a task; late records of more hours end a file early

_REJECTED_COLUMNS = (*ARCHIVE_COLUMNS, "reason")
# Which columns repeat: keys often do. A dictionary of values would cost time and save nothing.
_DICTIONARY = ["key", "topic", "partition", "timestampType", "headers.list.element.key", "reason"]
_STATISTICS = ["topic", "partition", "offset", "timestamp", "timestampMs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """How every task of a batch writes. `json_columns` names the column that holds the parsed value
    of a topic; the column `rejected` says why a value was not parsed, null if it was.
    """

    staging: str
    json_columns: dict[str, str] = field(default_factory=dict)


def write_records(
    batches: Iterator[pa.RecordBatch], options: TaskOptions, attempt: str
) -> list[tuple[Fact, bytes]]:
    """Write all records of a task, and report what was written. Trouble of the disk is a fact too:
    another attempt would have it again.
    """
    writer = _TaskWriter(options, attempt)
    try:
        for batch in batches:
            writer.add(batch)
        return writer.finish()
    except OSError as error:
        # pyarrow has a sentence of its own in place of the system's.
        reason = "" if error.errno else str(error)
        trouble = StorageError(options.staging, "write", error.errno or 0, reason)
        archive = options.staging.partition(f"/{STAGING}/")[0]
        return [(TroubleFact(disk_sentence(archive, trouble)), b"")]
    except _OutOfOrderError as error:
        return [(TroubleFact(str(error)), b"")]
    except _LostNamesError as error:
        return [(TroubleFact(str(error), may_be_exact=True), b"")]


class _OutOfOrderError(Exception):
    """Records that do not come by rising offset."""


class _LostNamesError(Exception):
    """Names of headers that may have had other bytes in the log."""


@dataclass(slots=True)
class _Part:
    """A partition as a task has seen it."""

    first_offset: int
    last_offset: int
    rows: int
    gaps: list[np.ndarray[Any, Any]]


class _TaskWriter:
    def __init__(self, options: TaskOptions, attempt: str) -> None:
        self._options = options
        self._attempt = attempt
        self._parts: dict[tuple[str, int], _Part] = {}
        self._open: dict[tuple[FileKind, str, int, int], _HourFile] = {}
        self._done: list[FileFact] = []
        self._files = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take records in, of any partitions."""
        if not batch.num_rows:
            return
        if "headerNames" not in batch.schema.names and may_lack_names(batch):
            raise _LostNamesError("Spark's connector gave a name of a header that is not UTF-8")
        batch = with_exact_columns(batch)
        partitions = batch.column("partition").to_numpy(zero_copy_only=False)
        topics = batch.column("topic").dictionary_encode()
        places = topics.indices.to_numpy(zero_copy_only=False).astype(np.int64) << 32 | partitions
        cuts = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), batch.num_rows]
        for start, end in itertools.pairwise(cuts):
            topic = topics.dictionary[int(places[start]) >> 32].as_py()
            self._add_part(topic, int(partitions[start]), batch.slice(start, end - start))

    def finish(self) -> list[tuple[Fact, bytes]]:
        """Close all files; what was written."""
        for place in list(self._open):
            self._close(place)
        facts: list[tuple[Fact, bytes]] = [(fact, b"") for fact in self._done]
        for (topic, partition), part in self._parts.items():
            fact = PartFact(topic, partition, part.first_offset, part.last_offset, part.rows)
            gaps = np.concatenate(part.gaps) if part.gaps else np.empty((0, 2), np.int64)
            facts.append((fact, gaps.tobytes()))
        return facts

    def _add_part(self, topic: str, partition: int, batch: pa.RecordBatch) -> None:
        self._note_offsets(topic, partition, batch)
        hours = hour_indexes(batch.column("timestamp"))
        columns = list(ARCHIVE_COLUMNS)
        json_column = self._options.json_columns.get(topic)
        kept = batch.select([*columns, *([json_column] if json_column else [])])
        if json_column:
            kept = kept.rename_columns([*columns, "json"])
        self._add_hours("data", (topic, partition), kept, hours)
        if json_column:
            reasons = batch.column("rejected")
            if reasons.null_count < len(reasons):
                is_rejected = pc.is_valid(reasons)
                rejected = batch.select([*columns, "rejected"]).filter(is_rejected)
                rejected = rejected.rename_columns(list(_REJECTED_COLUMNS))
                chosen = hours[is_rejected.to_numpy(zero_copy_only=False)]
                self._add_hours("rejected", (topic, partition), rejected, chosen)

    def _add_hours(
        self,
        kind: FileKind,
        place: tuple[str, int],
        batch: pa.RecordBatch,
        hours: np.ndarray[Any, Any],
    ) -> None:
        if hours.min() == hours.max():
            self._add_rows((kind, *place, int(hours[0])), batch)
            return
        for hour in np.unique(hours).tolist():
            rows = batch.take(pa.array(np.flatnonzero(hours == hour)))
            self._add_rows((kind, *place, int(hour)), rows)

    def _add_rows(self, place: tuple[FileKind, str, int, int], batch: pa.RecordBatch) -> None:
        file = self._open.pop(place, None)
        if file is None:
            if len(self._open) >= OPEN_FILES:
                self._close(next(iter(self._open)))  # the one used longest ago
            path = f"{self._options.staging}/{self._attempt}-{self._files}.parquet"
            self._files += 1
            file = _HourFile(path, place, batch.schema)
        self._open[place] = file
        file.add(batch)
        if file.buffered_bytes >= ROW_GROUP_BYTES:
            file.flush()
        elif sum(each.buffered_bytes for each in self._open.values()) >= BUFFERED_BYTES:
            max(self._open.values(), key=lambda each: each.buffered_bytes).flush()

    def _close(self, place: tuple[FileKind, str, int, int]) -> None:
        self._done.append(self._open.pop(place).close())

    def _note_offsets(self, topic: str, partition: int, batch: pa.RecordBatch) -> None:
        offsets = batch.column("offset").to_numpy(zero_copy_only=False)
        part = self._parts.get((topic, partition))
        if part is None:
            part = self._parts[topic, partition] = _Part(
                int(offsets[0]), int(offsets[0]) - 1, 0, []
            )
        before = np.concatenate((np.array([part.last_offset], np.int64), offsets[:-1]))
        steps = offsets - before
        if steps.min() < 1:
            at = int(np.argmin(steps))
            raise _OutOfOrderError(
                f"the source gave offset {offsets[at]} of {topic}-{partition} after "
                f"{before[at]}: records of a partition have to come in order"
            )
        holes = np.flatnonzero(steps > 1)
        if len(holes):
            part.gaps.append(np.stack((before[holes] + 1, offsets[holes]), axis=1))
        part.last_offset = int(offsets[-1])
        part.rows += len(offsets)


class _HourFile:
    """A file that is being written."""

    def __init__(self, path: str, place: tuple[FileKind, str, int, int], schema: pa.Schema) -> None:
        self.buffered_bytes = 0
        self._path = path
        self._kind, self._topic, self._partition, self._hour = place
        self._schema = schema
        self._buffer: list[pa.RecordBatch] = []
        self._writer = open_parquet(path, schema)
        self._rows = 0
        self._offsets = (-1, -1)
        self._times_ms: tuple[int, int] | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep records until a row group is full."""
        self._buffer.append(batch)
        self.buffered_bytes += batch.nbytes
        offsets = batch.column("offset")
        first = self._offsets[0] if self._rows else offsets[0].as_py()
        self._offsets = (first, offsets[-1].as_py())
        self._rows += batch.num_rows
        times = unix_ms(batch)
        low, high = int(times.min()), int(times.max())
        known = self._times_ms or (low, high)
        self._times_ms = (min(known[0], low), max(known[1], high))

    def flush(self) -> None:
        """Write the kept records as one row group."""
        if self._buffer:
            table = pa.Table.from_batches(self._buffer, self._schema)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._buffer.clear()
            self.buffered_bytes = 0

    def close(self) -> FileFact:
        """End the file, and sync it."""
        self.flush()
        self._writer.close()
        size_bytes = sync_file(self._path)
        hour = hour_name(self._hour)
        name = file_name(self._topic, self._partition, *self._offsets)
        low_ms, high_ms = self._times_ms or (-1, -1)
        is_timed = self._hour != NO_HOUR_INDEX
        entry = FileEntry(
            path=file_path(self._kind, self._topic, hour, name),
            kind=self._kind,
            topic=self._topic,
            partition=self._partition,
            hour=hour,
            first_offset=self._offsets[0],
            last_offset=self._offsets[1],
            rows=self._rows,
            size_bytes=size_bytes,
            min_timestamp_ms=low_ms if is_timed else -1,
            max_timestamp_ms=high_ms if is_timed else -1,
            checksum=file_checksum(self._path),
        )
        return FileFact(self._path, entry)


def open_parquet(path: str, schema: pa.Schema) -> pq.ParquetWriter:
    """Open a new file with the codec and encodings of archives."""
    names = set(schema.names)
    nested = {"headers.list.element.key": "headers"}
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in _DICTIONARY if nested.get(name, name) in names],
        column_encoding={"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
        write_statistics=[name for name in _STATISTICS if name in names],
        store_schema=False,
    )


def sync_file(path: str) -> int:
    """Sync a closed file; return its size in bytes."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
