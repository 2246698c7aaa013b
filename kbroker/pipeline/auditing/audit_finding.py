"""A finding of an audit: which side, which partition, and the finding itself. Values only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from kbroker.inspection.finding import Finding
from kbroker.model import TopicPartition


class Side(IntEnum):
    """The side that is wrong, in the order of the report."""

    LOG = 0
    ARCHIVE = 1
    CLUSTER = 2


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A finding and its partition; None if it is about a whole directory."""

    side: Side
    finding: Finding
    topic_partition: TopicPartition | None = None

    def row(self) -> dict[str, object]:
        """Return the finding as a row of tables."""
        place, finding = self.topic_partition, self.finding
        return {
            "severity": finding.severity.name.lower(),
            "code": finding.code,
            "side": self.side.name.lower(),
            "topic": place.topic if place else None,
            "partition": place.partition if place else None,
            "path": finding.path,
            "position": finding.position,
            "offset": finding.offset,
            "what": finding.what,
            "advice": finding.advice,
        }


FINDING_COLUMNS = (
    "severity", "code", "side", "topic", "partition", "path", "position", "offset", "what",
    "advice",
)  # fmt: skip


def placed(
    side: Side, place: TopicPartition | None, findings: Iterable[Finding]
) -> list[AuditFinding]:
    """Place findings in one partition, or in none."""
    return [AuditFinding(side, finding, place) for finding in findings]


def in_order(findings: Iterable[AuditFinding]) -> list[AuditFinding]:
    """Sort the worst first, then by place: the same order however the work was spread."""
    return sorted(findings, key=_key)


def _key(each: AuditFinding) -> tuple[object, ...]:
    finding = each.finding
    place = each.topic_partition or TopicPartition("", -1)
    is_rest = finding.what.partition(" ")[2].startswith("more of the same kind")
    position = -1 if finding.position is None else finding.position
    offset = -1 if finding.offset is None else finding.offset
    return (
        -finding.severity, each.side, place, finding.path, is_rest, position, offset, finding.code,
        finding.what,
    )  # fmt: skip
