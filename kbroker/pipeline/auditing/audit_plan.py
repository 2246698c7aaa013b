"""Plans what an audit will look at: where it runs follows from the size, and a side that cannot be
looked at is reported before Spark starts.

The order matters on a running system: the cluster is asked before the archive is read, and that
before the directories, since whatever an archive holds was in a log before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kbroker.pipeline.auditing.archives.archive_history import ReadArchive, read_and_judge
from kbroker.pipeline.auditing.audit_finding import AuditFinding
from kbroker.pipeline.auditing.audit_report import AuditRequest
from kbroker.pipeline.auditing.clusters.cluster_offsets import ClusterOffsets, read_cluster
from kbroker.pipeline.auditing.logs.log_side import plan_logs
from kbroker.pipeline.auditing.logs.log_tasks import LogCheck

Ask = Callable[[str, tuple[str, ...] | None], ClusterOffsets]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """The sides of a request before the work begins."""

    request: AuditRequest
    cluster: ClusterOffsets | None
    archive: ReadArchive | None
    logs: Sequence[LogCheck]
    findings: Sequence[AuditFinding]  # of the directories themselves

    @property
    def size_bytes(self) -> int:
        size = sum(task.size_bytes for task in self.logs)
        if self.archive is not None:
            files = self.archive.state.files.values()
            size += sum(entry.size_bytes for entry in files if self.request.wants(entry.topic))
        return size


def plan_audit(request: AuditRequest, ask: Ask = read_cluster) -> AuditPlan:
    """Look at all sides from outside. Raises PipelineError if a side is something else."""
    cluster = ask(request.bootstrap, request.topics or None) if request.bootstrap else None
    archive = read_and_judge(request.archive) if request.archive else None
    logs, findings = plan_logs(request)
    return AuditPlan(
        request=request, cluster=cluster, archive=archive, logs=logs, findings=findings
    )
