"""An audit from its request to its report: directories, archive and cluster, each by itself and
against each other.

The cluster is asked first, when the audit is planned, and last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbroker.inspection.finding import Severity
from kbroker.inspection.log_paths import topics_below
from kbroker.inspection.log_walk import CheckTotals
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.model import INTERNAL_TOPICS, TopicPartition
from kbroker.pipeline.auditing.archives.archive_side import CheckedArchive, check_archive
from kbroker.pipeline.auditing.audit_finding import AuditFinding, Side, in_order, placed
from kbroker.pipeline.auditing.audit_plan import Ask, AuditPlan
from kbroker.pipeline.auditing.audit_report import AuditReport, AuditRequest, PartitionSides
from kbroker.pipeline.auditing.clusters.cluster_check import OtherSides, SeenLog, compare_cluster
from kbroker.pipeline.auditing.clusters.cluster_counts import check_counts, count_cluster
from kbroker.pipeline.auditing.clusters.cluster_offsets import ClusterOffsets, read_cluster
from kbroker.pipeline.auditing.comparison.contents_compared import (
    ContentsResult,
    ContentsTask,
    compare_contents,
)
from kbroker.pipeline.auditing.logs.log_side import (
    findings_of,
    other_topics,
    run_logs,
    side_of,
)
from kbroker.pipeline.auditing.logs.log_tasks import LogCheck, LogResult
from kbroker.pipeline.errors import no_such_topics
from kbroker.pipeline.spark_job.offsets import OffsetRange
from kbroker.pipeline.spark_job.source import Source
from kbroker.pipeline.spark_job.spread import Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """The means of an audit. `spark` and `source` are for counting what the cluster serves."""

    spread: Spread
    ask: Ask = read_cluster
    spark: Any = None
    source: Source | None = None


def run_plan(plan: AuditPlan, means: Means) -> AuditReport:
    """Do what was planned. Raises PipelineError if that is no longer possible."""
    request, findings = plan.request, list(plan.findings)
    archive = None
    if plan.archive is not None:
        archive = check_archive(plan.archive, request, means.spread)
        findings += archive.findings
    logs = run_logs(plan.logs, archive.offsets if archive else {}, means.spread)
    findings += findings_of(logs)
    findings += other_topics(logs, archive.state.topic_ids if archive else {})
    contents = _compare_contents(request, plan.logs, archive, means.spread)
    for content in contents:
        findings += placed(Side.ARCHIVE, content.topic_partition, content.findings)
    sides = _sides(logs, archive)
    if plan.cluster is not None and request.bootstrap:
        after = means.ask(request.bootstrap, request.topics or None)
        findings += compare_cluster(plan.cluster, after, _other_sides(request, sides))
        _add_cluster(sides, after)
        if request.is_deep and means.source is not None:
            findings += _count(sides, means, means.source, request.window_ms)
    _check_topics(plan, means.ask, sides)
    return _report(request, findings, sides, _Work(logs, archive, contents))


@dataclass(frozen=True, slots=True)
class _Work:
    logs: list[LogResult]
    archive: CheckedArchive | None
    contents: list[ContentsResult]

    @property
    def cpu_s(self) -> float:
        archive = self.archive.cpu_s if self.archive else 0.0
        compared = sum(content.cpu_s for content in self.contents)
        return archive + compared + sum(result.cpu_s for result in self.logs)


def _compare_contents(
    request: AuditRequest, tasks: Sequence[LogCheck], archive: CheckedArchive | None, spread: Spread
) -> list[ContentsResult]:
    """Compare the records of every segment with those of the archive; only with a deep look."""
    if archive is None or not request.is_deep:
        return []
    wanted = []
    for task in tasks:
        files = archive.state.entries(task.topic_partition)
        following = (*task.base_offsets[1:], 2**62)
        for base_offset, after in zip(task.base_offsets, following, strict=False):
            overlapping = tuple(
                entry
                for entry in files
                if entry.first_offset < after and entry.last_offset >= base_offset
            )
            if overlapping:
                wanted.append(
                    ContentsTask(
                        directory=task.path,
                        topic_partition=task.topic_partition,
                        base_offset=base_offset,
                        archive=archive.state.path,
                        files=overlapping,
                    )
                )
    return spread(compare_contents, wanted)


def _sides(
    logs: Iterable[LogResult], archive: CheckedArchive | None
) -> dict[TopicPartition, PartitionSides]:
    sides: dict[TopicPartition, PartitionSides] = {}
    for result in sorted(logs, key=lambda each: each.task.path):
        place = result.task.topic_partition
        sides.setdefault(place, PartitionSides(place)).logs.append(side_of(result))
    for place, side in (archive.sides if archive else {}).items():
        sides.setdefault(place, PartitionSides(place)).archive = side
    return sides


def _other_sides(
    request: AuditRequest, sides: Mapping[TopicPartition, PartitionSides]
) -> OtherSides:
    logs = {
        place: SeenLog(path=log.path, range=log.range, high_watermark=log.high_watermark)
        for place, each in sides.items()
        for log in each.logs
        if log.range is not None
    }
    archived = {
        place: OffsetRange(each.archive.stretches[0].start_offset, each.archive.stretches[-1][1])
        for place, each in sides.items()
        if each.archive is not None and each.archive.stretches
    }
    return OtherSides(
        logs=logs if request.directories else None,
        archive=archived if request.archive else None,
        topics=request.topics,
    )


def _check_topics(plan: AuditPlan, ask: Ask, sides: Iterable[TopicPartition]) -> None:
    """Refuse a misspelt topic: it must not pass for one that is sound."""
    request = plan.request
    missing = sorted(set(request.topics) - {place.topic for place in sides})
    if missing:
        there = topics_below(RealFileSystem(), request.directories)
        if plan.archive is not None:
            there |= {entry.topic for entry in plan.archive.state.files.values()}
        if request.bootstrap:
            there |= {place.topic for place in ask(request.bootstrap, None).partitions}
        places = [*request.directories, request.archive, request.bootstrap]
        raise no_such_topics(filter(None, places), missing, there)


def _add_cluster(sides: dict[TopicPartition, PartitionSides], cluster: ClusterOffsets) -> None:
    for place, found in cluster.partitions.items():
        if place.topic in INTERNAL_TOPICS and place not in sides:
            continue
        sides.setdefault(place, PartitionSides(place)).cluster = found


def _count(
    sides: dict[TopicPartition, PartitionSides], means: Means, source: Source, window_ms: int
) -> list[AuditFinding]:
    ranges = {
        place: each.cluster
        for place, each in sides.items()
        if each.cluster is not None and each.cluster.count and place.topic not in INTERNAL_TOPICS
    }
    counted = count_cluster(means.spark, source, ranges, window_ms)
    findings: list[AuditFinding] = []
    for place, windows in counted.items():
        sides[place].cluster_windows = windows
        findings += check_counts(sides[place])
    return findings


def _report(
    request: AuditRequest,
    findings: list[AuditFinding],
    sides: Mapping[TopicPartition, PartitionSides],
    work: _Work,
) -> AuditReport:
    errors: Counter[TopicPartition | None] = Counter()
    warnings: Counter[TopicPartition | None] = Counter()
    for each in findings:
        errors[each.topic_partition] += each.finding.severity is Severity.ERROR
        warnings[each.topic_partition] += each.finding.severity is Severity.WARNING
    for place, side in sides.items():
        side.errors, side.warnings = errors[place], warnings[place]
    totals = CheckTotals()
    for result in work.logs:
        totals.add(result.checked.totals)
    return AuditReport(
        request=request,
        findings=in_order(findings),
        partitions=[sides[place] for place in sorted(sides)],
        totals=totals,
        archive_bytes=work.archive.size_bytes if work.archive else 0,
        archive_files=work.archive.files if work.archive else 0,
        compared_records=sum(content.records for content in work.contents),
        cpu_s=work.cpu_s,
    )
