"""The findings and counts of an audit as values: findings, partitions, windows, totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kbroker.inspection.finding import Severity
from kbroker.inspection.log_walk import CheckTotals
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch
from kbroker.pipeline.auditing.audit_finding import AuditFinding, Side
from kbroker.pipeline.auditing.window_counts import Windows
from kbroker.pipeline.spark_job.offsets import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """The sides to audit. At least one of directories, archive and bootstrap is given."""

    directories: tuple[str, ...] = ()
    archive: str | None = None
    bootstrap: str | None = None
    topics: tuple[str, ...] = ()  # none: all
    is_deep: bool = False
    window_ms: int
    now_ms: int

    def wants(self, topic: str) -> bool:
        """Return whether a topic takes part."""
        return not self.topics or topic in self.topics


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSide:
    """A partition in one directory. No range: it holds no segment."""

    path: str
    range: OffsetRange | None
    high_watermark: int | None
    is_compacted: bool
    totals: CheckTotals
    windows: Windows


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSide:
    """A partition in the archive."""

    stretches: tuple[Stretch, ...]
    files: int
    rows: int
    size_bytes: int
    holes: int  # offsets that are missing with a reason
    windows: Windows


@dataclass(slots=True)
class PartitionSides:
    """One partition on all sides that have it."""

    topic_partition: TopicPartition
    logs: list[LogSide] = field(default_factory=list)
    archive: ArchiveSide | None = None
    cluster: OffsetRange | None = None
    cluster_windows: Windows | None = None  # with a deep look
    errors: int = 0
    warnings: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The whole result. Partitions and findings are in order."""

    request: AuditRequest
    findings: Sequence[AuditFinding]
    partitions: Sequence[PartitionSides]
    totals: CheckTotals  # of directories
    archive_bytes: int
    archive_files: int
    compared_records: int
    cpu_s: float  # of all tasks

    def count(self, severity: Severity) -> int:
        return sum(each.finding.severity is severity for each in self.findings)


PARTITION_COLUMNS = (
    "topic", "partition", "errors", "warnings", "log_start", "log_end", "records", "bytes",
    "archive_start", "archive_end", "archived", "holes", "cluster_start", "cluster_end", "path",
)  # fmt: skip


def partition_rows(report: AuditReport) -> list[dict[str, object]]:
    """Return a row for each partition, and for each directory that has it."""
    rows = []
    for sides in report.partitions:
        logs: list[LogSide | None] = [*sides.logs] or [None]
        rows += [_row(sides, log) for log in logs]
    return rows


def window_rows(report: AuditReport) -> list[dict[str, object]]:
    """Return a row for each partition, side and window."""
    rows: list[dict[str, object]] = []
    for sides in report.partitions:
        for log in sides.logs:
            rows += _window_rows(Side.LOG, sides.topic_partition, log.windows, log.path)
        if sides.archive is not None:
            rows += _window_rows(Side.ARCHIVE, sides.topic_partition, sides.archive.windows, None)
        if sides.cluster_windows is not None:
            rows += _window_rows(Side.CLUSTER, sides.topic_partition, sides.cluster_windows, None)
    return rows


def _row(sides: PartitionSides, log: LogSide | None) -> dict[str, object]:
    archive, cluster = sides.archive, sides.cluster
    stretches = archive.stretches if archive else ()
    return {
        "topic": sides.topic_partition.topic,
        "partition": sides.topic_partition.partition,
        "errors": sides.errors,
        "warnings": sides.warnings,
        "log_start": log.range.start if log and log.range else None,
        "log_end": log.range.end if log and log.range else None,
        "records": sum(count.records for count in log.windows.values()) if log else None,
        "bytes": log.totals.size_bytes if log else None,
        "archive_start": stretches[0].start_offset if stretches else None,
        "archive_end": stretches[-1].end_offset if stretches else None,
        "archived": archive.rows if archive else None,
        "holes": archive.holes if archive else None,
        "cluster_start": cluster.start if cluster else None,
        "cluster_end": cluster.end if cluster else None,
        "path": log.path if log else None,
    }


def _window_rows(
    side: Side, place: TopicPartition, windows: Windows, path: str | None
) -> list[dict[str, object]]:
    return [
        {
            "side": side.name.lower(),
            "topic": place.topic,
            "partition": place.partition,
            "window_start_ms": start,
            "records": count.records,
            "markers": count.markers,
            "batches": count.batches,
            "size_bytes": count.size_bytes,
            "min_timestamp_ms": count.min_timestamp_ms,
            "max_timestamp_ms": count.max_timestamp_ms,
            "compression_ratio": count.compression_ratio,
            "path": path,
        }
        for start, count in sorted(windows.items())
    ]
