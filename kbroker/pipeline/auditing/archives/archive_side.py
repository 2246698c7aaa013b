"""The archive's side of an audit: its files as tasks, and how everything fits together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbroker.inspection.finding import Findings
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.auditing.archives.archive_coverage import check_coverage
from kbroker.pipeline.auditing.archives.archive_files import FileResult, FileTask, check_parquet
from kbroker.pipeline.auditing.archives.archive_history import ReadArchive, foreign_files, named_now
from kbroker.pipeline.auditing.archives.archived_offsets import ArchivedOffsets
from kbroker.pipeline.auditing.audit_finding import AuditFinding, Side, placed
from kbroker.pipeline.auditing.audit_report import ArchiveSide, AuditRequest
from kbroker.pipeline.auditing.window_counts import merged_windows
from kbroker.pipeline.finding_codes import AuditCode
from kbroker.pipeline.spark_job.spread import Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedArchive:
    """Everything that was seen of the archive."""

    state: ArchiveState
    findings: Sequence[AuditFinding]
    offsets: Mapping[TopicPartition, ArchivedOffsets]
    sides: Mapping[TopicPartition, ArchiveSide]
    files: int
    size_bytes: int
    cpu_s: float


def check_archive(archive: ReadArchive, request: AuditRequest, spread: Spread) -> CheckedArchive:
    """Check the files, and how they and the manifests fit together."""
    state, path = archive.state, archive.state.path
    foreign = Findings()
    foreign_files(state, foreign)
    findings = placed(Side.ARCHIVE, None, [*archive.findings.all(), *foreign.all()])
    entries = [
        entry for kind in ("data", "rejected") for entry in state.entries(kind=kind)
        if request.wants(entry.topic)
    ]  # fmt: skip
    entries.sort(key=lambda entry: (-entry.size_bytes, entry.path))
    tasks = [FileTask(archive=path, entry=e, window_ms=request.window_ms) for e in entries]
    results = _without_gone(state, spread(check_parquet, tasks))
    by_partition: defaultdict[TopicPartition, list[FileResult]] = defaultdict(list)
    for result in sorted(results, key=lambda each: each.entry.path):
        findings += placed(Side.ARCHIVE, result.entry.topic_partition, result.findings)
        if result.entry.kind == "data":
            by_partition[result.entry.topic_partition].append(result)
    offsets = {}
    sides = {}
    for partition in sorted(set(state.partitions()) | by_partition.keys()):
        if not request.wants(partition.topic):
            continue
        files = by_partition[partition]
        checked = check_coverage(state, partition, files)
        findings += placed(Side.ARCHIVE, partition, checked.findings)
        offsets[partition] = checked.offsets
        sides[partition] = ArchiveSide(
            stretches=checked.offsets.stretches,
            files=len(files),
            rows=sum(result.entry.rows for result in files),
            size_bytes=sum(result.entry.size_bytes for result in files),
            holes=sum(hole.missing for hole in checked.offsets.holes),
            windows=merged_windows(result.windows for result in files),
        )
    return CheckedArchive(
        state=state,
        findings=findings,
        offsets=offsets,
        sides=sides,
        files=len(results),
        size_bytes=sum(result.entry.size_bytes for result in results),
        cpu_s=sum(result.cpu_s for result in results),
    )


def _without_gone(state: ArchiveState, results: Sequence[FileResult]) -> list[FileResult]:
    """Leave out files that are missing because a run has just taken them out of the archive."""
    missing = {
        result.entry.path
        for result in results
        if any(finding.code is AuditCode.ARCHIVE_FILE_MISSING for finding in result.findings)
    }
    gone = missing.difference(named_now(state)) if missing else set()
    return [result for result in results if result.entry.path not in gone]
