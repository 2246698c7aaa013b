"""Compares the records of a log with those of its archive: every key, value, header and time.

A task reads one segment and the rows of the archive for its offsets, piece by piece, as columns:
where the columns are equal nothing more is done; where they are not, the record is named. Which
offsets are there at all is not checked here: headers show that, see `offsets_compared`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kbroker.inspection.finding import Finding, Findings
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.log.disk.format import log_file
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.manifest import FileEntry
from kbroker.pipeline.envelope import EXACT_COLUMNS
from kbroker.pipeline.finding_codes import AuditCode
from kbroker.pipeline.logdir.decode.damage import DamagedBatchError
from kbroker.pipeline.logdir.decode.record_columns import readable_record_batches
from kbroker.pipeline.logdir.exact_columns import with_exact_columns
from kbroker.pipeline.logdir.segment_task import ReadOptions, SegmentTask

_COLUMNS = ("offset", "timestamp", "timestampType", "key", "value", "headers", *EXACT_COLUMNS)
_COMPARED = _COLUMNS[1:]
_ROWS = 65_536
_TABLES_KEPT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentsTask:
    """One segment, and the files of the archive that may hold its offsets."""

    directory: str  # of the partition
    topic_partition: TopicPartition
    base_offset: int
    archive: str
    files: tuple[FileEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentsResult:
    """The differences, and how many records were compared."""

    topic_partition: TopicPartition
    findings: Sequence[Finding]
    records: int
    cpu_s: float


def compare_contents(task: ContentsTask) -> ContentsResult:
    """Compare one segment. Unreadable parts are reported elsewhere."""
    begun_s = time.process_time()
    findings = Findings()
    comparison = _Comparison(task, findings)
    path = log_file(task.directory, task.base_offset)
    options = ReadOptions(columns=_COLUMNS, rows_per_batch=_ROWS)
    file_system = RealFileSystem()
    try:
        segment = SegmentTask(
            directory=task.directory,
            topic=task.topic_partition.topic,
            partition=task.topic_partition.partition,
            segment_base_offset=task.base_offset,
            start_position=0,
            end_position=file_system.size(path),
            start_offset=0,
            end_offset=2**62,
        )
        for batch in readable_record_batches(file_system, segment, options, _left_out):
            comparison.piece(pa.Table.from_batches([batch]))
    except StorageError:
        pass  # the walk over the log reports it
    return ContentsResult(
        topic_partition=task.topic_partition,
        findings=findings.all(),
        records=comparison.records,
        cpu_s=time.process_time() - begun_s,
    )


def _left_out(_damage: DamagedBatchError) -> None:
    """Ignore damage: the walk over the log reports it."""


class _Comparison:
    def __init__(self, task: ContentsTask, findings: Findings) -> None:
        self._task = task
        self._findings = findings
        self._tables: dict[str, pa.Table | None] = {}  # by path, the newest last
        self.records = 0

    def piece(self, ours: pa.Table) -> None:
        """Compare some records of the log."""
        if not ours.num_rows:
            return
        offsets = ours.column("offset").to_numpy()
        low, high = int(offsets[0]), int(offsets[-1])
        for entry in self._task.files:
            if entry.first_offset <= high and entry.last_offset >= low:
                theirs = self._table(entry)
                if theirs is not None:
                    self._pair(ours, _part(theirs, low, high), entry)

    def _pair(self, ours: pa.Table, theirs: pa.Table, entry: FileEntry) -> None:
        our_offsets = ours.column("offset").to_numpy()
        their_offsets = theirs.column("offset").to_numpy()
        _, mine, yours = np.intersect1d(
            our_offsets, their_offsets, assume_unique=False, return_indices=True
        )
        if not len(mine):
            return
        left, right = ours.take(pa.array(mine)), theirs.take(pa.array(yours))
        self.records += left.num_rows
        for name in _COMPARED:
            a = left.column(name).combine_chunks()
            b = right.column(name).cast(a.type).combine_chunks()
            if not a.equals(b):
                self._differ(name, left, a, b, entry)

    def _differ(
        self, name: str, left: pa.Table, a: pa.Array, b: pa.Array, entry: FileEntry
    ) -> None:
        offsets = left.column("offset").to_numpy()[_differences(a, b)]
        path = log_file(self._task.directory, self._task.base_offset)
        for offset in offsets.tolist():
            what = f"record {offset} has another {name} than in {path}"
            archived = f"{self._task.archive}/{entry.path}"
            self._findings.add(AuditCode.ARCHIVE_DIFFERS.finding(archived, what, offset=offset))

    def _table(self, entry: FileEntry) -> pa.Table | None:
        if entry.path not in self._tables:
            while len(self._tables) >= _TABLES_KEPT:
                del self._tables[next(iter(self._tables))]
            self._tables[entry.path] = self._read(entry)
        return self._tables[entry.path]

    def _read(self, entry: FileEntry) -> pa.Table | None:
        path = f"{self._task.archive}/{entry.path}"
        try:
            table = pq.ParquetFile(path).read(columns=list(_COLUMNS)).combine_chunks()
            return with_exact_columns(table)
        except (OSError, pa.ArrowException, ValueError):
            return None  # the check of the file reports it


def _part(table: pa.Table, low: int, high: int) -> pa.Table:
    """Return the rows from offset `low` to `high`; all if they are not in order."""
    offsets = table.column("offset").to_numpy()
    if (np.diff(offsets) <= 0).any():
        return table
    start = int(np.searchsorted(offsets, low, "left"))
    return table.slice(start, int(np.searchsorted(offsets, high, "right")) - start)


def _differences(a: pa.Array, b: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if pa.types.is_list(a.type):
        pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
        return np.array([left != right for left, right in pairs], np.bool_)
    same = pc.fill_null(pc.equal(a, b), False)
    both_null = pc.and_(pc.is_null(a), pc.is_null(b))
    equal: np.ndarray[tuple[int], np.dtype[np.bool_]] = pc.or_(same, both_null).to_numpy(
        zero_copy_only=False
    )
    return ~equal
