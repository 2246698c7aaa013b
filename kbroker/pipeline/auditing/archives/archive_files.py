"""Checks one file of an archive against its manifest: a task, values in and out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kbroker.inspection.disk_advice import advice_on
from kbroker.inspection.finding import Finding, Findings
from kbroker.log.disk.file_system import StorageError
from kbroker.pipeline.archiving.manifests.file_check import check_file as check_against_manifest
from kbroker.pipeline.archiving.manifests.manifest import FileEntry
from kbroker.pipeline.archiving.tasks.hours import hour_indexes, hour_name
from kbroker.pipeline.auditing.archives.archived_offsets import Int64s, OffsetRuns, as_runs
from kbroker.pipeline.auditing.window_counts import WindowCount, Windows
from kbroker.pipeline.finding_codes import AuditCode
from kbroker.pipeline.logdir.exact_columns import unix_ms

_COLUMNS = ["topic", "partition", "offset", "timestamp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """One file that the manifests name."""

    archive: str  # its directory
    entry: FileEntry
    window_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """The outcome of one file's check; `runs` None: its rows cannot be read."""

    entry: FileEntry
    findings: Sequence[Finding]
    runs: OffsetRuns | None
    windows: Windows
    cpu_s: float


def check_parquet(task: FileTask) -> FileResult:
    """Check size, checksum and rows of a file."""
    begun_s = time.process_time()
    check = _FileCheck(task)
    check.run()
    return FileResult(
        entry=task.entry,
        findings=check.findings.all(),
        runs=check.runs,
        windows=check.windows,
        cpu_s=time.process_time() - begun_s,
    )


class _FileCheck:
    def __init__(self, task: FileTask) -> None:
        self._task = task
        self._entry = task.entry
        self.findings = Findings()
        self.runs: OffsetRuns | None = None
        self.windows: Windows = {}

    def run(self) -> None:
        entry, path = self._entry, f"{self._task.archive}/{self._entry.path}"
        try:
            finding = check_against_manifest(self._task.archive, entry)
            if finding is not None:
                self.findings.add(finding)
                if finding.code is AuditCode.ARCHIVE_FILE_MISSING:
                    return
            self._rows(pq.ParquetFile(path).read(columns=[*_COLUMNS, "timestampMs"]))
        except (StorageError, OSError) as error:
            code = AuditCode.ARCHIVE_FILE_UNREADABLE
            advice = advice_on(error, code.advice)
            self.findings.add(code.finding(path, f"cannot be read: {error}", advice=advice))
        except (pa.ArrowException, ValueError) as error:
            self._say(
                AuditCode.ARCHIVE_FILE_UNREADABLE, f"is not a readable Parquet file: {_line(error)}"
            )

    def _rows(self, table: pa.Table) -> None:
        entry = self._entry
        missing = [name for name in _COLUMNS if name not in table.column_names]
        if missing:
            self._say(AuditCode.ARCHIVE_COLUMNS, f"has no column {', '.join(missing)}")
            return
        if table.num_rows != entry.rows:
            self._say(AuditCode.ARCHIVE_ROWS, f"has {table.num_rows} rows, not {entry.rows}")
        offsets = _numbers(table, "offset")
        self._place(table)
        self._times(table)
        if not len(offsets):
            self.runs = as_runs(offsets)
            return
        found = (int(offsets.min()), int(offsets.max()))
        if found != (entry.first_offset, entry.last_offset):
            self._say(
                AuditCode.ARCHIVE_OFFSETS,
                f"has offsets {found[0]} to {found[1]}, not {entry.first_offset} to "
                f"{entry.last_offset}",
                offset=found[0] if found[0] != entry.first_offset else found[1],
            )
        self._order(offsets)
        self.runs = as_runs(np.unique(offsets))

    def _order(self, offsets: Int64s) -> None:
        ordered = np.sort(offsets)
        doubled = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(doubled):
            what = f"has {len(doubled)} offsets more than once, the first one {doubled[0]}"
            self._say(AuditCode.ARCHIVE_DOUBLED, what, offset=int(doubled[0]))
        falls = np.flatnonzero(np.diff(offsets) < 0)
        if len(falls):
            at = int(falls[0])
            what = f"offset {offsets[at + 1]} follows {offsets[at]}: rows are not in order"
            self._say(AuditCode.ARCHIVE_ORDER, what, offset=int(offsets[at + 1]))

    def _place(self, table: pa.Table) -> None:
        entry = self._entry
        topics = set(table.column("topic").unique().to_pylist())
        partitions = set(table.column("partition").unique().to_pylist())
        if topics - {entry.topic} or partitions - {entry.partition}:
            names = ", ".join(sorted(map(str, topics)))
            numbers = ", ".join(sorted(map(str, partitions)))
            what = f"holds topic {names}, partition {numbers}, not {entry.topic_partition}"
            self._say(AuditCode.ARCHIVE_PLACE, what)

    def _times(self, table: pa.Table) -> None:
        entry = self._entry
        times = unix_ms(table)
        if len(times):
            self.windows = _windows(times, self._task.window_ms)
            self._hour(table.column("timestamp").combine_chunks())
        newest = int(times.max()) if len(times) else -1
        oldest = int(times.min()) if len(times) else -1
        stated = (entry.min_timestamp_ms, entry.max_timestamp_ms)
        if stated not in ((-1, -1), (oldest, newest)):
            self._say(
                AuditCode.ARCHIVE_TIMESTAMPS,
                f"has timestamps {oldest} to {newest}, not {stated[0]} to {stated[1]}",
            )

    def _hour(self, column: Any) -> None:
        names = {hour_name(int(index)) for index in np.unique(hour_indexes(column))}
        if names != {self._entry.hour}:
            what = f"has records of {', '.join(sorted(names))}, not of {self._entry.hour} alone"
            self._say(AuditCode.ARCHIVE_HOUR, what)

    def _say(self, code: AuditCode, what: str, offset: int | None = None) -> None:
        path = f"{self._task.archive}/{self._entry.path}"
        self.findings.add(code.finding(path, what, offset=offset))


def _numbers(table: pa.Table, name: str) -> Int64s:
    numbers: Int64s = table.column(name).fill_null(-1).to_numpy().astype(np.int64)
    return numbers


def _windows(times: Int64s, window_ms: int) -> Windows:
    starts = np.where(times >= 0, times - times % window_ms, -1)
    found: Windows = {}
    for start in np.unique(starts).tolist():
        inside = times[starts == start]
        low = int(inside.min()) if start >= 0 else -1
        high = int(inside.max()) if start >= 0 else -1
        found[start] = WindowCount(records=len(inside), min_timestamp_ms=low, max_timestamp_ms=high)
    return found


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
