"""Holds a cluster's offsets against directories and archive. Values in, findings out.

Law: the cluster is asked before and after files are read. What lies below its first answer has to
be in the files, what lies beyond its last cannot be on it. Directories may be those of a broker
that died long ago, or of a follower: being behind is no error of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kbroker.inspection.finding import Finding, Severity
from kbroker.model import INTERNAL_TOPICS, TopicPartition
from kbroker.pipeline.audit.audit_finding import AuditFinding, Side
from kbroker.pipeline.audit.clusters.cluster_offsets import ClusterOffsets
from kbroker.pipeline.spark_job.offsets import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLog:
    """A partition directory: its offsets, and what its data directory calls committed."""

    path: str
    range: OffsetRange
    high_watermark: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSides:
    """What is held against the cluster; None: that side takes no part."""

    logs: Mapping[TopicPartition, SeenLog] | None
    archive: Mapping[TopicPartition, OffsetRange] | None
    topics: tuple[str, ...]  # that were asked for; none: all


def check_cluster(
    before: ClusterOffsets, after: ClusterOffsets, others: OtherSides
) -> list[AuditFinding]:
    """All that does not fit."""
    check = _ClusterCheck(before, after, others)
    return [*check.logs(), *check.archive(), *check.absent(), *check.groups()]


class _ClusterCheck:
    def __init__(self, before: ClusterOffsets, after: ClusterOffsets, others: OtherSides) -> None:
        self._before = before
        self._after = after
        self._others = others

    def logs(self) -> Iterator[AuditFinding]:
        """The directories' offsets."""
        for place, log in sorted((self._others.logs or {}).items()):
            before, after = self._before.partitions.get(place), self._after.partitions.get(place)
            if place not in self._after.partitions:
                what = f"the cluster does not have it, {log.path} does"
                yield self._say(
                    Severity.WARNING, "cluster-lacks", place, what,
                    "it was deleted, or this is another cluster", log.range.start,
                )  # fmt: skip
            if before is not None and log.range.end < before.end:
                what = f"ends with {before.end} on the cluster, with {log.range.end} in {log.path}"
                yield self._say(
                    Severity.WARNING, "log-behind-cluster", place, what,
                    "a follower may be behind; a broker that died has not what came later",
                    log.range.end,
                )  # fmt: skip
            if after is not None and log.range.end > after.end:
                yield self._beyond(place, log, after)

    def _beyond(self, place: TopicPartition, log: SeenLog, after: OffsetRange) -> AuditFinding:
        committed = log.high_watermark is not None and log.high_watermark > after.end
        what = f"ends with {after.end} on the cluster, with {log.range.end} in {log.path}"
        if committed:
            what += f", where {log.high_watermark} was committed"
        advice = (
            "committed records are not on the cluster any more: take them from this directory"
            if committed
            else "the rest was not committed"
        )
        severity = Severity.ERROR if committed else Severity.INFO
        return self._say(severity, "cluster-behind-log", place, what, advice, after.end)

    def archive(self) -> Iterator[AuditFinding]:
        """The archive's offsets."""
        for place, archived in sorted((self._others.archive or {}).items()):
            after = self._after.partitions.get(place)
            if place not in self._after.partitions:
                what = "the archive has it, the cluster does not"
                yield self._say(
                    Severity.INFO, "cluster-lacks", place, what,
                    "it was deleted, or this is another cluster", archived.start,
                )  # fmt: skip
            elif after is not None and archived.end > after.end:
                what = f"ends with {after.end} on the cluster, with {archived.end} in the archive"
                yield self._say(
                    Severity.ERROR, "cluster-behind-archive", place, what,
                    "the cluster lost records, or the topic was made anew", after.end,
                )  # fmt: skip
            elif after is not None and archived.end < after.start:
                what = f"begins with {after.start} on the cluster, the archive ends with "
                what += f"{archived.end}: what lies between is in neither"
                yield self._say(
                    Severity.ERROR, "archive-overtaken", place, what,
                    "archive more often than retention deletes", archived.end,
                )  # fmt: skip

    def absent(self) -> Iterator[AuditFinding]:
        """Topics that other sides do not have."""
        wanted = self._others.topics
        known = {place.topic for place in self._after.partitions}
        for topic in sorted(set(wanted) - known):
            yield self._say(
                Severity.WARNING, "topic-missing", TopicPartition(topic, -1),
                f"{topic} is not on the cluster", "see `kbroker topic list`", None,
            )  # fmt: skip
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
                advice = "another broker may have it"
                if places is self._others.archive:
                    advice = "it was not archived"
                code = "partition-absent"
                yield self._say(severity, code, place, what, advice, found.start)

    def groups(self) -> Iterator[AuditFinding]:
        """Offsets of groups beyond the ends; groups were asked first, so no lag is negative."""
        for name, group in sorted(self._before.groups.items()):
            for place, committed in sorted(_committed(group.committed.items())):
                end = self._after.partitions.get(place)
                if committed is None or end is None or committed <= end.end:
                    continue
                what = f"group {name} has committed {committed}, the partition ends with {end.end}"
                yield self._say(
                    Severity.WARNING, "group-beyond-end", place, what,
                    "it is set to what auto.offset.reset says, and reads records again or never",
                    committed,
                )  # fmt: skip

    def _say(
        self,
        severity: Severity,
        code: str,
        place: TopicPartition,
        what: str,
        advice: str,
        offset: int | None,
    ) -> AuditFinding:
        path = f"{self._after.bootstrap} ({place})" if place.partition >= 0 else place.topic
        finding = Finding(severity, code, path, what, advice, None, offset)
        return AuditFinding(Side.CLUSTER, finding, place if place.partition >= 0 else None)


def _committed(
    items: Iterable[tuple[tuple[str, int], int | None]],
) -> Iterator[tuple[TopicPartition, int | None]]:
    return ((TopicPartition(*place), offset) for place, offset in items)
