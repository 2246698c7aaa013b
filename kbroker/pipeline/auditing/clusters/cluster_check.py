"""Compares a cluster's offsets with directories and archive. Values in, findings out.

Law: the cluster is asked before and after files are read. What is below its first answer must be in
the files, what is beyond its last cannot be on the cluster. Directories may be those of a broker
that died long ago, or of a follower: being behind is not their fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kbroker.client.consumer_groups import OF_JOBS
from kbroker.inspection.finding import Severity
from kbroker.model import INTERNAL_TOPICS, TopicPartition
from kbroker.pipeline.auditing.audit_finding import AuditFinding, Side
from kbroker.pipeline.auditing.clusters.cluster_offsets import ClusterOffsets
from kbroker.pipeline.finding_codes import AuditCode
from kbroker.pipeline.spark_job.offsets import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLog:
    """A partition directory: its offsets, and the end that its data directory calls committed."""

    path: str
    range: OffsetRange
    high_watermark: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSides:
    """The sides that are compared with the cluster; None: that side takes no part."""

    logs: Mapping[TopicPartition, SeenLog] | None
    archive: Mapping[TopicPartition, OffsetRange] | None
    topics: tuple[str, ...]  # that were asked for; none: all


def compare_cluster(
    before: ClusterOffsets, after: ClusterOffsets, others: OtherSides
) -> list[AuditFinding]:
    """Return everything that does not fit."""
    check = _ClusterCheck(before, after, others)
    return [*check.logs(), *check.archive(), *check.absent(), *check.groups()]


class _ClusterCheck:
    def __init__(self, before: ClusterOffsets, after: ClusterOffsets, others: OtherSides) -> None:
        self._before = before
        self._after = after
        self._others = others

    def logs(self) -> Iterator[AuditFinding]:
        """Compare the offsets of the directories."""
        for place, log in sorted((self._others.logs or {}).items()):
            before, after = self._before.partitions.get(place), self._after.partitions.get(place)
            if place not in self._after.partitions:
                what = f"the cluster does not have it, {log.path} does"
                yield self._say(AuditCode.CLUSTER_LACKS, place, what, log.range.start)
            if before is not None and log.range.end < before.end:
                what = f"ends with {before.end} on the cluster, with {log.range.end} in {log.path}"
                yield self._say(AuditCode.LOG_BEHIND_CLUSTER, place, what, log.range.end)
            if after is not None and log.range.end > after.end:
                yield self._beyond(place, log, after)

    def _beyond(self, place: TopicPartition, log: SeenLog, after: OffsetRange) -> AuditFinding:
        code = AuditCode.CLUSTER_BEHIND_LOG
        what = f"ends with {after.end} on the cluster, with {log.range.end} in {log.path}"
        if log.high_watermark is not None and log.high_watermark > after.end:
            what += f", where {log.high_watermark} was committed"
            return self._say(code, place, what, after.end)
        advice = "the rest was not committed"
        return self._say(code, place, what, after.end, severity=Severity.INFO, advice=advice)

    def archive(self) -> Iterator[AuditFinding]:
        """Compare the offsets of the archive."""
        for place, archived in sorted((self._others.archive or {}).items()):
            after = self._after.partitions.get(place)
            if place not in self._after.partitions:
                what = "the archive has it, the cluster does not"
                code, start = AuditCode.CLUSTER_LACKS, archived.start
                yield self._say(code, place, what, start, severity=Severity.INFO)
            elif after is not None and archived.end > after.end:
                what = f"ends with {after.end} on the cluster, with {archived.end} in the archive"
                yield self._say(AuditCode.CLUSTER_BEHIND_ARCHIVE, place, what, after.end)
            elif after is not None and archived.end < after.start:
                what = f"begins with {after.start} on the cluster, the archive ends with "
                what += f"{archived.end}: what lies between is in neither"
                yield self._say(AuditCode.ARCHIVE_OVERTAKEN, place, what, archived.end)

    def absent(self) -> Iterator[AuditFinding]:
        """Report topics that other sides do not have."""
        wanted = self._others.topics
        known = {place.topic for place in self._after.partitions}
        for topic in sorted(set(wanted) - known):
            place, what = TopicPartition(topic, -1), f"{topic} is not on the cluster"
            yield self._say(AuditCode.TOPIC_MISSING, place, what, None)
        for side, places in (("the directories", self._others.logs),
                             ("the archive", self._others.archive)):  # fmt: skip
            if places is None:
                continue
            for place in sorted(self._after.partitions.keys() - places.keys()):
                found = self._before.partitions.get(place)
                is_internal = place.topic in INTERNAL_TOPICS
                if found is None or not found.count or (is_internal and not wanted):
                    continue
                severity = Severity.WARNING if place.topic in wanted else Severity.INFO
                what = f"is on the cluster, with {found.count} offsets, and not in {side}"
                code = AuditCode.PARTITION_ABSENT
                is_archive = places is self._others.archive
                advice = "it was not archived" if is_archive else code.advice
                yield self._say(code, place, what, found.start, severity=severity, advice=advice)

    def groups(self) -> Iterator[AuditFinding]:
        """Report group offsets beyond the ends; they were asked for first: no lag is negative."""
        for name, group in sorted(self._before.groups.items()):
            if name.startswith(OF_JOBS):  # offsets of a job's progress, not of what was read here
                continue
            for place, committed in sorted(_committed(group.committed.items())):
                end = self._after.partitions.get(place)
                if committed is None or end is None or committed <= end.end:
                    continue
                what = f"group {name} has committed {committed}, the partition ends with {end.end}"
                yield self._say(AuditCode.GROUP_BEYOND_END, place, what, committed)

    def _say(
        self,
        code: AuditCode,
        place: TopicPartition,
        what: str,
        offset: int | None,
        *,
        severity: Severity | None = None,
        advice: str | None = None,
    ) -> AuditFinding:
        path = f"{self._after.bootstrap} ({place})" if place.partition >= 0 else place.topic
        finding = code.finding(path, what, offset=offset, severity=severity, advice=advice)
        return AuditFinding(Side.CLUSTER, finding, place if place.partition >= 0 else None)


def _committed(
    items: Iterable[tuple[tuple[str, int], int | None]],
) -> Iterator[tuple[TopicPartition, int | None]]:
    return ((TopicPartition(*place), offset) for place, offset in items)
