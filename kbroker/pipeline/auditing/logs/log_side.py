"""The directories' side of an audit: which partitions there are, and what tasks found in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kbroker.inspection.data_directory import (
    DataDirectory,
    PartitionDirectory,
    partition_directory,
)
from kbroker.inspection.directory_check import (
    TopicIds,
    check_directory_names,
    check_together,
    check_topic_ids,
)
from kbroker.inspection.finding import Finding, Findings
from kbroker.inspection.log_paths import (
    LogPath,
    NotALogError,
    log_directory,
)
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.model import TopicPartition
from kbroker.pipeline.auditing.archives.archived_offsets import ArchivedOffsets
from kbroker.pipeline.auditing.audit_finding import AuditFinding, Side, placed
from kbroker.pipeline.auditing.audit_report import AuditRequest, LogSide
from kbroker.pipeline.auditing.logs.log_tasks import (
    ContentResult,
    LogCheck,
    LogResult,
    check_log,
    check_segments,
    content_tasks,
    segments_of,
)
from kbroker.pipeline.auditing.window_counts import Windows, merged_windows
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.finding_codes import AuditCode
from kbroker.pipeline.logdir.directory.lock_probe import is_locked
from kbroker.pipeline.spark_job.offsets import OffsetRange
from kbroker.pipeline.spark_job.spread import Spread

SPLIT_BYTES = 512 * 1024 * 1024  # up to this size the bytes of a partition are one task


def plan_logs(request: AuditRequest) -> tuple[list[LogCheck], list[AuditFinding]]:
    """Return a task for each partition, the largest first, and findings about the directories
    themselves. Raises PipelineError for a path that is not a log directory.
    """
    paths = [_path(directory) for directory in request.directories]
    findings = Findings()
    check_together([path for path in paths if isinstance(path, DataDirectory)], findings)
    tasks: list[LogCheck] = []
    for path in paths:
        if isinstance(path, DataDirectory):
            check_directory_names(path, findings, is_at_work=is_locked(path.path))
        tasks += _tasks(path, request)
    tasks.sort(key=lambda task: (-task.size_bytes, task.path))
    return tasks, placed(Side.LOG, None, findings.all())


def run_logs(
    tasks: Sequence[LogCheck],
    archived: Mapping[TopicPartition, ArchivedOffsets],
    spread: Spread,
    split_bytes: int = SPLIT_BYTES,
) -> list[LogResult]:
    """Check all partitions, and their archive against them."""
    parts = [part for task in tasks for part in content_tasks(task, split_bytes)]
    contents: defaultdict[str, list[ContentResult]] = defaultdict(list)
    for content in spread(check_segments, parts):
        contents[content.path].append(content)
    whole = [
        replace(
            task,
            archived=archived.get(task.topic_partition),
            broken=_broken(contents[task.path]) if task.path in contents else None,
        )
        for task in tasks
    ]
    results = spread(check_log, whole)
    return [_joined(result, contents.get(result.task.path, ())) for result in results]


def findings_of(results: Iterable[LogResult]) -> list[AuditFinding]:
    """List what was found in the partitions."""
    found: list[AuditFinding] = []
    topic_ids: dict[str, TopicIds] = {}
    for result in results:
        task, place = result.task, result.task.topic_partition
        found += placed(Side.LOG, place, result.findings)
        found += placed(Side.ARCHIVE, place, result.archive_findings)
        topic_id = result.checked.topic_id
        if topic_id is not None:
            ids = topic_ids.setdefault(task.data_directory, {})
            ids.setdefault(place.topic, {}).setdefault(topic_id, task.name)
    findings = Findings()
    for directory, ids in sorted(topic_ids.items()):
        check_topic_ids(directory, ids, findings)
    return found + placed(Side.LOG, None, findings.all())


def other_topics(results: Iterable[LogResult], archived: Mapping[str, str]) -> list[AuditFinding]:
    """Report topics that only have the name of an archived one; `archived` are topic ids."""
    found = []
    for result in results:
        topic_id, place = result.checked.topic_id, result.task.topic_partition
        known = archived.get(place.topic)
        if topic_id is None or known is None or str(topic_id) == known:
            continue
        what = f"is of the topic with the id {topic_id}, the archive has {known} of that name"
        finding = AuditCode.ARCHIVE_OTHER_TOPIC.finding(result.task.path, what)
        found.append(AuditFinding(Side.ARCHIVE, finding, place))
    return found


def side_of(result: LogResult) -> LogSide:
    """Return a partition's row for the report."""
    checked = result.checked
    start, end = checked.start_offset, checked.end_offset
    return LogSide(
        path=result.task.path,
        range=None if start is None or end is None else OffsetRange(start, max(start, end)),
        high_watermark=result.task.view.high_watermark,
        is_compacted=checked.is_compacted,
        totals=checked.totals,
        windows=merged_windows([result.windows]),
    )


def _path(directory: str) -> LogPath:
    try:
        return log_directory(RealFileSystem(), directory)
    except NotALogError as error:
        raise PipelineError(str(error), ExitCode.USAGE) from error
    except StorageError as error:
        raise PipelineError(f"cannot {error}") from error


def _tasks(path: LogPath, request: AuditRequest) -> list[LogCheck]:
    if isinstance(path, PartitionDirectory):
        return [_task(partition_directory(RealFileSystem(), path.path), request)]
    return [
        _task(partition, request)
        for partition in path.directories()
        if request.wants(partition.topic_partition.topic)
    ]


def _task(partition: PartitionDirectory, request: AuditRequest) -> LogCheck:
    try:
        base_offsets, size = segments_of(partition.path)
    except StorageError:
        base_offsets, size = (), 0  # the task reports the trouble
    return LogCheck(
        data_directory=partition.data_directory,
        name=partition.name,
        topic_partition=partition.topic_partition,
        view=partition.view,
        size_bytes=size,
        base_offsets=base_offsets,
        is_deep=request.is_deep,
        now_ms=request.now_ms,
        window_ms=request.window_ms,
        is_at_work=is_locked(partition.data_directory),
    )


def _broken(contents: Iterable[ContentResult]) -> dict[str, frozenset[int]]:
    found: dict[str, frozenset[int]] = {}
    for content in contents:
        found |= content.broken
    return found


def _joined(result: LogResult, contents: Iterable[ContentResult]) -> LogResult:
    """Join the walk over a log with what was seen inside of its segments."""
    windows: list[Windows] = [result.windows]
    findings: list[Finding] = list(result.findings)
    cpu_s = result.cpu_s
    for content in contents:
        windows.append(content.windows)
        findings += content.findings
        cpu_s += content.cpu_s
    return replace(result, windows=merged_windows(windows), findings=findings, cpu_s=cpu_s)
