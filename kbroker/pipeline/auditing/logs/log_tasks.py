"""The check of log directories as tasks that can run anywhere: values in, values out.

A partition is one task: it walks over the headers of its log in order. The bytes of a large one,
CRCs and records, are checked in tasks of their own, some segments each; the walk then gets the list
of broken batches.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from kbroker.inspection.content_check import SegmentPlace, check_content
from kbroker.inspection.data_directory import PartitionDirectory, PartitionView
from kbroker.inspection.directory_check import check_partition
from kbroker.inspection.finding import Finding, Findings
from kbroker.inspection.log_walk import CheckOptions, check_until_settled
from kbroker.inspection.partition_check import CheckedLog
from kbroker.inspection.partition_files import sort_files
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.log.disk.format import log_file
from kbroker.model import TopicPartition
from kbroker.pipeline.auditing.archives.archived_offsets import ArchivedOffsets
from kbroker.pipeline.auditing.comparison.offsets_compared import (
    BatchGatherer,
    ComparedLog,
    compare_offsets,
)
from kbroker.pipeline.auditing.window_counts import WindowCounter, Windows, merged_windows
from kbroker.record.record_batch import BatchHeader

_WRITE_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheck:
    """One partition directory to check."""

    data_directory: str
    name: str
    topic_partition: TopicPartition
    view: PartitionView
    size_bytes: int
    base_offsets: tuple[int, ...]
    is_deep: bool
    now_ms: int
    window_ms: int
    is_at_work: bool  # a broker is running on the directory
    broken: Mapping[str, frozenset[int]] | None = None
    archived: ArchivedOffsets | None = None  # of the partition, to be checked against its log

    @property
    def path(self) -> str:
        return f"{self.data_directory}/{self.name}"

    def options(self, watcher: _Watcher | None = None) -> CheckOptions:
        """Return how to check the directory."""
        options = CheckOptions(
            is_deep=self.is_deep and self.broken is None,
            now_ms=self.now_ms,
            watcher=watcher,
            broken=self.broken,
        )
        if self.is_at_work:
            return replace(options, is_at_work=True, pause=lambda: time.sleep(_WRITE_PAUSE_S))
        return options


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentTask:
    """The bytes of some segments of a partition."""

    log: LogCheck
    base_offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogResult:
    """The outcome of a partition directory's check."""

    task: LogCheck
    checked: CheckedLog
    findings: Sequence[Finding]
    archive_findings: Sequence[Finding]  # of its archive, checked against it
    windows: Windows
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentResult:
    """The outcome of some segments' check."""

    path: str  # of the partition's directory
    findings: Sequence[Finding]
    broken: Mapping[str, frozenset[int]]
    windows: Windows
    cpu_s: float


@dataclass(slots=True)
class _Watcher:
    """Counts, and gathers headers if an archive is to be checked against them."""

    task: LogCheck
    counter: WindowCounter = field(init=False)
    gatherer: BatchGatherer | None = field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.counter = WindowCounter(self.task.window_ms, by_record=self.task.is_deep)
        self.gatherer = BatchGatherer() if self.task.archived is not None else None

    def batch(self, header: BatchHeader) -> None:
        """Take in an intact batch."""
        self.counter.batch(header)
        if self.gatherer is not None:
            self.gatherer.batch(header)

    def records(self, header: BatchHeader, size_bytes: int, timestamps: list[int]) -> None:
        """Count the records in the batch."""
        self.counter.records(header, size_bytes, timestamps)


def check_log(task: LogCheck) -> LogResult:
    """Check one partition, and its archive against it."""
    begun_s = time.process_time()
    findings, archive_findings = Findings(), Findings()
    watcher = _Watcher(task)
    partition = PartitionDirectory(task.path, task.topic_partition, task.view)
    file_system = RealFileSystem()
    checked = check_partition(file_system, partition, task.options(watcher), findings)
    if task.archived is not None and watcher.gatherer is not None:
        log = ComparedLog(
            path=task.path,
            topic_partition=task.topic_partition,
            start_offset=checked.start_offset or 0,
            end_offset=checked.end_offset or 0,
            is_compacted=checked.is_compacted,
            batches=watcher.gatherer.batches(),
        )
        compare_offsets(log, task.archived, archive_findings)
    return LogResult(
        task=replace(task, archived=None, broken=None),
        checked=checked,
        findings=findings.all(),
        archive_findings=archive_findings.all(),
        windows=watcher.counter.windows,
        cpu_s=time.process_time() - begun_s,
    )


def check_segments(task: ContentTask) -> ContentResult:
    """Check the bytes of some segments. One that is gone meanwhile is left to the walk."""
    begun_s = time.process_time()
    findings = Findings()
    broken: dict[str, frozenset[int]] = {}
    windows: list[Windows] = []
    bases = task.log.base_offsets
    following = dict(pairwise(bases))
    for base_offset in task.base_offsets:
        path = log_file(task.log.path, base_offset)
        segment = SegmentPlace(path, following.get(base_offset))
        watcher = _Watcher(task.log)
        options = task.log.options(watcher)
        try:
            broken[path] = _check_segment(segment, task.log.view, options, findings)
        except StorageError:
            continue  # the walk reports it
        windows.append(watcher.counter.windows)
    return ContentResult(
        path=task.log.path,
        findings=findings.all(),
        broken=broken,
        windows=merged_windows(windows),
        cpu_s=time.process_time() - begun_s,
    )


def _check_segment(
    segment: SegmentPlace, view: PartitionView, options: CheckOptions, findings: Findings
) -> frozenset[int]:
    def attempt(found: Findings) -> frozenset[int]:
        if options.watcher is not None:
            options.watcher.begin()
        return check_content(RealFileSystem(), segment, view, options, found)

    return check_until_settled(attempt, options.pause if options.waits else None, findings)


def content_tasks(task: LogCheck, split_bytes: int) -> list[ContentTask]:
    """Return tasks of about `split_bytes` for a log that is larger than that; none for others."""
    if task.size_bytes <= split_bytes or len(task.base_offsets) < 2:
        return []
    groups: list[list[int]] = [[]]
    filled = 0
    for base_offset, size in _sizes(task):
        if groups[-1] and filled + size > split_bytes:
            groups.append([])
            filled = 0
        groups[-1].append(base_offset)
        filled += size
    return [ContentTask(log=task, base_offsets=tuple(group)) for group in groups]


def segments_of(path: str) -> tuple[tuple[int, ...], int]:
    """Return base offsets and size in bytes of the segments in a directory. Raises StorageError."""
    file_system = RealFileSystem()
    base_offsets = sort_files(file_system.list(path)).base_offsets
    size = 0
    for base_offset in base_offsets:
        try:
            size += file_system.size(log_file(path, base_offset))
        except StorageError:
            continue  # retention has removed it
    return tuple(base_offsets), size


def _sizes(task: LogCheck) -> list[tuple[int, int]]:
    sizes = []
    for base_offset in task.base_offsets:
        try:
            path = log_file(task.path, base_offset)
            sizes.append((base_offset, RealFileSystem().size(path)))
        except StorageError:
            continue
    return sizes
